// Package agent is the daemon of one GPU node.
//
// Contract: Run keeps a session with the coordinator that leads, tells what
// the node has, launches and stops tasks until what runs is what the orders
// want, reports what happens to them, and serves their logs and metrics.
//
// Guarantees: orders are level-triggered, so a lost one costs nothing. A task
// is launched at most once, whenever the agent dies. A task does not notice
// the agent's death or restart; the agent that comes back finds it, with its
// exact exit code when it ended meanwhile (package shim). The end of a task is
// reported when no process of it is left, and until it is acknowledged. What
// is reported can be derived from the task directories, so nothing is lost
// with the agent's memory.
//
// A task that another node may replace is dead before its lease has run out,
// unless nobody could run the replacement (package lease); its shim sees to
// that, whatever becomes of the agent.
//
// Not guaranteed: isolation of tasks from each other: they run as the agent's
// user, and CUDA_VISIBLE_DEVICES is a request, not a wall.
package agent

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	// The shim is the same executable, started again: see its package comment.
	_ "github.com/mindcoordinator/mind/agent/shim"

	"github.com/mindcoordinator/mind/agent/datacache"
	"github.com/mindcoordinator/mind/agent/lease"
	"github.com/mindcoordinator/mind/agent/runner"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/ship"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/durable"
	"github.com/mindcoordinator/mind/gossip"
	"github.com/mindcoordinator/mind/pki"
)

// agent is one running agent.
type agent struct {
	cfg       Config
	log       *slog.Logger
	hostname  string
	bootID    string
	simulated bool
	cpus      int
	memMB     int
	keys      *pki.Keys // nil: no TLS
	clientTLS *pki.Client
	serverTLS *tls.Config
	peerTLS   *pki.Client // to other agents
	grpcAddr  string
	httpAddr  string

	starter Processes
	gpus    *gpuWatch
	moves   *moves
	outbox  *outbox
	session *session
	metrics *metrics
	leases  *leases
	rosters *rosters
	relays  *relays
	peers   *peers
	// incarnation is told by gossip; 0 without.
	incarnation uint64
	shipper     *ship.Shipper // nil: no log archive
	data        *datacache.Cache
	outputs     *outputs

	// over is closed when the tasks are to be let go of; mail reaches the
	// owner's goroutine; minders are the goroutines that follow tasks.
	over    chan struct{}
	mail    chan func()
	minders minders

	// The owner's.
	tasks    map[key]*task
	adopted  bool // tasks has what an earlier agent left
	queue    []*task
	holders  []*task // of GPUs
	launches int
	finished int
	closing  bool
	isIdle   bool
	idle     chan struct{}
}

// Run runs the agent until ctx ends or something fails that it cannot live
// without. It returns nil when ctx ended. Tasks run on unless StopTasksOnExit
// says otherwise.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("agent configuration: %w", err)
	}
	cfg = cfg.withDefaults()
	dataDir, err := filepath.Abs(cfg.DataDir)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	cfg.DataDir = dataDir
	a, release, err := open(ctx, cfg)
	if err != nil {
		return err
	}
	defer release()
	return a.serve(ctx)
}

