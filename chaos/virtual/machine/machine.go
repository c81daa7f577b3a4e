package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/agent"
	"github.com/mindcoordinator/mind/agent/device"
	"github.com/mindcoordinator/mind/agent/runner"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/chaos/check"
)

// Machine is one node without its agent: its clock, its processes, its GPUs. It keeps running when the agent dies.
type Machine struct {
	name  string
	home  string // its files
	world *check.World

	mu        sync.Mutex
	boot      int
	born      time.Time
	drift     float64 // of its clock: 0.001 gains a millisecond a second
	immortal  bool    // its shims ignore deadlines
	lives     int     // of agents, so far
	pid       int
	processes map[string]*process // by name of the task's directory, including ended ones
	gpus      []device.Device
	living    sync.WaitGroup
}

// Spec specifies a machine.
type Spec struct {
	Name string
	Home string // folder of its files
	GPUs int
	// Drift is how much its clock gains: 0.001 is a millisecond per second.
	Drift float64
	// Immortal makes its shims ignore their deadlines, to test the checkers.
	Immortal bool
	// World records the actions of processes.
	World *check.World
}

// New returns a running machine without processes.
func New(spec Spec) *Machine {
	m := &Machine{name: spec.Name, home: spec.Home, world: spec.World, boot: 1, born: time.Now(), drift: spec.Drift, immortal: spec.Immortal, processes: map[string]*process{}}
	for i := range spec.GPUs {
		m.gpus = append(m.gpus, device.Device{
			UUID: fmt.Sprintf("GPU-%s-%d", spec.Name, i), Index: i, Model: "NVIDIA H100 80GB HBM3", Type: "H100", MemMB: 81559,
			PCI: fmt.Sprintf("00000000:%02X:00.0", i+1), NUMA: -1,
		})
	}
	return m
}

// Clock returns the machine's time, which may drift.
func (m *Machine) Clock() int64 {
	since := time.Since(m.born)
	return int64(time.Hour) + int64(since) + int64(float64(since)*m.drift)
}

// when returns the true time at which the machine's clock shows an instant.
func (m *Machine) when(clock int64) time.Time {
	since := float64(clock-int64(time.Hour)) / (1 + m.drift)
	// It must not be too early: a goroutine that wakes then must find that the instant has come.
	return m.born.Add(time.Duration(since) + time.Microsecond)
}

// BootID returns an id that changes at each reboot.
func (m *Machine) BootID() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprintf("%s-boot-%d", m.name, m.boot)
}

// Reboot ends all processes without recording their ends.
func (m *Machine) Reboot() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.boot++
	for _, p := range m.processes {
		select {
		case <-p.killed:
		default:
			close(p.killed)
		}
	}
}

// Ill sets the reason for which the driver reports a GPU as failed; empty: it is healthy.
func (m *Machine) Ill(gpu int, reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gpus[gpu].HealthReason = reason; reason == "" {
		m.gpus[gpu].Health = device.Healthy
	} else {
		m.gpus[gpu].Health = device.Quarantined
	}
}

// Wait waits until no process is left.
func (m *Machine) Wait() { m.living.Wait() }

// GPUs returns the number of GPUs.
func (m *Machine) GPUs() int { return len(m.gpus) }

// Devices returns the inventory of the machine's GPUs.
func (m *Machine) Devices() device.Inventory { return inventory{machine: m} }

func (m *Machine) dataDir() string { return filepath.Join(m.home, "data") }

func (m *Machine) tasksDir() string { return filepath.Join(m.dataDir(), "tasks") }

// Component is the network's view of the agent: calls of a stopped agent wait until it is continued.
type Component interface {
	// Pass waits while the agent is stopped.
	Pass(context.Context) error
	// Held returns a channel that is closed when the agent is continued; nil: it is not stopped.
	Held() <-chan struct{}
}

// Life is a machine for one agent, until that agent crashes. It implements agent.Processes.
//
// Each life accesses the machine's files through its own link, which is removed at its end, so that later writes of a
// crashed agent have no effect.
type Life struct {
	machine   *Machine
	component Component
	link      string
	gone      chan struct{} // closed when the agent crashes
}

