package vm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/u-root/u-root/pkg/cpio"

	"github.com/mindcoordinator/mind/chaos/vm/guest"
)

// baseModules are what a machine needs for its disks and its network. ext4 finds its checksums by the name of their
// algorithm, and asks nobody to load them.
var baseModules = []string{"virtio_pci", "virtio_blk", "virtio_net", "crc32c_generic", "ext4"}

// Files is what the first file system of a machine holds, beside busybox and the modules of the kernel.
type Files struct {
	// Init is the program of chaos/vm/guest/init.
	Init string
	// Programs are files of this machine, which must need no libraries, by the names that they get in /bin.
	Programs map[string]string
	// Modules of the kernel to load, beyond those for disks and the network.
	Modules []string
}

// etc are the small files that programs look for.
var etc = map[string]string{
	"etc/passwd":        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
	"etc/group":         "root:x:0:\nnogroup:x:65534:\n",
	"etc/hosts":         "127.0.0.1 localhost\n" + guest.Address + " machine\n",
	"etc/hostname":      "machine\n",
	"etc/nsswitch.conf": "hosts: files dns\n",
}

// WriteInitramfs writes the first file system of a machine. The owner of every file is root, as any user.
func (k *Kit) WriteInitramfs(path string, f Files) error {
	var records []cpio.Record
	for _, dir := range []string{"bin", "boot", guest.ModuleDir[1:], "dev", "etc", "proc", "root", "run", "sys", "tmp"} {
		records = append(records, cpio.Directory(dir, 0o755))
	}
	// The kernel gives process 1 its console before anything is mounted.
	records = append(records, cpio.CharDev("dev/console", 0o600, 5, 1), cpio.Symlink("sbin", "bin"))
	for _, name := range sorted(etc) {
		records = append(records, cpio.StaticFile(name, etc[name], 0o644))
	}
	program := func(name, file string) error {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("the program %s of the machine: %w", name, err)
		}
		records = append(records, cpio.StaticFile(name, string(text), 0o755))
		return nil
	}
	errs := []error{program("init", f.Init), program("bin/busybox", k.Busybox)}
	for _, name := range sorted(f.Programs) {
		errs = append(errs, program(filepath.Join("bin", name), f.Programs[name]))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	modules, err := openModules(k.Modules)
	if err != nil {
		return fmt.Errorf("the modules of the kernel: %w", err)
	}
	files, err := modules.order(slices.Concat(baseModules, f.Modules)...)
	if err != nil {
		return fmt.Errorf("the modules of the kernel: %w", err)
	}
	for i, file := range files {
		image, err := readModule(file)
		if err != nil {
			return err
		}
		records = append(records, cpio.StaticFile(fmt.Sprintf("%s/%02d-%s.ko", guest.ModuleDir[1:], i, moduleName(file)), string(image), 0o644))
	}
	// Machines that are made of the same have the same file system.
	cpio.MakeAllReproducible(records)
	var out bytes.Buffer
	w := cpio.Newc.Writer(&out)
	if err := errors.Join(cpio.WriteRecords(w, records), cpio.WriteTrailer(w)); err != nil {
		return fmt.Errorf("writing the initial file system: %w", err)
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

func sorted(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