// open prepares everything that does not need the cluster.
func open(ctx context.Context, cfg Config) (_ *agent, release func(), err error) {
	a := &agent{
		cfg: cfg, log: cfg.Logger.With("component", "agent", "node", cfg.NodeID), hostname: cfg.Hostname,
		over: make(chan struct{}), mail: make(chan func()), idle: make(chan struct{}), tasks: make(map[key]*task),
	}
	var undo []func()
	undoAll := func() {
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
	}
	defer func() {
		if err != nil {
			undoAll()
		}
	}()
	if err = durable.MkdirAll(a.tasksDir(), 0o700); err != nil {
		return nil, nil, fmt.Errorf("make data directory: %w", err)
	}
	unlock, err := lockDir(cfg.DataDir)
	if err != nil {
		return nil, nil, err
	}
	undo = append(undo, unlock)
	if err = durable.Sweep(cfg.DataDir); err != nil {
		return nil, nil, fmt.Errorf("tidy the data directory: %w", err)
	}
	if a.bootID = cfg.Machine.BootID; a.bootID == "" {
		if a.bootID, err = bootID(); err != nil {
			return nil, nil, err
		}
	}
	if a.hostname == "" {
		if a.hostname, err = os.Hostname(); err != nil {
			return nil, nil, fmt.Errorf("read hostname: %w", err)
		}
	}
	if cfg.TLS != (pki.Files{}) {
		keys, err := pki.Open(cfg.TLS, a.log)
		if err != nil {
			return nil, nil, err
		}
		a.keys = keys
		a.clientTLS, a.peerTLS = keys.Client(pki.RoleCoordinator), keys.Client(pki.RoleAgent)
		// Who may call what is looked at call by call.
		a.serverTLS = keys.Server(pki.RoleCoordinator, pki.RoleAgent)
	}
	inventory, simulated := cfg.Machine.Devices, false
	if inventory == nil {
		if inventory, simulated, err = openInventory(ctx, cfg.NodeID, cfg.GPUs, cfg.DataDir, a.log); err != nil {
			return nil, nil, err
		}
	}
	undo = append(undo, func() { _ = inventory.Close() })
	a.simulated = simulated
	a.cpus, a.memMB = cfg.machine(simulated)
	a.gpus = newGPUWatch(inventory, a.log)
	a.moves = newMoves()
	undo = append(undo, a.moves.close)
	a.gpus.onFault = func() { a.post(a.endFaulty) }
	if simulated {
		a.gpus.interval = doubtInterval
	}
	if err = a.gpus.load(cfg.DataDir, a.bootID, cfg.GPUs); err != nil {
		return nil, nil, err
	}
	first, err := nextEpoch(cfg.DataDir, time.Now(), a.log)
	if err != nil {
		return nil, nil, err
	}
	shimLog, err := os.OpenFile(filepath.Join(cfg.DataDir, "shim.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open the log of the shims: %w", err)
	}
	undo = append(undo, func() { _ = shimLog.Close() })
	if a.starter = cfg.Machine.Processes; a.starter == nil {
		a.starter = shims{runner.NewStarter(cfg.ShimExecutable, a.tasksDir(), shimLog, max(0, cfg.SpareShims))}
	}
	undo = append(undo, a.starter.Close)
	a.outbox, a.outputs = newOutbox(first), newOutputs(cfg)
	a.leases = newLeases(a, first)
	a.rosters, a.relays, a.peers = newRosters(a), newRelays(), newPeers(a)
	a.metrics = newMetrics(a)
	if err = a.openArchive(); err != nil {
		return nil, nil, err
	}
	if err = a.openData(); err != nil {
		return nil, nil, err
	}
	a.session = newSession(a)
	return a, undoAll, nil
}

// serve runs all parts until ctx ends.
func (a *agent) serve(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	fatal := make(chan error, 2)
	var parts sync.WaitGroup

	stopServing, err := a.listen(fatal)
	if err != nil {
		return err
	}
	defer stopServing()
	pool, err := a.joinGossip()
	if err != nil {
		return err
	}
	if pool != nil {
		a.incarnation = pool.Incarnation()
	}
	parts.Go(func() { a.owner(life) })
	a.gpus.begin(ctx)
	parts.Go(func() { a.gpus.run(life) })
	parts.Go(func() { a.rosters.run(life) })
	parts.Go(func() { a.leases.run(life) })
	parts.Go(func() { a.peers.run(life) })
	if err := a.adopt(); err != nil {
		end()
		parts.Wait()
		return err
	}
	parts.Go(func() { a.session.run(life) })
	parts.Go(func() { a.ship(life) })
	parts.Go(func() { a.keepOutputs(life) })
	a.log.Info("agent is up", "grpc", a.grpcAddr, "http", a.httpAddr, "gpus", len(a.gpus.current()), "cpus", a.cpus, "memory_mb", a.memMB)

	select {
	case <-ctx.Done():
	case err = <-fatal:
	}
	if a.cfg.StopTasksOnExit {
		a.stopTasks()
	}
	close(a.over)
	a.minders.Wait()
	end()
	parts.Wait()
	if pool != nil {
		leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = pool.Leave(leaving)
	}
	return err
}

// stopTasks stops all tasks and waits until their shims are gone, too.
func (a *agent) stopTasks() {
	var dirs []string
	a.ask(func() {
		for _, t := range a.tasks {
			if t.state != ended || !t.acked {
				dirs = append(dirs, t.dir)
			}
		}
		a.stopAll()
	})
	limit := time.NewTimer(a.cfg.StopGrace + 10*time.Second)
	defer limit.Stop()
	select {
	case <-a.idle:
	case <-limit.C:
		a.log.Error("tasks did not stop in time")
		return
	}
	bounded, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, dir := range dirs {
		for !a.starter.Gone(dir) && bounded.Err() == nil {
			sleep(bounded, 2*time.Millisecond)
		}
	}
	// A moment for the reports, which the next agent would send otherwise.
	for a.outbox.waiting() > 0 && a.session.live.Load() && bounded.Err() == nil {
		sleep(bounded, 5*time.Millisecond)
		if deadline, _ := bounded.Deadline(); time.Until(deadline) < 4*time.Second {
			return
		}
	}
}

