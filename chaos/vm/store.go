package vm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// store keeps the fetched packages: DIR/unpacked has the unpacked packages, and DIR/sums.json the digests of their
// files.
type store struct {
	dir   string
	fetch fetcher
}

// fetcher puts the packages that have the kernel and busybox into a folder, as .deb files.
type fetcher interface {
	into(ctx context.Context, dir string) error
}

// found has the paths of the parts in an unpacked store.
type found struct{ kernel, modules, version, busybox string }

const (
	unpackedDir = "unpacked"
	sumsFile    = "sums.json"
)

// open returns the kept parts, if all of them are unchanged, and fetches them otherwise. Several processes may call it
// at the same time.
func (s store) open(ctx context.Context) (found, error) {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return found{}, err
	}
	lock, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return found{}, err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return found{}, fmt.Errorf("waiting for another process that fetches: %w", err)
	}
	if s.check() == nil {
		return locate(filepath.Join(s.dir, unpackedDir))
	}
	if err := s.fill(ctx); err != nil {
		return found{}, fmt.Errorf("%w (or put linux-image-*-cloud-amd64*.deb and busybox-static*.deb of Debian into %s)", err, s.dir)
	}
	return locate(filepath.Join(s.dir, unpackedDir))
}

// fill fetches and unpacks the packages into a temporary folder, and renames that when it is complete.
func (s store) fill(ctx context.Context) error {
	aside, err := os.MkdirTemp(s.dir, "fetching-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(aside) }()
	debs, _ := filepath.Glob(filepath.Join(s.dir, "*.deb"))
	if len(debs) == 0 {
		if err := s.fetch.into(ctx, aside); err != nil {
			return err
		}
		debs, _ = filepath.Glob(filepath.Join(aside, "*.deb"))
	}
	tree := filepath.Join(aside, unpackedDir)
	for _, deb := range debs {
		if out, err := exec.CommandContext(ctx, "dpkg-deb", "-x", deb, tree).CombinedOutput(); err != nil {
			return fmt.Errorf("unpacking %s: %w: %s", filepath.Base(deb), err, out)
		}
	}
	if err := prune(tree); err != nil {
		return err
	}
	if _, err := locate(tree); err != nil {
		return err
	}
	sums, err := sumsOf(tree)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(sums, "", "  ")
	if err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(s.dir, unpackedDir)); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.dir, sumsFile), text, 0o644); err != nil {
		return err
	}
	return os.Rename(tree, filepath.Join(s.dir, unpackedDir))
}

// prune removes files of the packages that a machine does not need.
func prune(tree string) error {
	for _, name := range []string{"usr/share"} {
		if err := os.RemoveAll(filepath.Join(tree, name)); err != nil {
			return err
		}
	}
	return nil
}

// locate finds the parts in an unpacked tree.
func locate(tree string) (found, error) {
	one := func(what string, patterns ...string) (string, error) {
		for _, p := range patterns {
			all, _ := filepath.Glob(filepath.Join(tree, p))
			switch len(all) {
			case 0:
			case 1:
				return all[0], nil
			default:
				return "", fmt.Errorf("there are %d of %s: %s", len(all), what, strings.Join(all, ", "))
			}
		}
		return "", fmt.Errorf("the packages hold no %s", what)
	}
	var f found
	var errs [3]error
	f.kernel, errs[0] = one("kernel", "boot/vmlinuz-*")
	f.modules, errs[1] = one("modules", "lib/modules/*", "usr/lib/modules/*")
	f.busybox, errs[2] = one("busybox", "bin/busybox", "usr/bin/busybox")
	f.version = filepath.Base(f.modules)
	return f, errors.Join(errs[:]...)
}

// check compares the kept files with their digests.
func (s store) check() error {
	text, err := os.ReadFile(filepath.Join(s.dir, sumsFile))
	if err != nil {
		return err
	}
	want := map[string]string{}
	if err := json.Unmarshal(text, &want); err != nil {
		return err
	}
	have, err := sumsOf(filepath.Join(s.dir, unpackedDir))
	if err != nil {
		return err
	}
	if len(have) != len(want) {
		return fmt.Errorf("%d files, fetched were %d", len(have), len(want))
	}
	for name, sum := range want {
		if have[name] != sum {
			return fmt.Errorf("%s is not what was fetched", name)
		}
	}
	return nil
}

// sumsOf returns the SHA-256 of all files of a tree.
func sumsOf(tree string) (map[string]string, error) {
	sums := map[string]string{}
	err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		h := sha256.New()
		if _, err := io.Copy(h, f); err != nil {
			return err
		}
		name, err := filepath.Rel(tree, path)
		sums[name] = hex.EncodeToString(h.Sum(nil))
		return err
	})
	return sums, err
}