// Begin begins the life of an agent that starts.
func (m *Machine) Begin(c Component) (*Life, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lives++
	if err := os.MkdirAll(m.dataDir(), 0o700); err != nil {
		return nil, err
	}
	link := filepath.Join(m.home, fmt.Sprintf("life-%d", m.lives))
	if err := os.Symlink(m.dataDir(), link); err != nil {
		return nil, err
	}
	return &Life{machine: m, component: c, link: link, gone: make(chan struct{})}, nil
}

// Dir returns the agent's data directory.
func (k *Life) Dir() string { return k.link }

// Crash ends the life at once.
func (k *Life) Crash() {
	close(k.gone)
	_ = os.Remove(k.link)
	// A dead agent does not hold the lock of its data directory.
	_ = os.Remove(filepath.Join(k.machine.dataDir(), "agent.lock"))
}

// Bury is called when the crashed agent cannot write any more. It restores the link, so that paths that the agent
// recorded lead to the files again.
func (k *Life) Bury() { _ = os.Symlink(k.machine.dataDir(), k.link) }

// link matches the part of a path that differs between lives.
var link = regexp.MustCompile(`/life-[0-9]+/`)

// TruePath returns the path that is the same in all lives, for a path that an agent reported.
func TruePath(path string) string { return link.ReplaceAllString(path, "/data/") }

var _ agent.Processes = (*Life)(nil)

var errCrashed = errors.New("the agent crashed")

func (k *Life) crashed() bool {
	select {
	case <-k.gone:
		return true
	default:
		return false
	}
}

// Start implements agent.Processes.
func (k *Life) Start(dir string, spec shim.Spec, prepare func(dir string) error) (agent.Process, error) {
	m := k.machine
	_ = k.component.Pass(context.Background())
	if k.crashed() {
		return nil, errCrashed
	}
	name := filepath.Base(dir)
	dir = filepath.Join(m.tasksDir(), name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make task directory: %w", err)
	}
	if prepare != nil {
		if err := prepare(dir); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, shim.SpecFile), spec.Encode(), 0o600); err != nil {
		return nil, err
	}
	for _, d := range spec.Dirs {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	baseline(dir, spec.CheckpointDir)
	does, err := parseBehaviour(spec.Argv)
	if err != nil {
		return nil, err
	}
	env := func(name string) string {
		for _, entry := range spec.Env {
			if n, value, _ := strings.Cut(entry, "="); n == name {
				return value
			}
		}
		return ""
	}
	now := time.Now()
	p := &process{
		machine: m, dir: dir, spec: spec, does: does, requests: make(chan func()), killed: make(chan struct{}), done: make(chan struct{}),
		started: now, saveAt: now.Add(does.Save), deadline: spec.Lease.Deadline, exit: shim.Exit{Code: -1},
	}
	if m.immortal {
		p.deadline = shim.Deadline{}
	}
	life := check.Life{
		Job: spec.JobID, Attempt: int(spec.Attempt), Rank: int(spec.Rank), Token: spec.Token, Node: m.name, ResumeFrom: env("MIND_RESUME_FROM"), Lines: 3,
	}
	if visible := env("CUDA_VISIBLE_DEVICES"); visible != "" && env("MIND_GPU_FRACTION") == "" {
		for g := range strings.SplitSeq(visible, ",") {
			life.GPUs = append(life.GPUs, m.name+"/"+g)
		}
	}
	m.mu.Lock()
	m.pid++
	p.pid = m.pid
	m.processes[name] = p
	m.mu.Unlock()
	h := k.handle(p)
	p.followers = append(p.followers, h)
	if d := p.deadline; d.StopAt != 0 && m.Clock() >= d.StopAt {
		// Like the real shim: a task whose deadline has passed before it begins never runs.
		p.exit.Stopped, p.exit.Failure, p.exit.Message = true, shim.FailureNodeLost, "its time was over before it began"
		p.exit.Ended = now.UnixNano()
		_ = os.WriteFile(filepath.Join(dir, shim.ExitFile), p.exit.JSON(), 0o600)
		close(p.done)
		h.tell(runner.Event{Exit: &p.exit})
		return h, nil
	}
	p.life = m.world.Start(life)
	h.tell(runner.Event{Running: true, Pid: p.pid, Time: now.UnixNano()})
	m.living.Go(p.run)
	return h, nil
}

