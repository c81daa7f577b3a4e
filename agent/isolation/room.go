package isolation

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mindcoordinator/mind/agent/safedir"
	"github.com/mindcoordinator/mind/agent/shim/confine"
)

// Memory file systems of a room: each task has its own.
var (
	temporary = []string{"/tmp", "/var/tmp"}
	shared    = "/dev/shm"
	// runtime has the sockets of services: those of systemd, D-Bus and container daemons start processes outside of every wall.
	runtime     = "/run"
	runtimeDirs = []string{"/run/lock", "/run/user"}
)

// services are the paths below runtime that tasks need: for the names of hosts and users, and for GPUs.
var services = []string{
	"/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf", "/run/nscd", "/run/nvidia-persistenced",
}

// room are the namespaces of the tasks of a node.
type room struct {
	private Private // nil: nothing is hidden
	mounts  []confine.Mount
	roots   []root // where the sources of mounts of jobs may be
	anyPath bool   // the operator lets jobs work everywhere
	shmMB   int
}

// Own are the paths of one task.
type Own struct {
	// Dir is the directory of the task, which is read-only but for Files, the names of files and directories in it. One that is
	// missing is left out.
	Dir   string
	Files []string
	// Read and Write are its other paths, absolute and without links.
	Read, Write []string
	// Mounts are those that the job asked for.
	Mounts []confine.Mount
	// MemoryMB is the memory that it asked for; 0: none.
	MemoryMB int
}

// openRoom prepares the level full, and makes a room to see whether the machine allows it.
func (i *Isolation) openRoom(cfg Config) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("namespaces need an agent that runs as root: it runs as user %d; use isolation: cgroup, or start it as root", os.Geteuid())
	}
	roots, err := parseRoots(cfg.MountRoots)
	if err != nil {
		return err
	}
	r := &room{private: cfg.Private, roots: roots, anyPath: slices.Contains(cfg.Paths, everywhere), shmMB: cfg.ShmMB}
	for _, text := range cfg.Mounts {
		m, err := parseMount(text)
		if err == nil {
			err = r.allow(m)
		}
		if err != nil {
			return fmt.Errorf("mounts has %q: %w", text, err)
		}
		r.mounts = append(r.mounts, m)
	}
	i.room = r
	try, err := i.Room(Own{Dir: cfg.DataDir})
	if err != nil {
		return err
	}
	thread := confine.NewThread()
	defer thread.Close()
	thread.Do(func() { err = try.Enter() })
	if err != nil {
		return fmt.Errorf("make namespaces as a task gets them (Linux 5.14, and CAP_SYS_ADMIN, which containers lack): %w", err)
	}
	try.End()
	i.Level = Full
	return nil
}

// parseMount parses SOURCE:TARGET:MODE.
func parseMount(text string) (m confine.Mount, err error) {
	fields := strings.Split(text, ":")
	if len(fields) != 3 || !slices.Contains([]string{"ro", "rw"}, fields[2]) {
		return m, errors.New("each is SOURCE:TARGET:ro or SOURCE:TARGET:rw, such as /datasets:/datasets:ro")
	}
	for _, path := range fields[:2] {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path {
			return m, fmt.Errorf("%s is no absolute path, or has . or .. in it", path)
		}
	}
	m = confine.Mount{Kind: confine.Bound, To: fields[1], Write: fields[2] == "rw"}
	if m.To == "/" || safedir.Within(m.To, "/proc") {
		return m, fmt.Errorf("nothing can be mounted at %s", m.To)
	}
	m.From, err = filepath.EvalSymlinks(fields[0])
	return m, err
}

// allow returns an error for a mount that would show the agent's directories to jobs, or that has no place.
func (r *room) allow(m confine.Mount) error {
	if r.private != nil && (r.private.Holds(m.From) || r.private.Reaches(m.From) && m.From != m.To) {
		return fmt.Errorf("%s has private directories (data_dir, keys, archives or private_dirs): a job would reach them", m.From)
	}
	if inMemory := slices.ContainsFunc(r.fresh(0), func(f confine.Mount) bool { return safedir.Within(m.To, f.To) }); inMemory {
		return nil
	}
	if real, err := filepath.EvalSymlinks(m.To); err != nil || real != m.To {
		return fmt.Errorf("its target is no path on this machine, or leads through a link (%s)", m.To)
	}
	return nil
}

