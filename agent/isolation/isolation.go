// Package isolation decides how far the tasks of a node are kept apart from each other and from the machine, and prepares
// what that needs.
//
// Contract: Open is called once, when the agent starts, before it adopts tasks. It returns the level that holds for every
// task of this agent. Task names the control group of a task, and Room its namespaces; package shim makes, enters, empties and
// removes them.
//
// Guarantees: at a level that was asked for by name, tasks have control groups, or Open fails and says what is missing. Without
// one, Open takes the strongest level that needs no configuration and that the machine can give; Full is never taken unasked. Walls and limits hold as far as the kernel has them; what it lacks is said in the log.
package isolation

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/agent/isolation/devices"
)

// Level is how far tasks are kept apart.
type Level string

// The levels. Each includes those before it.
const (
	// None: a task has the descendants of its command.
	None Level = "none"
	// Cgroup: a task is a control group; its end leaves no process, whatever the task did. It reaches no path of the agent or of
	// another tenant, and no process of others.
	Cgroup Level = "cgroup"
	// Full: a task also has namespaces. It sees no process of others, shares no memory and no temporary files, cannot change the
	// system, and finds no directory of the agent.
	Full Level = "full"
)

// Levels are the names of all levels, the weakest first.
func Levels() []string { return []string{string(None), string(Cgroup), string(Full)} }

// Label is the label of a node with the level of its agent.
const Label = "mind.io/isolation"

// Check returns an error for a name that is no level. The empty name means the strongest level that needs no configuration.
func Check(level string) error {
	if level == "" {
		return nil
	}
	for _, known := range Levels() {
		if level == known {
			return nil
		}
	}
	return fmt.Errorf("isolation is %q: it is one of %s", level, strings.Join(Levels(), ", "))
}

// Config says what to prepare.
type Config struct {
	// Level is the level that is asked for; empty: the strongest one that needs no configuration.
	Level string
	// Parent is a directory of cgroup v2 that is delegated to the agent; empty: it is looked for.
	Parent string
	// Node and DataDir are those of the agent.
	Node, DataDir string
	// Private are the paths that no job may read; nil: none.
	Private Private
	// Users: tasks run as users of their tenants.
	Users bool
	// Paths are the paths in which jobs may write; empty: all but those of the system. With "/", paths have no walls.
	Paths []string
	// Devices are paths of devices that tasks may open, beside the usual ones and the GPUs of their lease.
	Devices []string
	// Mounts are directories and files of the machine in the namespaces of each task, as SOURCE:TARGET:ro or SOURCE:TARGET:rw.
	Mounts []string
	// MountRoots are directories below which the sources of mounts of jobs may be, each perhaps with :ro; none: jobs mount nothing.
	MountRoots []string
	// ShmMB is the size of /dev/shm of each task, in MiB; 0: half of the memory that the task asked for, or of the machine's.
	ShmMB int
	Log   *slog.Logger

	find func() (string, error) // replaces find in tests
}

// everywhere, in Paths, takes the walls around paths away: programs that mount, as containers in jobs do, cannot run behind them.
const everywhere = "/"

// confines reports whether the operator asks for walls around paths.
func (c Config) confines() bool { return len(c.Paths) > 0 && !slices.Contains(c.Paths, everywhere) }

// Isolation is the level that holds on a node.
type Isolation struct {
	Level Level
	// Controllers are the controllers of cgroup v2 that limit tasks here, such as memory.
	Controllers []string

	groups  string   // the directory of the tasks' groups
	files   []string // the limits that these can have
	scope   bool     // tasks are kept from the processes of others
	private Private  // nil: tasks reach all paths
	given   []string
	more    []string        // devices that the operator lists
	room    *room           // nil: tasks have no namespaces
	filter  *devices.Filter // nil: tasks open all devices

	mu     sync.Mutex
	looked time.Time // when common was made
	common Paths
}

// Open prepares the level.
func Open(cfg Config) (*Isolation, error) {
	if err := Check(cfg.Level); err != nil {
		return nil, err
	}
	if (len(cfg.Mounts) > 0 || len(cfg.MountRoots) > 0 || cfg.ShmMB != 0) && Level(cfg.Level) != Full {
		return nil, errors.New("mounts, mount_roots and shm_mb need isolation: full")
	}
	if cfg.ShmMB < 0 {
		return nil, errors.New("shm_mb is negative")
	}
	if Level(cfg.Level) == None {
		if cfg.confines() {
			return nil, errors.New("task_paths is set, and isolation is none: leave one of them out")
		}
		if len(cfg.Devices) > 0 {
			return nil, errors.New("devices is set, and isolation is none: leave one of them out")
		}
		if cfg.Parent != "" {
			return nil, errors.New("cgroup_parent is set, and isolation is none: leave one of them out")
		}
		return &Isolation{Level: None}, nil
	}
	i, err := openGroups(cfg)
	switch {
	case err == nil:
		if err := i.openWalls(cfg); err != nil {
			i.Close()
			return nil, err
		}
		if err := i.openFilter(cfg); err != nil {
			i.Close()
			return nil, fmt.Errorf("isolation %s: %w", cmp.Or(Level(cfg.Level), Cgroup), err)
		}
		if Level(cfg.Level) == Full {
			if err := i.openRoom(cfg); err != nil {
				i.Close()
				return nil, fmt.Errorf("isolation %s: %w", Full, err)
			}
		}
		if !slices.Contains(i.Controllers, "memory") {
			cfg.Log.Warn("the memory of jobs is not limited: the agent has no controller memory of cgroup v2")
		}
		cfg.Log.Info("each task gets a control group", "isolation", i.Level, "groups", i.groups, "controllers", strings.Join(i.Controllers, " "), "devices", i.Devices())
		return i, nil
	case cfg.Level != "" || cfg.Parent != "" || cfg.confines() || len(cfg.Devices) > 0:
		return nil, fmt.Errorf("isolation %s: %w", cmp.Or(Level(cfg.Level), Cgroup), err)
	}
	cfg.Log.Warn("TASKS ARE NOT ISOLATED: a process that a task hides can outlive it; give the agent control groups, or set isolation: none to accept this",
		"isolation", None, "why", err)
	return &Isolation{Level: None}, nil
}

// Close removes the groups of the agent, unless tasks still have some.
func (i *Isolation) Close() {
	if i.filter != nil {
		i.filter.Close()
	}
	if i.groups != "" {
		removeEmpty(i.groups)
	}
}

// Groups is the directory of the groups of all tasks; empty: tasks have none.
func (i *Isolation) Groups() string { return i.groups }

// Task returns the control group of a task; empty: it has none.
func (i *Isolation) Task(name string) string {
	if i.groups == "" {
		return ""
	}
	return filepath.Join(i.groups, name)
}

// removeEmpty removes a group and the groups in it. The kernel refuses that for those that have processes.
func removeEmpty(group string) {
	entries, err := os.ReadDir(group)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			removeEmpty(filepath.Join(group, e.Name()))
		}
	}
	_ = os.Remove(group)
}
