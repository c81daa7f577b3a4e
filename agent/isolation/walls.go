package isolation

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/agent/safedir"
	"github.com/mindcoordinator/mind/agent/shim/confine"
)

// The versions of Landlock from which on it lets files be moved between directories, keeps files from being emptied, and keeps signals
// in.
const (
	landlockMoves    = 2
	landlockTruncate = 3
	landlockScopes   = 6
)

// system are the top directories that a task reads and does not change. The other ones are for work: home directories, shared
// file systems, scratch disks.
var system = []string{"/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr", "/var"}

// configs is where the system, and often Mind, has its configuration.
const configs = "/etc"

// nodes are the devices that a task may use, beside GPUs. The filter of devices decides which of them it can open.
var nodes = []string{
	"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "mqueue", "hugepages", "fuse",
	"infiniband", "gdrdrv", "knem", "xpmem", "dri", "kfd", "accel",
}

// work are directories below system ones that are for work.
var work = []string{"/run/lock", "/run/user", "/var/tmp", "/var/scratch"}

// Private are the paths of a node that no job may read.
type Private interface {
	All() []string
	Holds(real string, owned ...string) bool
	Reaches(real string, owned ...string) bool
}

// Paths are the paths that all tasks of a node may use, beside their own.
type Paths struct {
	read, write []string
}

// choosePaths returns the paths of a node. given are those that the operator lists; without any, all but the system is for work.
//
// A private path below a work directory cannot be kept from tasks: to hide it, the kernel would have to forbid new files beside it.
// exposed are such directories.
func choosePaths(private Private, top, given []string) (p Paths, exposed []string) {
	for _, dir := range top {
		switch {
		case dir == "/dev":
			for _, name := range nodes {
				p.write = append(p.write, filepath.Join(dir, name))
			}
			// Nodes of all GPUs, and those that all of them share: nvidiactl, nvidia-uvm, nvidia-caps and so on.
			gpus, _ := filepath.Glob(dir + "/nvidia*")
			p.write = append(p.write, gpus...)
		case dir == configs:
			// Files there are replaced while a task runs, /etc/resolv.conf for example: rules for single files would lose them.
			p.read = append(p.read, dir)
		case slices.Contains(system, dir):
			p.read = append(p.read, visible(private, dir)...)
		case len(given) == 0 && private.Reaches(dir):
			exposed = append(exposed, dir)
			p.write = append(p.write, dir)
		case len(given) == 0:
			p.write = append(p.write, dir)
		}
	}
	if len(given) == 0 {
		given = work
	}
	for _, dir := range given {
		if private.Reaches(dir) {
			exposed = append(exposed, dir)
		}
		p.write = append(p.write, dir)
	}
	return p, exposed
}

// visible returns a directory, or, if private paths lie in it, the entries of it that are none and have none.
func visible(private Private, dir string) []string {
	if !private.Reaches(dir) {
		return []string{dir}
	}
	if private.Holds(dir) {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var all []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.Type()&os.ModeSymlink != 0: // its target has a rule, or none
		case e.IsDir():
			all = append(all, visible(private, path)...)
		case !private.Holds(path):
			all = append(all, path)
		}
	}
	return all
}

// topDirs lists the entries of the root directory.
func topDirs() ([]string, error) {
	entries, err := os.ReadDir("/")
	if err != nil {
		return nil, fmt.Errorf("read the root directory: %w", err)
	}
	var top []string
	for _, e := range entries {
		path := "/" + e.Name()
		if e.Type()&os.ModeSymlink != 0 && !slices.Contains(system, path) {
			// Such as /home, which leads to /var/home on some systems.
			if path, err = filepath.EvalSymlinks(path); err != nil {
				continue
			}
		}
		// Files there, such as that of the swap space, are for no job.
		if info, err := os.Lstat(path); err == nil && (info.IsDir() || info.Mode()&os.ModeSymlink != 0) {
			top = append(top, path)
		}
	}
	return top, nil
}

