// Package devcluster runs a whole cluster on one machine: coordinators, agents and a gateway, each in its own process, or
// all in this process.
//
// Contract: Start returns when a leader is elected, all agents are registered and the gateway answers, or with an error
// that names the component at fault and the end of its log. Info returns the addresses and files of the components (the
// file dev.json has the same content). Stop ends all components and tasks.
//
// Guarantees: child processes die with their supervisor, also if it is killed. After Stop no process of the cluster is
// left: no component (including one that was restarted manually with its argv) and no task, including tasks of a killed
// agent. A data directory is used by one cluster at a time; the next start on it has the same identities, certificates,
// secrets and token, and the same ports if they are free.
//
// Not guaranteed: durability beyond what the components promise, and anything on operating systems other than Linux.
package devcluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/durable"
)

// Options configure a cluster. The zero value of an optional field selects its default.
type Options struct {
	// Dir holds all state; empty: a temporary one, removed by Stop.
	Dir string
	// Coordinators is 1, 3 or 5; default 3. A directory that holds a cluster keeps its number.
	Coordinators int
	// Agents is the number of nodes; 0: as in the directory, or 2; negative: none.
	Agents int
	// GPUs are the GPUs of each agent, as in the agent's configuration, such as "8xH100"; empty: as at the last start,
	// or 8xH100. "auto" is for the first agent only, because two agents must not offer the same device.
	GPUs string
	// LogArchive keeps logs and metrics of tasks when their node is gone: a directory, or the URL of an archive. Empty: as
	// at the last start, or none.
	LogArchive string
	// CheckpointArchive keeps checkpoints when their node is gone: a directory, or the URL of an archive. Empty: as at the
	// last start, or a directory in Dir.
	CheckpointArchive string
	// DataRoots are the directories from which jobs may use local data sources and models. Empty: as at the last start, or
	// the user's home, the working directory and the directory for temporary files: jobs run as the same user, and may read
	// those anyway.
	DataRoots []string
	// Isolation is how far jobs are kept apart, as in the agent's configuration. Empty: as far as the machine allows.
	Isolation string
	// HTTP is the address of the gateway. Empty: that of the last start, or 127.0.0.1:8080, or the next free port.
	HTTP string
	// CORSOrigins are the origins of web pages that may use the gateway.
	CORSOrigins []string
	// Restart restarts components that ended.
	Restart bool
	// Executable is the mind binary; empty: the running program.
	Executable string
	// InProcess, if set, runs a component (its argv without the program's name) in this process until ctx ends.
	InProcess func(ctx context.Context, args []string) error
	// ReadyWithin limits Start; default 30 s.
	ReadyWithin time.Duration
	// StopWithin is when Stop begins to use SIGKILL; default 10 s.
	StopWithin time.Duration
	// Logger; default slog.Default().
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.ReadyWithin == 0 {
		o.ReadyWithin = 30 * time.Second
	}
	if o.StopWithin == 0 {
		o.StopWithin = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	switch o.Coordinators {
	case 0, 1, 3, 5:
	default:
		return o, fmt.Errorf("%d coordinators: a cluster has 1, 3 or 5 of them", o.Coordinators)
	}
	if o.Executable == "" {
		self, err := os.Executable()
		if err != nil {
			return o, fmt.Errorf("finding this program: %w", err)
		}
		o.Executable = self
	}
	exe, err := filepath.Abs(o.Executable)
	if err != nil {
		return o, err
	}
	o.Executable = exe
	return o, nil
}

// Cluster is a running cluster.
type Cluster struct {
	options   Options
	dir       string
	temporary bool
	unlock    func()
	layout    *layout
	starter   *starter
	reaper    *reaper

	mu         sync.Mutex // guards components' pids, and writing dev.json
	published  bool
	components []*component // coordinators, agents, gateway: in the order of starting
	ended      chan *component
	stopOnce   sync.Once
	stopErr    error
}

// Start starts a cluster and waits until it is ready. If it fails, or if ctx ends before, no process is left running.
func Start(ctx context.Context, options Options) (_ *Cluster, err error) {
	options, err = options.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: options, ended: make(chan *component, 64)}
	if err := c.openDir(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	if c.layout, err = openLayout(c.dir, options); err != nil {
		return nil, err
	}
	// Remove the file of an earlier start: its pids are no longer valid.
	if err := removeInfo(c.dir); err != nil {
		return nil, err
	}
	if err := c.layout.writeConfigs(); err != nil {
		return nil, err
	}
	if options.InProcess == nil {
		c.starter = newStarter()
		c.reaper = newReaper(c.isComponent)
	}
	for _, spec := range c.layout.components() {
		c.components = append(c.components, c.newComponent(spec))
	}
	for _, p := range c.components {
		if err := p.start(); err != nil {
			return nil, fmt.Errorf("starting %s: %w", p.name, err)
		}
	}
	if err := c.awaitReady(ctx); err != nil {
		return nil, err
	}
	return c, c.publish()
}

func (c *Cluster) openDir() error {
	dir := c.options.Dir
	if dir == "" {
		made, err := os.MkdirTemp("", "mind-dev-")
		if err != nil {
			return fmt.Errorf("making a temporary data directory: %w", err)
		}
		dir, c.temporary = made, true
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	// Links are resolved, because the path is compared with paths in /proc.
	if err := durable.MkdirAll(filepath.Join(dir, "logs"), 0o755); err != nil {
		return fmt.Errorf("making the data directory: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	c.dir = dir
	if c.unlock, err = lock(filepath.Join(dir, "lock")); err != nil {
		return fmt.Errorf("%s is in use by another `mind dev`: stop it, or give another --data-dir (%w)", dir, err)
	}
	return durable.Sweep(dir)
}

// Dir returns the directory of the state and the logs.
func (c *Cluster) Dir() string { return c.dir }

// Ended waits for a component that ends while the cluster is not being stopped, and returns its name. Names are dropped
// if they are not read.
func (c *Cluster) Ended(ctx context.Context) (name string, ok bool) {
	select {
	case p := <-c.ended:
		return p.name, true
	case <-ctx.Done():
		return "", false
	}
}

// Stop ends the gateway, the agents with their tasks, and the coordinators, in this order, and kills those that do not end
// in time. Then it ends leftover processes, and removes the directory if it is temporary.
func (c *Cluster) Stop() error {
	c.stopOnce.Do(func() { c.stopErr = c.stop() })
	return c.stopErr
}

func (c *Cluster) stop() error {
	began := time.Now()
	for _, p := range c.components {
		p.retire()
	}
	within := c.options.StopWithin
	// The agents stop their tasks after no component can place others instead.
	for _, phase := range []struct {
		kind string
		by   time.Duration
	}{{kindGateway, within * 3 / 10}, {kindCoordinator, within * 5 / 10}, {kindAgent, within}} {
		ctx, cancel := context.WithDeadline(context.Background(), began.Add(phase.by))
		for _, p := range c.components {
			if p.kind == phase.kind {
				p.terminate()
			}
		}
		for _, p := range c.components {
			if p.kind == phase.kind {
				p.wait(ctx)
			}
		}
		cancel()
	}
	var faults []error
	for _, p := range c.components {
		if err := p.kill(); err != nil {
			faults = append(faults, err)
		}
	}
	if c.starter != nil {
		if c.layout != nil {
			specs := c.layout.components()
			faults = append(faults, sweep(
				func() []int { return leftovers(c.dir, specs) },
				func(pid int, sig syscall.Signal) { _ = syscall.Kill(pid, sig) },
				c.options.Logger,
			))
		}
		c.reaper.close()
		c.starter.close()
	}
	if c.layout != nil {
		faults = append(faults, removeInfo(c.dir))
		c.layout.close()
	}
	if c.unlock != nil {
		c.unlock()
	}
	if c.temporary {
		faults = append(faults, os.RemoveAll(c.dir))
	}
	return errors.Join(faults...)
}
