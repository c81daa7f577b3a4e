// Package series records the history of a task's numbers: the ones in its metrics file, and the sensor values of its
// GPUs.
//
// It owns the file "series" in a task's directory, in the format of package api/series.
//
// Contract: a Book has a Recorder for each task that an agent follows. The task's watcher gives it the lines of the metrics
// file, Sample the sensors of the task's GPUs. Read returns the series of a task, whether it runs or has ended.
//
// Guarantees: memory and file are bounded, whatever the program reports. Each line counts once, also when the agent
// restarts: the file records up to which offset it contains the metrics file. Simulated GPUs and sensors that cannot be
// read have no series.
//
// Not guaranteed: the samples of the last SaveEvery before the agent is killed. The time of lines that were written
// while no agent ran, or that were not saved, is estimated, as if they had been written at a steady pace. The file is
// not synced: after a power cut it may be missing, and then the history is made again from the metrics file.
package series