// baseline records the checkpoints of earlier attempts, as the real shim does.
func baseline(dir, checkpoints string) {
	entries, err := os.ReadDir(checkpoints)
	if err != nil || len(entries) == 0 {
		return
	}
	before := map[string]string{}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			before[e.Name()] = shim.Identity(info)
		}
	}
	if data, err := json.Marshal(before); err == nil {
		_ = os.WriteFile(filepath.Join(dir, shim.BaselineFile), data, 0o600)
	}
}

// Attach implements agent.Processes.
func (k *Life) Attach(dir string) (agent.Process, error) {
	_ = k.component.Pass(context.Background())
	if k.crashed() {
		return nil, errCrashed
	}
	m := k.machine
	name := filepath.Base(dir)
	dir = filepath.Join(m.tasksDir(), name)
	m.mu.Lock()
	p := m.processes[name]
	m.mu.Unlock()
	h := k.handle(p)
	if p != nil && p.request(func() {
		p.followers = append(p.followers, h)
		if p.deadline.StopAt != 0 {
			d := p.deadline
			h.tell(runner.Event{Deadline: &d})
		}
		h.tell(runner.Event{Running: true, Pid: p.pid, Time: p.started.UnixNano()})
	}) {
		return h, nil
	}
	exit, err := runner.ReadExit(dir)
	switch {
	case err == nil:
	case p == nil:
		_ = os.Remove(filepath.Join(dir, shim.SpecFile))
		return nil, runner.ErrNotBegun
	default:
		exit = shim.Exit{Code: -1, Ended: time.Now().UnixNano(), Failure: shim.FailureInternal, Message: "the shim of the task was killed"}
		_ = os.WriteFile(filepath.Join(dir, shim.ExitFile), exit.JSON(), 0o600)
	}
	h.tell(runner.Event{Exit: &exit})
	return h, nil
}

// Gone implements agent.Processes.
func (k *Life) Gone(dir string) bool {
	k.machine.mu.Lock()
	p := k.machine.processes[filepath.Base(dir)]
	k.machine.mu.Unlock()
	if p == nil {
		return true
	}
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Close implements agent.Processes.
func (k *Life) Close() {}

func (k *Life) handle(p *process) *handle {
	return &handle{kernel: k, process: p, events: make(chan runner.Event, 4), closed: make(chan struct{})}
}

// handle implements agent.Process.
type handle struct {
	kernel  *Life
	process *process
	events  chan runner.Event

	mu     sync.Mutex
	over   bool
	closed chan struct{}
}

// tell sends an event. It never waits: there are at most three events.
func (h *handle) tell(e runner.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return
	}
	h.events <- e
	if e.Exit != nil {
		h.over = true
		close(h.events)
	}
}

// Events implements agent.Process.
func (h *handle) Events() <-chan runner.Event { return h.events }

// Stop implements agent.Process.
func (h *handle) Stop(r shim.StopRequest) error {
	h.later(func(p *process) { p.ask(time.Now(), r) })
	return nil
}

// SetDeadline implements agent.Process.
func (h *handle) SetDeadline(d shim.Deadline) error {
	h.later(func(p *process) { p.extend(d) })
	return nil
}

// Remark implements agent.Process. It does nothing: the remarks of these tasks are not read.
func (h *handle) Remark(string) error { return nil }

// later makes the process run f. A request of a stopped agent reaches the process when the agent is continued, and a
// request of a crashed agent never does.
func (h *handle) later(f func(*process)) {
	p := h.process
	if p == nil || h.kernel.crashed() {
		return
	}
	wait := h.kernel.component.Held()
	if wait == nil {
		p.request(func() { f(p) })
		return
	}
	go func() {
		<-wait
		if !h.kernel.crashed() {
			p.request(func() { f(p) })
		}
	}()
}

// Close implements agent.Process.
func (h *handle) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.over = true
		close(h.events)
	}
}

// inventory is the device.Inventory of the machine's GPUs.
type inventory struct {
	device.None
	machine *Machine
}

// List implements device.Inventory.
func (i inventory) List(context.Context) ([]device.Device, error) {
	i.machine.mu.Lock()
	defer i.machine.mu.Unlock()
	return append([]device.Device(nil), i.machine.gpus...), nil
}

// Processes implements device.Inventory.
func (i inventory) Processes(_ context.Context, uuid string) ([]device.Process, error) {
	at := strings.LastIndexByte(uuid, '-')
	return make([]device.Process, i.machine.world.Uses(i.machine.name+"/"+uuid[at+1:])), nil
}