// openWalls decides which paths tasks reach.
func (i *Isolation) openWalls(cfg Config) error {
	makeDevices(cfg.Log)
	i.scope = true // needs no Landlock: it also bounds capabilities
	version := confine.LandlockVersion()
	switch {
	case version == 0:
		return noLandlock(cfg, "the kernel has no Landlock: it was started without it (lsm=landlock,...)")
	case version < landlockMoves:
		// Programs could not move a file from one directory to another.
		return noLandlock(cfg, "the kernel is older than Linux 5.19")
	case version < landlockTruncate:
		cfg.Log.Warn("jobs can empty files outside of their paths, as far as their user may: the kernel is older than Linux 6.2")
	}
	if version < landlockScopes {
		cfg.Log.Warn("tasks of one user can signal each other: the kernel is older than Linux 6.12")
	}
	for _, path := range cfg.Paths {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("task_paths has %q: each is an absolute path of a directory for jobs, such as /scratch", path)
		}
	}
	if slices.Contains(cfg.Paths, everywhere) {
		return nil
	}
	for _, path := range cfg.Paths {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return fmt.Errorf("task_paths: %w", err)
		}
		i.given = append(i.given, real)
	}
	if cfg.Private == nil {
		return nil
	}
	i.private, i.more = cfg.Private, cfg.Devices
	if cfg.Private.Reaches(configs) && !cfg.Users {
		cfg.Log.Warn("JOBS CAN READ KEYS OR SECRETS OF THE AGENT below " + configs + ", as far as its user may: move them, for example to /var/lib/mind/keys, or give tenants users of their own (users, default_user)")
	}
	_, exposed, err := i.paths()
	if err != nil {
		return err
	}
	if Level(cfg.Level) == Full {
		exposed = nil // its mounts hide them
	}
	switch {
	case len(exposed) > 0 && len(cfg.Paths) > 0:
		return fmt.Errorf("%s of task_paths has private directories in it (data_dir, keys, archives or private_dirs): a job there would reach them", exposed[0])
	case len(exposed) > 0:
		cfg.Log.Warn("JOBS REACH THE DIRECTORIES OF THE AGENT, as far as their user may: these lie where jobs work; move them, for example to /var/lib/mind, or set task_paths",
			"where", strings.Join(exposed, " "))
	}
	return nil
}

// makeDevices makes the device node that the first program with CUDA after a start of the machine makes otherwise, by a program with
// privileges that a task does not get any more.
func makeDevices(log *slog.Logger) {
	const driver, memory = "/dev/nvidiactl", "/dev/nvidia-uvm"
	if _, err := os.Stat(driver); err != nil {
		return // no GPUs of NVIDIA
	}
	if _, err := os.Stat(memory); err == nil {
		return
	}
	out, err := exec.Command("nvidia-modprobe", "-u", "-c", "0").CombinedOutput()
	if _, missing := os.Stat(memory); missing != nil {
		log.Warn("jobs cannot use CUDA: "+memory+" is not there, and they may not make it; run nvidia-modprobe -u -c 0 as root when the machine starts, or nvidia-persistenced",
			"error", err, "output", strings.TrimSpace(string(out)))
	}
}

func noLandlock(cfg Config, why string) error {
	if cfg.confines() {
		return errors.New("task_paths cannot hold: " + why)
	}
	cfg.Log.Warn("JOBS REACH ALL PATHS that their user may use, those of the agent too", "why", why)
	return nil
}

func (i *Isolation) paths() (Paths, []string, error) {
	top, err := topDirs()
	if err != nil {
		return Paths{}, nil, err
	}
	p, exposed := choosePaths(i.private, top, i.given)
	return p, exposed, nil
}

// freshness is how long the paths of a node are used again: a burst of launches must not look at the whole machine for each.
const freshness = time.Second

// commonPaths returns the paths that all tasks may use. Mounts and directories at the root come and go.
func (i *Isolation) commonPaths() (Paths, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.looked.IsZero() && time.Since(i.looked) < freshness {
		return i.common, nil
	}
	p, _, err := i.paths()
	if err == nil {
		p.write = append(p.write, i.more...)
		i.common, i.looked = p, time.Now()
	}
	return p, err
}

// Works reports whether a path, which is absolute and without links, lies in a directory in which jobs work: where the walls let
// every task write. Without walls around paths, that is everywhere.
func (i *Isolation) Works(real string) bool {
	if i == nil || i.private == nil {
		return true
	}
	p, err := i.commonPaths()
	dirs := p.write
	if i.room != nil {
		for _, m := range i.room.mounts {
			if m.Write && m.From == m.To {
				dirs = append(slices.Clone(dirs), m.To)
			}
		}
	}
	return err == nil && slices.ContainsFunc(dirs, func(dir string) bool { return safedir.Within(real, dir) })
}

// Walls returns the walls of a task. read and write are its own paths.
func (i *Isolation) Walls(read, write []string) (confine.Walls, error) {
	walls := confine.Walls{Scope: i.scope}
	if i.private == nil {
		return walls, nil
	}
	p, err := i.commonPaths()
	if err != nil {
		return walls, err
	}
	walls.Read, walls.Write = slices.Concat(p.read, read), slices.Concat(p.write, write)
	if i.room != nil {
		more, free := i.room.writable()
		walls.Read, walls.Write = append(walls.Read, more...), append(walls.Write, free...)
	}
	return walls, nil
}
