package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Kit has the parts of virtual machines that were found on this machine.
type Kit struct {
	// Kernel is the path of the image, Modules the folder of its modules, Version the kernel's version.
	Kernel, Modules, Version string
	// Busybox is the path of a statically linked busybox.
	Busybox string

	qemu, mkfs, e2fsck, debugfs string
}

// LacksError describes what must be installed or fetched before a machine can be started.
type LacksError struct {
	// Packages are the Debian packages of the missing programs.
	Packages []string
	// Why is set when the kernel or busybox could not be fetched.
	Why error
}

func (e *LacksError) Error() string {
	if e.Why != nil {
		return "a virtual machine needs a kernel and busybox: " + e.Why.Error()
	}
	return fmt.Sprintf("a virtual machine needs programs that are not installed: apt-get install %s", strings.Join(e.Packages, " "))
}

func (e *LacksError) Unwrap() error { return e.Why }

// programs are the required programs of the host, and their packages.
var programs = []struct {
	name, pkg string
	path      func(*Kit) *string
}{
	{"qemu-system-x86_64", "qemu-system-x86", func(k *Kit) *string { return &k.qemu }},
	{"mkfs.ext4", "e2fsprogs", func(k *Kit) *string { return &k.mkfs }},
	{"e2fsck", "e2fsprogs", func(k *Kit) *string { return &k.e2fsck }},
	{"debugfs", "e2fsprogs", func(k *Kit) *string { return &k.debugfs }},
}

// FindKit finds the programs, and takes the kernel and busybox from the cache, or fetches them into it. The error is a
// *LacksError if a part is missing.
func FindKit(ctx context.Context) (*Kit, error) { return findKit(ctx, apt{}) }

// CachedKit is like FindKit, but fetches nothing: tests use the parts that `make powercut` has fetched, and are skipped
// without them.
func CachedKit(ctx context.Context) (*Kit, error) { return findKit(ctx, nobody{}) }

// nobody fetches nothing.
type nobody struct{}

func (nobody) into(context.Context, string) error {
	return errors.New("they are not in the cache; `make powercut` fetches them")
}

func findKit(ctx context.Context, from fetcher) (*Kit, error) {
	k := &Kit{}
	var missing []string
	for _, p := range programs {
		path, err := find(p.name)
		if err != nil {
			if !slices.Contains(missing, p.pkg) {
				missing = append(missing, p.pkg)
			}
			continue
		}
		*p.path(k) = path
	}
	if len(missing) > 0 {
		return nil, &LacksError{Packages: missing}
	}
	dir, err := cacheDir()
	if err != nil {
		return nil, err
	}
	found, err := store{dir: dir, fetch: from}.open(ctx)
	if err != nil {
		return nil, &LacksError{Why: err}
	}
	k.Kernel, k.Modules, k.Version, k.Busybox = found.kernel, found.modules, found.version, found.busybox
	return k, nil
}

// find finds a program also in folders that are not in the PATH of users without root rights.
func find(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed", name)
}

func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("where the kernel and busybox are kept: %w", err)
	}
	return filepath.Join(dir, "mind", "vm"), nil
}

// IsLacking reports whether an error is a LacksError.
func IsLacking(err error) bool {
	var lacks *LacksError
	return errors.As(err, &lacks)
}
