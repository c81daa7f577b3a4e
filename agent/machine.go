package agent

import (
	"context"
	"net"

	"github.com/mindcoordinator/mind/agent/device"
	"github.com/mindcoordinator/mind/agent/runner"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/gossip"
)

// Machine is the part of a node that is not the agent. What is left at zero is
// the real thing.
type Machine struct {
	// Network carries the agent's calls; nil: TCP.
	Network Network
	// GossipTransport carries gossip; nil: UDP and TCP.
	GossipTransport gossip.Transport
	// Processes starts and follows tasks; nil: shims (package runner).
	Processes Processes
	// Devices are the GPUs; nil: what Config.GPUs says.
	Devices device.Inventory
	// BootID changes when the machine restarts; empty: the kernel's.
	BootID string
	// Clock tells nanoseconds of a clock that runs while the machine sleeps, the
	// one by which Processes hold deadlines; nil: CLOCK_BOOTTIME.
	Clock func() int64 `json:"-"`
}

func (m Machine) clock() int64 {
	if m.Clock != nil {
		return m.Clock()
	}
	return shim.Boottime()
}

// Network is where an agent listens and whom it reaches. It must work with
// addresses of the form host:port.
type Network interface {
	Listen(addr string) (net.Listener, error)
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// tcp is the real network.
type tcp struct{}

func (tcp) Listen(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }

func (tcp) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", addr)
}

// Processes starts tasks and finds those again that an earlier agent started.
// The contract is that of packages shim and runner: the task directory holds
// what is known of a task, and its shim outlives the agent.
type Processes interface {
	Start(dir string, spec shim.Spec, prepare func(dir string) error) (Process, error)
	// Attach returns runner.ErrNotBegun as runner.Attach does.
	Attach(dir string) (Process, error)
	// Gone reports whether no shim runs in the directory.
	Gone(dir string) bool
	Close()
}

// Process is the agent's hold on one task.
type Process interface {
	Events() <-chan runner.Event
	Stop(shim.StopRequest) error
	// SetDeadline says until when the task may live; what enforces it must not
	// need the agent.
	SetDeadline(shim.Deadline) error
	// Remark says something in the task's log, while the task runs.
	Remark(text string) error
	// Close lets go of the task, which goes on.
	Close()
}

// shims are the real processes.
type shims struct{ *runner.Starter }

func (s shims) Start(dir string, spec shim.Spec, prepare func(dir string) error) (Process, error) {
	handle, err := s.Starter.Start(dir, spec, prepare)
	if err != nil {
		return nil, err
	}
	return handle, nil
}

func (shims) Attach(dir string) (Process, error) {
	handle, err := runner.Attach(dir)
	if err != nil {
		return nil, err
	}
	return handle, nil
}

func (shims) Gone(dir string) bool { return runner.Gone(dir) }
