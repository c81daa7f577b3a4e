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

// Kit is what machines are made of, as found on this machine.
type Kit struct {
	// Kernel is the image, Modules the folder of its modules, Version what it calls itself.
	Kernel, Modules, Version string
	// Busybox is linked statically: it runs on no libraries.
	Busybox string

	qemu, mkfs, e2fsck, debugfs string
}

// LacksError says what must be installed or fetched before a machine can be started.
type LacksError struct {
	// Packages are names of Debian packages that have the programs that are missing.
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

// programs of the host, and where they come from.
var programs = []struct {
	name, pkg string
	path      func(*Kit) *string
}{
	{"qemu-system-x86_64", "qemu-system-x86", func(k *Kit) *string { return &k.qemu }},
	{"mkfs.ext4", "e2fsprogs", func(k *Kit) *string { return &k.mkfs }},
	{"e2fsck", "e2fsprogs", func(k *Kit) *string { return &k.e2fsck }},
	{"debugfs", "e2fsprogs", func(k *Kit) *string { return &k.debugfs }},
}

// FindKit looks for the programs, and takes the kernel and busybox from the cache, or fetches them into it. The error is a
// *LacksError when something must be had first.
func FindKit(ctx context.Context) (*Kit, error) { return findKit(ctx, apt{}) }

// CachedKit is FindKit that fetches nothing: tests use what `make powercut` has fetched, and skip where it was not.
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

// find looks where users without root rights do not.
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

// IsLacking says whether an error means that this machine cannot run machines until something is installed or fetched.
func IsLacking(err error) bool {
	var lacks *LacksError
	return errors.As(err, &lacks)
}
