// Package devices lets the tasks of a node open the devices that they may use, and no others: of the GPUs, those of their
// lease.
//
// Contract: Open finds out whether the kernel can filter. Attach is called with the control group of a task before its first
// process starts in it. The filter is a program in the kernel (BPF), attached to the group: it holds for all groups below
// it, and goes with it. Nothing takes it away while the task runs, neither the end of the agent nor a reload of systemd,
// which changes its own groups only.
//
// Guarantees: a task opens no disk and no device that is not listed here or by the operator; it opens GPUs of its lease only,
// with their MIG instances. A GPU whose device cannot be found is an error.
//
// Not guaranteed: that a device that was opened elsewhere is kept out. A descriptor that is passed to a task stays usable.
package devices

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// usual are the devices that every task may open, below /dev: those of any program, and those of RDMA and of accelerators that are not
// leased one by one.
var usual = []string{
	"null", "zero", "full", "random", "urandom", "tty", "ptmx", "infiniband", "gdrdrv", "knem", "xpmem", "dri", "kfd", "accel",
}

const (
	// firstTerminal and lastTerminal are the major numbers of /dev/pts.
	firstTerminal, lastTerminal = 136, 143
	// freshness is how long the listed devices are used again: a burst of launches must not look at all of /dev for each.
	freshness = time.Second
	// mostPrograms limits the programs that are kept loaded, one for each set of devices.
	mostPrograms = 64
)

// Config configures a Filter.
type Config struct {
	// Group is a control group in which the filter is tried out.
	Group string
	// More are paths of devices that the operator allows, or of directories of some.
	More []string
	Log  *slog.Logger

	dev, proc string // replace /dev and /proc in tests
}

// Filter limits the devices of tasks.
type Filter struct {
	cfg Config
	// anyGPU: this machine does not say which device a GPU is.
	anyGPU bool

	mu       sync.Mutex
	looked   time.Time // when common was made
	common   []rule
	programs map[string]int // descriptors, by the text of their rules
}

// Check returns an error for a path that is none of a device or of a directory.
func Check(paths []string) error {
	for _, path := range paths {
		info, err := os.Lstat(path)
		if err != nil {
			return fmt.Errorf("devices: %w", err)
		}
		if !filepath.IsAbs(path) || !info.IsDir() && info.Mode()&os.ModeDevice == 0 {
			return fmt.Errorf("devices has %q: each is the absolute path of a device or of a directory of some, without links", path)
		}
	}
	return nil
}

// Open returns a filter. The error says why the kernel has none.
func Open(cfg Config) (*Filter, error) {
	if cfg.dev == "" {
		cfg.dev, cfg.proc = "/dev", "/proc"
	}
	f := &Filter{cfg: cfg, programs: make(map[string]int)}
	if len(f.gpuNodes()) > 0 {
		if known, err := f.minors(); err != nil || len(known) == 0 {
			f.anyGPU = true
			cfg.Log.Warn("JOBS CAN OPEN ALL GPUS of this node: the driver does not say which device a GPU is", "error", err)
		}
	}
	if err := f.Attach(cfg.Group, nil); err != nil {
		return nil, err
	}
	return f, nil
}

// All reports whether GPUs are filtered, too.
func (f *Filter) All() bool { return !f.anyGPU }

// Close unloads the programs. Those that are attached stay.
func (f *Filter) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fd := range f.programs {
		_ = unix.Close(fd)
	}
	f.programs = nil
}

// Attach filters the devices of a control group. places are the leased GPUs: a UUID each, or UUID/GPU INSTANCE/COMPUTE INSTANCE
// for a slice. Simulated ones have no device.
func (f *Filter) Attach(group string, places []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.looked) > freshness || f.looked.IsZero() {
		f.common, f.looked = f.listed(), time.Now()
	}
	gpus, err := f.leased(places)
	if err != nil {
		return err
	}
	rules := slices.Concat(f.common, gpus)
	slices.SortFunc(rules, rule.compare)
	program, err := f.load(slices.Compact(rules))
	if err != nil {
		return fmt.Errorf("load a filter of devices: %w", err)
	}
	dir, err := unix.Open(group, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: group, Err: err}
	}
	defer unix.Close(dir)
	if err := attach(dir, program); err != nil {
		return fmt.Errorf("filter the devices of %s: %w", group, err)
	}
	return nil
}

// load returns a loaded program. The caller holds the lock.
func (f *Filter) load(rules []rule) (int, error) {
	text := fmt.Sprint(rules)
	if fd, ok := f.programs[text]; ok {
		return fd, nil
	}
	fd, err := load(assemble(rules))
	if err != nil {
		return -1, err
	}
	if len(f.programs) >= mostPrograms {
		for text, fd := range f.programs {
			_ = unix.Close(fd)
			delete(f.programs, text)
		}
	}
	f.programs[text] = fd
	return fd, nil
}

// listed returns the rules of the devices that all tasks may open.
func (f *Filter) listed() (rules []rule) {
	for _, name := range usual {
		rules = append(rules, found(filepath.Join(f.cfg.dev, name))...)
	}
	for major := uint32(firstTerminal); major <= lastTerminal; major++ {
		rules = append(rules, rule{major: major, anyMinor: true})
	}
	nvidia, _ := filepath.Glob(f.cfg.dev + "/nvidia*")
	for _, path := range nvidia {
		switch name := filepath.Base(path); {
		case isGPU(name) && !f.anyGPU:
		case name == "nvidia-caps" && !f.anyGPU: // of MIG: by lease, and those that change instances never
		case strings.HasPrefix(name, "nvidia-nvswitch"): // for the fabric manager
		default:
			rules = append(rules, found(path)...)
		}
	}
	for _, path := range f.cfg.More {
		rules = append(rules, found(path)...)
	}
	return rules
}

// found returns the rules of a device, or of all devices in a directory. Links lead to devices that have a rule of their own, or none.
func found(path string) (rules []rule) {
	var stat unix.Stat_t
	if unix.Lstat(path, &stat) != nil {
		return nil
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFCHR:
		return []rule{{major: unix.Major(stat.Rdev), minor: unix.Minor(stat.Rdev)}}
	case unix.S_IFBLK:
		return []rule{{block: true, major: unix.Major(stat.Rdev), minor: unix.Minor(stat.Rdev)}}
	case unix.S_IFDIR:
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil
		}
		for _, e := range entries {
			rules = append(rules, found(filepath.Join(path, e.Name()))...)
		}
	}
	return rules
}