// fresh returns the file systems in memory. Their size is half of the memory of the task; without a limit of that, the kernel's
// default, which is half of the machine's.
func (r *room) fresh(memoryMB int) (all []confine.Mount) {
	size := func(mb int) string {
		if mb <= 0 {
			return ""
		}
		return ",size=" + strconv.Itoa(mb) + "m"
	}
	add := func(path, options string) {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		mine := func(m confine.Mount) bool { return m.To == path }
		if !slices.ContainsFunc(r.mounts, mine) && !slices.ContainsFunc(all, mine) {
			all = append(all, confine.Mount{Kind: confine.Memory, To: path, Options: options, Optional: true})
		}
	}
	for _, path := range temporary {
		add(path, "mode=1777"+size(memoryMB/2))
	}
	add(shared, "mode=1777"+size(cmp.Or(r.shmMB, memoryMB/2)))
	add(runtime, "mode=755,size=16m")
	for _, path := range runtimeDirs {
		add(path, "mode=1777,size=16m")
	}
	return all
}

// Room returns the namespaces of a task. Below the level full, it has none.
func (i *Isolation) Room(own Own) (confine.Room, error) {
	if i.room == nil {
		return confine.Room{}, nil
	}
	work, err := i.room.work(i.given)
	if err != nil {
		return confine.Room{}, err
	}
	fresh := i.room.fresh(own.MemoryMB)
	all := append(fresh, confine.Mount{Kind: confine.Queues, To: "/dev/mqueue", Optional: true})
	for _, path := range services {
		all = append(all, bound(path, false))
	}
	// The whole tree is read-only, apart from these.
	for _, path := range slices.Concat(work, []string{"/dev/pts", "/dev/hugepages"}) {
		all = append(all, bound(path, true))
	}
	all = append(append(all, i.room.mounts...), own.Mounts...)
	if i.room.private != nil {
		// Some of them come after the agent's start. One within another is hidden with it.
		hidden := i.room.private.All()
		for _, path := range hidden {
			inOther := func(other string) bool { return other != path && safedir.Within(path, other) }
			if !slices.ContainsFunc(hidden, inOther) {
				all = append(all, confine.Mount{Kind: confine.Hidden, To: path})
			}
		}
	}
	mine := []confine.Mount{{Kind: confine.Bound, From: own.Dir, To: own.Dir}}
	for _, name := range own.Files {
		mine = append(mine, bound(filepath.Join(own.Dir, name), true))
	}
	// On a file system of the network, root may be unable to reach a directory of a user: no mount is made where none is needed.
	for _, path := range own.Read {
		if there, _ := confine.Shown(all, path); !there {
			mine = append(mine, bound(path, false))
		}
	}
	for _, path := range own.Write {
		if _, writable := confine.Shown(all, path); !writable {
			mine = append(mine, confine.Mount{Kind: confine.Bound, From: path, To: path, Write: true})
		}
	}
	// A directory comes before those in it.
	slices.SortStableFunc(mine, func(a, b confine.Mount) int { return len(a.To) - len(b.To) })
	return confine.Room{Mounts: append(all, mine...)}, nil
}

func bound(path string, write bool) confine.Mount {
	return confine.Mount{Kind: confine.Bound, From: path, To: path, Write: write, Optional: true}
}

// work returns the directories of the machine in which jobs work: given, or all at the root that are not of the system.
func (r *room) work(given []string) ([]string, error) {
	if len(given) > 0 && !r.anyPath {
		return given, nil
	}
	top, err := topDirs()
	if err != nil {
		return nil, err
	}
	all := []string{"/var/scratch"}
	for _, dir := range top {
		if dir != "/dev" && !slices.Contains(system, dir) && !slices.Contains(temporary, dir) {
			all = append(all, dir)
		}
	}
	return all, nil
}

// writable returns the paths of a room that its walls must let through, beside those of the task.
func (r *room) writable() (read, write []string) {
	for _, m := range r.fresh(0) {
		if m.To != runtime {
			write = append(write, m.To)
		}
	}
	for _, m := range r.mounts {
		if m.Write {
			write = append(write, m.To)
		} else {
			read = append(read, m.To)
		}
	}
	return read, write
}
