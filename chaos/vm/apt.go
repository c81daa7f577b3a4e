package vm

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

// apt fetches Debian's packages with apt-get, which checks them against the signed index. It installs nothing, and
// needs no root rights.
type apt struct{}

// kernelPackage is an empty package that depends on the newest kernel for virtual machines.
const kernelPackage = "linux-image-cloud-amd64"

var concrete = regexp.MustCompile(`(?m)^\s*Depends: (linux-image-\d\S*)`)

func (apt) into(ctx context.Context, dir string) error {
	for _, tool := range []string{"apt-get", "apt-cache", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s is not here: this is not a Debian system", tool)
		}
	}
	out, err := exec.CommandContext(ctx, "apt-cache", "depends", kernelPackage).Output()
	if err != nil {
		return fmt.Errorf("apt-cache does not know %s: run apt-get update; where the system is not Debian's, it has no such package%s", kernelPackage, said(err))
	}
	name := concrete.FindSubmatch(out)
	if name == nil {
		return fmt.Errorf("%s depends on no kernel: %s", kernelPackage, strings.TrimSpace(string(out)))
	}
	// Downloads by root run as a user who cannot write into the cache, unless this is set.
	get := exec.CommandContext(ctx, "apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", string(name[1]), "busybox-static")
	get.Dir = dir
	if out, err := get.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get download %s busybox-static: %w: %s (an old index? run apt-get update)", name[1], err, strings.TrimSpace(string(out)))
	}
	return nil
}

// said returns what a failed command wrote to stderr.
func said(err error) string {
	var exit *exec.ExitError
	if !errors.As(err, &exit) || len(exit.Stderr) == 0 {
		return ""
	}
	return ": " + strings.TrimSpace(string(exit.Stderr))
}
