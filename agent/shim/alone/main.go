// Command alone is the shim as a separate program: package shim and nothing else, so that a task starts a program of
// two megabytes instead of thirty. `make build` embeds it in mind; package embedded extracts it.
package main

import (
	"os"

	_ "github.com/mindcoordinator/mind/agent/shim" // runs the whole shim before main
)

func main() {
	_, _ = os.Stderr.WriteString("this is the shim of mind's agent; the agent starts it\n")
	os.Exit(2)
}
