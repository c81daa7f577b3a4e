// Package machine simulates a node without its agent: its power, its clocks, its disk, and the shims with their
// programs, which keep running when the agent dies.
//
// The real shim.Hold and shim.StopPlan decide when a program is stopped and with which signal. Programs are simulated:
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

// Watcher observes machines, and defines what programs do.
type Watcher interface {
	// Program returns how long the program of a job runs if it is not stopped, and its exit code.
	Program(job string) (run int64, code int)
	// Started is called when a program begins to run, Lapsed when its shim begins to stop it because of its deadline.
	Started(m *Machine, r *Record)
	Lapsed(m *Machine, r *Record)
}

// Machine is a simulated machine.
type Machine struct {
	// Boots is the number of times that its power was switched on.
	Boots int
	// Disk survives the death of the agent, and power cuts.
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

// Disk is the content of the machine's disk.
type Disk struct {
	Starts uint64 // starts of agents
	Roster *v1.Roster
	Tasks  []*Record // in the order in which they were created
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

// String returns the machine's name.
func (m *Machine) String() string { return m.name }

// Clock returns the time of the monotonic clock, which starts from zero at each boot.
func (m *Machine) Clock() int64 {
	return int64(float64(m.engine.Now()-m.bootAt)*m.rate) + 10*int64(time.Second)
}

// Time returns the value of Clock as a time.
func (m *Machine) Time() time.Time { return time.Unix(0, m.Clock()) }

// Until returns the true time until the clock shows an instant.
func (m *Machine) Until(clock int64) int64 { return int64(float64(clock-m.Clock())/m.rate) + 1 }

// BootID returns an id that differs for each boot.
func (m *Machine) BootID() string { return fmt.Sprintf("boot-%d", m.Boots) }

// Powered reports whether the machine has power.
func (m *Machine) Powered() bool { return m.powered }

// PowerOn switches the power on. It returns false if it was on already.
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
	if m.engine.Chance(0.5) { // records of tasks are not synced
		m.Disk.Tasks = nil
	}
}

// after schedules an event of the machine, which does not happen if its power is cut before.
func (m *Machine) after(d int64, do func()) {
	boot := m.Boots
	m.engine.After(d, func() {
		if m.powered && m.Boots == boot {
			do()
		}
	})
}

// Find returns the record of a task; nil: there is none.
func (m *Machine) Find(id taskid.ID) *Record {
	return m.find(func(r *Record) bool { return r.ID == id })
}

// Named returns the record of a task by its name.
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

// Alive iterates over the tasks whose program runs.
func (m *Machine) Alive(yield func(*Record) bool) {
	for _, r := range m.Disk.Tasks {
		if r.Alive() && !yield(r) {
			return
		}
	}
}

// Alive reports whether the program of the task runs.
func (r *Record) Alive() bool { return r.process != nil && r.process.alive }