// adopt takes up the tasks that an earlier agent left.
func (a *agent) adopt() error {
	entries, err := os.ReadDir(a.tasksDir())
	if err != nil {
		return fmt.Errorf("list tasks: %w", err)
	}
	var found []*task
	for _, e := range entries {
		if k, ok := parseName(e.Name()); ok && e.IsDir() {
			found = append(found, a.left(k))
		}
	}
	a.ask(func() {
		for _, t := range found {
			a.tasks[t.key] = t
			if t.state == ended {
				continue
			}
			a.hold(t)
			a.log.Info("taking up a task again", "job", t.key.job, "attempt", t.key.attempt, "rank", t.key.rank)
			a.minders.Go(func() { a.attach(t) })
		}
		a.endFaulty()
		a.sweep()
		a.adopted = true
	})
	return nil
}

// left reads what an earlier agent left of a task. It runs beside the owner, whom the task is none of yet.
func (a *agent) left(k key) *task {
	t := &task{key: k, dir: filepath.Join(a.tasksDir(), k.name()), state: launching, since: time.Now()}
	spec, err := shim.ReadSpec(t.dir)
	if err == nil && spec.Acked || a.overUnread(t, err) {
		t.state, t.acked, t.endedAt = ended, true, endOf(t.dir)
		return t
	}
	a.stayWithdrawn(t)
	t.has = a.holdingOfRecord(spec, err)
	a.holdData(t)
	return t
}

// endOf is when the task in a directory ended. Where a power cut took the record of it, the directory was last changed about then:
// its log must not go before its time.
func endOf(dir string) time.Time {
	if exit, err := runner.ReadExit(dir); err == nil {
		return time.Unix(0, exit.Ended)
	}
	if info, err := os.Stat(dir); err == nil {
		return info.ModTime()
	}
	return time.Now()
}

// hello is the first message of a session.
func (a *agent) hello(context.Context) *v1.Hello {
	hello := &v1.Hello{
		NodeId: a.cfg.NodeID, Hostname: a.hostname, AgentVersion: a.cfg.Version, BootId: a.bootID, Gpus: a.gpus.current(),
		CpuCount: int32(a.cpus), MemoryMb: int32(a.memMB), Labels: a.cfg.Labels, GrpcAddr: a.grpcAddr, HttpAddr: a.httpAddr,
		Incarnation: a.incarnation,
	}
	a.leases.with(func(k *lease.Keeper, _ int64) { hello.RosterVersion = k.RosterVersion() })
	a.ask(func() {
		for k, t := range a.tasks {
			if t.state != ended || !t.acked {
				hello.Tasks = append(hello.Tasks, k.ref())
			}
		}
	})
	return hello
}

func (a *agent) joinGossip() (*gossip.Pool, error) {
	if a.cfg.GossipAddr == "" {
		return nil, nil
	}
	pool, err := gossip.Start(gossip.Config{
		Name: a.cfg.NodeID, Role: pki.RoleAgent, Bind: a.cfg.GossipAddr, Advertise: a.cfg.GossipAdvertise,
		SecretKey: a.cfg.GossipKey, Join: a.cfg.GossipJoin, Logger: a.cfg.Logger, Transport: a.cfg.Machine.GossipTransport,
	})
	if err != nil {
		return nil, fmt.Errorf("start gossip: %w", err)
	}
	return pool, nil
}

const (
	lockPatience = 2 * time.Second
	lockPause    = 10 * time.Millisecond
)

// lockDir makes sure that one agent at a time uses a data directory.
func lockDir(dir string) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(dir, "agent.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	// An agent that was killed while it started a shim leaves a child that holds
	// its files until it has become the shim: wait for that.
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(lockPause) {
		if err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			return func() { _ = file.Close() }, nil
		}
		if time.Now().After(deadline) {
			_ = file.Close()
			return nil, fmt.Errorf("data directory %s is in use by another agent", dir)
		}
	}
}

// advertised is the address to tell others.
func advertised(configured string, listener net.Listener) string {
	if configured != "" {
		return configured
	}
	return listener.Addr().String()
}
