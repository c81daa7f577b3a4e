package vm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// module is the module of this program, which also has the programs of a machine.
const module = "github.com/mindcoordinator/mind/"

// InitPackage is the package of the program for Files.Init.
const InitPackage = "chaos/vm/guest/init"

// Build builds a program of this module for a machine: without libraries, for its processor. flags are passed to go
// build. It must be called in a folder of the module.
func Build(ctx context.Context, pkg, out string, flags ...string) error {
	args := append([]string{"build", "-buildvcs=false", "-ldflags", "-s -w", "-o", out}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, module+pkg)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w: %s", pkg, err, text)
	}
	return nil
}
