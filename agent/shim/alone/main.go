// Command alone is the shim as a program of its own: package shim and nothing else, so that one task costs the start of a
// program of two megabytes instead of thirty. `make build` puts it into mind; package embedded brings it out again.
package main

import (
	"os"

	_ "github.com/mindcoordinator/mind/agent/shim" // runs the whole shim before main
)

func main() {
	_, _ = os.Stderr.WriteString("this is the shim of mind's agent; it is started by the agent\n")
	os.Exit(2)
}
