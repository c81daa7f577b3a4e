package vm

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// kernelModules has the modules of a kernel. The file of each one names the others that it needs.
type kernelModules struct {
	files   map[string]string // name -> file
	builtin map[string]bool
}

// moduleName returns the kernel's name of the module in a file.
func moduleName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

func openModules(dir string) (*kernelModules, error) {
	m := &kernelModules{files: map[string]string{}, builtin: map[string]bool{}}
	text, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return nil, err
	}
	for line := range strings.FieldsSeq(string(text)) {
		m.builtin[moduleName(line)] = true
	}
	return m, filepath.WalkDir(filepath.Join(dir, "kernel"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.Contains(d.Name(), ".ko") {
			m.files[moduleName(path)] = path
		}
		return err
	})
}

// order lists the files of some modules and of their dependencies, in the order in which they can be loaded. Modules
// that are built into the kernel need no file.
func (m *kernelModules) order(names ...string) ([]string, error) {
	var files []string
	done := map[string]bool{}
	var visit func(name string) error
	visit = func(name string) error {
		name = strings.ReplaceAll(name, "-", "_")
		if done[name] || m.builtin[name] {
			return nil
		}
		done[name] = true
		file, ok := m.files[name]
		if !ok {
			return fmt.Errorf("the kernel has no module %s", name)
		}
		needs, err := needs(file)
		if err != nil {
			return err
		}
		for _, n := range needs {
			if err := visit(n); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		files = append(files, file)
		return nil
	}
	for _, name := range names {
		if err := visit(name); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// needs reads the section of a module with its dependencies.
func needs(file string) ([]string, error) {
	image, err := readModule(file)
	if err != nil {
		return nil, err
	}
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, fmt.Errorf("reading the module %s: %w", file, err)
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, errors.New(file + " is no kernel module")
	}
	info, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("reading the module %s: %w", file, err)
	}
	for field := range bytes.SplitSeq(info, []byte{0}) {
		if list, ok := strings.CutPrefix(string(field), "depends="); ok && list != "" {
			return strings.Split(list, ","), nil
		}
	}
	return nil, nil
}

// readModule reads a module, which may be compressed.
func readModule(file string) ([]byte, error) {
	var tool string
	switch filepath.Ext(file) {
	case ".ko":
		return os.ReadFile(file)
	case ".xz":
		tool = "xz"
	case ".zst":
		tool = "zstd"
	default:
		return nil, fmt.Errorf("%s is compressed in a way that is not known here", file)
	}
	image, err := exec.Command(tool, "-dc", file).Output()
	if err != nil {
		return nil, fmt.Errorf("decompressing the module %s: %w%s", file, err, said(err))
	}
	return image, nil
}
