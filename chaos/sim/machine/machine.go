// Package machine is a node without its agent, for a simulation: its power, its clocks, its disk, and the shims with their
// programs, which go on when the agent dies.
//
// When a program is stopped and with which signal is decided by the real shim.Hold and shim.StopPlan. Programs are made up:
// some obey a signal, and some have to be killed.
package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/mindcoordinator/mind/agent/lease"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/chaos/sim/engine"
)

// Watcher sees what happens on machines, and says what programs do.
type Watcher interface {
	// Program is how long the program of a job wants to run, and its exit code.
	Program(job string) (run int64, code int)
	// Started comes when a program begins to run, Lapsed when its shim begins to stop it for its deadline.
	Started(m *Machine, r *Record)
	Lapsed(m *Machine, r *Record)
}

// Machine is one.
type Machine struct {
	// Boots counts how often its power was switched on.
	Boots int
	// Disk survives the agent, and a cut of the power.
	Disk Disk
	// Immortal makes its shims ignore deadlines.
	Immortal bool

	name    string
	engine  *engine.Engine
	watcher Watcher
	rate    float64 // of its clock
	powered bool
	bootAt  int64
}

// Disk is what is on it.
type Disk struct {
	Starts uint64 // of the agent
	Roster *v1.Roster
	Tasks  []*Record // in the order of their coming
}

// Record is the directory of a task.
type Record struct {
	ID              taskid.ID
	Name            string
	Spec            *v1.TaskSpec
	Lease           lease.Task
	Acked, Disowned bool
	Exit            *shim.Exit

	process *Process // nil: no shim was started
}

// New returns a machine without power.
func New(e *engine.Engine, name string, rate float64, w Watcher) *Machine {
	return &Machine{name: name, engine: e, rate: rate, watcher: w}
}

// String is its name.
func (m *Machine) String() string { return m.name }

// Clock is the monotonic one; it starts from zero at each boot.
func (m *Machine) Clock() int64 {
	return int64(float64(m.engine.Now()-m.bootAt)*m.rate) + 10*int64(time.Second)
}

// Time is Clock in another form.
func (m *Machine) Time() time.Time { return time.Unix(0, m.Clock()) }

// Until is the time until the clock says so.
func (m *Machine) Until(clock int64) int64 { return int64(float64(clock-m.Clock())/m.rate) + 1 }

// BootID is another one after each boot.
func (m *Machine) BootID() string { return fmt.Sprintf("boot-%d", m.Boots) }

// Powered says whether it has power.
func (m *Machine) Powered() bool { return m.powered }

// PowerOn gives it power; false: it has.
func (m *Machine) PowerOn() bool {
	if m.powered {
		return false
	}
	m.powered, m.bootAt = true, m.engine.Now()
	m.Boots++
	m.engine.Note("boots", m.name, "", uint64(m.Boots), 0)
	return true
}

// PowerOff ends all programs at once.
func (m *Machine) PowerOff() {
	m.engine.Note("loses power", m.name, "", uint64(m.Boots), 0)
	m.powered = false
	for _, r := range m.Disk.Tasks {
		if r.process != nil {
			r.process.alive = false
		}
	}
	if m.engine.Chance(0.5) { // What is on the disk of tasks is not synced.
		m.Disk.Tasks = nil
	}
}

// after has the machine do something, unless its power is cut before.
func (m *Machine) after(d int64, do func()) {
	boot := m.Boots
	m.engine.After(d, func() {
		if m.powered && m.Boots == boot {
			do()
		}
	})
}

// Find is the record of a task; nil: there is none.
func (m *Machine) Find(id taskid.ID) *Record {
	return m.find(func(r *Record) bool { return r.ID == id })
}

// Named is the record of a task by its name.
func (m *Machine) Named(name string) *Record {
	return m.find(func(r *Record) bool { return r.Name == name })
}

func (m *Machine) find(is func(*Record) bool) *Record {
	if i := slices.IndexFunc(m.Disk.Tasks, is); i >= 0 {
		return m.Disk.Tasks[i]
	}
	return nil
}

// Create makes the record of a task.
func (m *Machine) Create(id taskid.ID) *Record {
	r := &Record{ID: id, Name: id.Name()}
	m.Disk.Tasks = append(m.Disk.Tasks, r)
	return r
}

// Remove removes records.
func (m *Machine) Remove(ids []taskid.ID) {
	m.Disk.Tasks = slices.DeleteFunc(m.Disk.Tasks, func(r *Record) bool { return slices.Contains(ids, r.ID) })
}

// Alive are the tasks of which a program runs.
func (m *Machine) Alive(yield func(*Record) bool) {
	for _, r := range m.Disk.Tasks {
		if r.Alive() && !yield(r) {
			return
		}
	}
}

// Alive says whether a program of the task runs.
func (r *Record) Alive() bool { return r.process != nil && r.process.alive }
