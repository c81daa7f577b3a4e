package agent

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/mindcoordinator/mind/agent/device"
	"github.com/mindcoordinator/mind/agent/device/sim"
	"github.com/mindcoordinator/mind/agent/session"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/tasks"
	"github.com/mindcoordinator/mind/gossip"
)

// Machine replaces parts of the machine that an agent runs on. A zero field means the real part.
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
	// Clock returns the nanoseconds of a clock that also runs while the machine sleeps. Processes must use the same
	// clock for deadlines. nil: CLOCK_BOOTTIME.
	Clock func() int64 `json:"-"`
}

func (m Machine) clock() int64 {
	if m.Clock != nil {
		return m.Clock()
	}
	return shim.Boottime()
}

// Network listens and dials for an agent. It must work with addresses of the form host:port.
type Network interface {
	Listen(addr string) (net.Listener, error)
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// tcp is the real network.
type tcp struct{}

func (tcp) Listen(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }

func (tcp) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return (&net.Dialer{Timeout: session.DialTimeout}).DialContext(ctx, "tcp", addr)
}

// Processes starts tasks, and finds tasks that an earlier agent started.
type Processes = tasks.Processes

// Process is the agent's handle of one task.
type Process = tasks.Process

// machine returns the resources that the node offers beside GPUs.
func (c Config) machine(simulated bool) (cpus, memMB int) {
	cpus, memMB = runtime.NumCPU(), memoryMB()
	if simulated {
		cpus, memMB = sim.CPUs, sim.MemMB
	}
	if c.CPUs > 0 {
		cpus = c.CPUs
	}
	if c.MemMB > 0 {
		memMB = c.MemMB
	}
	return cpus, memMB
}

func memoryMB() int {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kb, _ := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			return kb / 1024
		}
	}
	return 0
}

// bootID returns an id that changes when the machine restarts.
func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}
