package main

import "path/filepath"

// hasGPUs reports whether the NVIDIA driver shows devices on this machine. The agent identifies them.
func hasGPUs() bool {
	found, err := filepath.Glob("/dev/nvidia[0-9]*")
	return err == nil && len(found) > 0
}
