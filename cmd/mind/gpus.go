package main

import "path/filepath"

// hasGPUs says whether the NVIDIA driver shows devices on this machine. What they are, the agent finds out.
func hasGPUs() bool {
	found, err := filepath.Glob("/dev/nvidia[0-9]*")
	return err == nil && len(found) > 0
}
