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

// baseModules are the modules that a machine needs for its disks and its network. ext4 looks up its checksum algorithm
// by name, and does not load it.
var baseModules = []string{"virtio_pci", "virtio_blk", "virtio_net", "crc32c_generic", "ext4"}

// Files are the files of a machine's initial file system, beside busybox and the modules of the kernel.
type Files struct {
	// Init is the path of the built program of chaos/vm/guest/init.
	Init string
	// Programs are paths of statically linked programs, by their names in the machine's /bin.
	Programs map[string]string
	// Modules are kernel modules to load, beside those for disks and the network.
	Modules []string
}

// etc are small files that programs need.
var etc = map[string]string{
	"etc/passwd":        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
	"etc/group":         "root:x:0:\nnogroup:x:65534:\n",
	"etc/hosts":         "127.0.0.1 localhost\n" + guest.Address + " machine\n",
	"etc/hostname":      "machine\n",
	"etc/nsswitch.conf": "hosts: files dns\n",
}

// WriteInitramfs writes the initial file system of a machine. The owner of every file in it is root, whichever user
// writes it.
func (k *Kit) WriteInitramfs(path string, f Files) error {
	var records []cpio.Record
	for _, dir := range []string{"bin", "boot", guest.ModuleDir[1:], "dev", "etc", "proc", "root", "run", "sys", "tmp"} {
		records = append(records, cpio.Directory(dir, 0o755))
	}
	// The kernel opens the console for process 1 before any file system is mounted.
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
	// The same parts make the same file system.
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
