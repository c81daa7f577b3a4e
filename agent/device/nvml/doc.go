// Package nvml lists GPUs through NVIDIA's management library, which comes with the driver. It needs cgo; in builds
// without cgo, Open fails and the agent falls back on package smi.
package nvml
