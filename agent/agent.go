// Package agent is the daemon of one GPU node.
//
// Contract: Run keeps a session with the leader, reports what the node has, launches and stops tasks until the running
// tasks match the leader's orders, reports their progress and ends, and serves their logs and metrics.
//
// Guarantees: orders are level-triggered, so a lost order does no harm. A task is launched at most once, whenever the agent
// dies. A task keeps running when the agent dies or restarts; the new agent finds it, with its exact exit code if it ended
// meanwhile (package shim). The end of a task is reported when none of its processes is left, and repeated until it is
// acknowledged. Every report can be derived from the task directories, so nothing is lost with the agent's memory.
//
// A task that another node may replace is dead before its lease expires, unless no node could run the replacement (package
// lease). Its shim enforces that, even without the agent.
//
// Not guaranteed: that tasks cannot reach each other. Package isolation says how far they are kept apart; they run as the
// agent's user, and CUDA_VISIBLE_DEVICES is a request, not a barrier.
package agent

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	// The shim is the same executable, started again: see its package comment.
	_ "github.com/mindcoordinator/mind/agent/shim"

	"google.golang.org/grpc"

	"github.com/mindcoordinator/mind/agent/checkpoints"
	"github.com/mindcoordinator/mind/agent/fitness"
	"github.com/mindcoordinator/mind/agent/gpus"
	"github.com/mindcoordinator/mind/agent/inputs"
	"github.com/mindcoordinator/mind/agent/isolation"
	"github.com/mindcoordinator/mind/agent/isolation/disk"
	"github.com/mindcoordinator/mind/agent/launch"
	"github.com/mindcoordinator/mind/agent/leader"
	"github.com/mindcoordinator/mind/agent/logship"
	"github.com/mindcoordinator/mind/agent/observe"
	"github.com/mindcoordinator/mind/agent/outbox"
	"github.com/mindcoordinator/mind/agent/outputs"
	"github.com/mindcoordinator/mind/agent/private"
	"github.com/mindcoordinator/mind/agent/runner"
	"github.com/mindcoordinator/mind/agent/series"
	"github.com/mindcoordinator/mind/agent/tasks"
	"github.com/mindcoordinator/mind/agent/transfer"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/durable"
	"github.com/mindcoordinator/mind/gossip"
	"github.com/mindcoordinator/mind/pki"
)

// Names in the data directory. Package outputs owns the folder of outputs.
const (
	tasksFolder = "tasks"
	shimLog     = "shim.log"
)

// agent is one running agent and its parts. The parts do not know it.
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

	isolation *isolation.Isolation
	users     *isolation.Users // nil: tasks run as the user of the agent
	quotas    *disk.Quotas     // nil: jobs have none
	processes tasks.Processes
	gpus      *gpus.Monitor
	outbox    *outbox.Outbox
	outputs   *outputs.Dirs
	private   *private.Paths
	fitness   *fitness.Monitor
	denied    denied
	inputs    *inputs.Inputs
	renames   *observe.Renames
	series    *series.Book
	shipper   *logship.Shipper // nil: no log archive
	// checkpoints carries out orders for checkpoints.
	checkpoints *checkpoints.Keeper
	// transfer fetches checkpoints from other nodes.
	transfer *transfer.Client
	tasks    *tasks.Tasks

	leases   *leader.Leases
	rosters  *leader.Rosters
	relays   *leader.Relays
	peers    *leader.Peers
	sessions *leader.Sessions
	// incarnation is the node's incarnation number in gossip; 0: gossip is disabled.
	incarnation uint64
}

// Run runs the agent until ctx ends or a required part fails. It returns nil if ctx ended. Tasks keep running unless
// StopTasksOnExit is set.
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

// undo holds the cleanups; the last one runs first.
type undo []func()

func (u *undo) add(f func()) { *u = append(*u, f) }

func (u *undo) all() {
	for i := len(*u) - 1; i >= 0; i-- {
		(*u)[i]()
	}
}

// open prepares all parts that do not need the cluster.
func open(ctx context.Context, cfg Config) (_ *agent, release func(), err error) {
	a := &agent{cfg: cfg, log: cfg.Logger.With("component", "agent", "node", cfg.NodeID)}
	a.denied.node, a.denied.log = cfg.NodeID, a.log
	var undo undo
	defer func() {
		if err != nil {
			undo.all()
		}
	}()
	if err = a.openDir(&undo); err != nil {
		return nil, nil, err
	}
	if err = a.openMachine(ctx, &undo); err != nil {
		return nil, nil, err
	}
	first, err := leader.FirstNumber(cfg.DataDir, []string{gpus.RecordFile, tasksFolder}, time.Now(), a.log)
	if err != nil {
		return nil, nil, err
	}
	a.outbox = outbox.New(first)
	a.openLeases(first)
	if err = a.openTasks(&undo); err != nil {
		return nil, nil, err
	}
	a.openLeader()
	a.registerMetrics()
	return a, undo.all, nil
}

// openDir locks the data directory and prepares it.
func (a *agent) openDir(undo *undo) error {
	if err := durable.MkdirAll(a.tasksDir(), 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	unlock, err := lockDir(a.cfg.DataDir)
	if err != nil {
		return err
	}
	undo.add(unlock)
	if err := durable.Sweep(a.cfg.DataDir); err != nil {
		return fmt.Errorf("tidy the data directory: %w", err)
	}
	return nil
}

func (a *agent) tasksDir() string { return filepath.Join(a.cfg.DataDir, tasksFolder) }

// openMachine finds the node's name, certificates and GPUs.
func (a *agent) openMachine(ctx context.Context, undo *undo) (err error) {
	cfg := a.cfg
	if a.bootID = cfg.Machine.BootID; a.bootID == "" {
		if a.bootID, err = bootID(); err != nil {
			return err
		}
	}
	if a.hostname = cfg.Hostname; a.hostname == "" {
		if a.hostname, err = os.Hostname(); err != nil {
			return fmt.Errorf("read hostname: %w", err)
		}
	}
	if cfg.TLS != (pki.Files{}) {
		if a.keys, err = pki.Open(cfg.TLS, a.log); err != nil {
			return err
		}
		a.clientTLS, a.peerTLS = a.keys.Client(pki.RoleCoordinator), a.keys.Client(pki.RoleAgent)
		// authorize checks the caller of each call.
		a.serverTLS = a.keys.Server(pki.RoleCoordinator, pki.RoleAgent)
	}
	inventory := cfg.Machine.Devices
	if inventory == nil {
		if inventory, a.simulated, err = gpus.Open(ctx, cfg.NodeID, cfg.GPUs, cfg.DataDir, a.log); err != nil {
			return err
		}
	}
	undo.add(func() { _ = inventory.Close() })
	a.cpus, a.memMB = cfg.machine(a.simulated)
	a.gpus, err = gpus.New(gpus.Config{
		Inventory: inventory, Dir: cfg.DataDir, BootID: a.bootID, Spec: cfg.GPUs, Simulated: a.simulated, Log: a.log,
	})
	return err
}

// openLeases prepares the leases. first is the number of the first renewal.
func (a *agent) openLeases(first uint64) {
	cfg := a.cfg
	a.leases = leader.NewLeases(cfg.NodeID, cfg.Leases, first, cfg.Machine.clock, a.log)
	a.rosters = leader.NewRosters(cfg.DataDir, cfg.NodeID, a.leases, a.log)
	a.relays = leader.NewRelays()
	a.peers = leader.NewPeers(leader.PeersConfig{
		Node: cfg.NodeID, BootID: a.bootID, Network: cfg.Machine.Network, Credentials: a.peerCredentials,
		Leases: a.leases, Rosters: a.rosters, Clock: cfg.Machine.clock, Log: a.log,
	})
}

// openTasks prepares the parts that run tasks.
func (a *agent) openTasks(undo *undo) (err error) {
	cfg := a.cfg
	log, err := os.OpenFile(filepath.Join(cfg.DataDir, shimLog), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of the shims: %w", err)
	}
	undo.add(func() { _ = log.Close() })
	a.private = cfg.private()
	undo.add(a.private.Close)
	a.isolation = &isolation.Isolation{Level: isolation.None}
	if a.processes = cfg.Machine.Processes; a.processes == nil {
		a.isolation, err = isolation.Open(isolation.Config{
			Level: cfg.Isolation, Parent: cfg.CgroupParent, Node: cfg.NodeID, DataDir: cfg.DataDir, Private: a.private, Users: len(cfg.Users) > 0 || cfg.DefaultUser != "", Paths: cfg.TaskPaths,
			Devices: cfg.Devices, Mounts: cfg.Mounts, MountRoots: cfg.MountRoots, ShmMB: cfg.ShmMB, Log: a.log,
		})
		if err != nil {
			return err
		}
		undo.add(a.isolation.Close)
		if err := a.openUsers(); err != nil {
			return err
		}
		a.processes = tasks.Shims(runner.NewStarter(cfg.ShimExecutable, a.tasksDir(), log, max(0, cfg.SpareShims)), a.isolation)
	}
	undo.add(a.processes.Close)
	probe := fitness.Config{Dirs: []string{a.tasksDir(), filepath.Join(cfg.DataDir, outputs.Folder)}, Keep: cfg.MinFreeDisk, Log: a.log}
	if prober, ok := a.processes.(interface{ Probe() error }); ok {
		probe.Start = prober.Probe
	}
	a.fitness = fitness.New(probe)
	a.renames = observe.NewRenames()
	undo.add(a.renames.Close)
	a.series = series.NewBook(a.log)
	a.outputs = outputs.New(cfg.DataDir)
	if err := os.MkdirAll(filepath.Join(cfg.DataDir, outputs.Folder), 0o755); err != nil {
		return fmt.Errorf("make the folder of outputs: %w", err)
	}
	if err := a.openQuotas(undo); err != nil {
		return err
	}
	if err := a.openCheckpoints(); err != nil {
		return err
	}
	a.transfer = transfer.NewClient(cfg.NodeID, grpc.WithContextDialer(cfg.Machine.Network.Dial), a.peerCredentials)
	undo.add(a.transfer.Close)
	a.cfg.Data.Peers, a.cfg.Data.Private, a.cfg.Data.As = a.transfer, a.private, a.as()
	if a.inputs, err = inputs.Open(a.cfg.Data, cfg.NodeID, cfg.DataDir, a.outputs.Tenant, a.log); err != nil {
		return err
	}
	if err := a.openArchive(); err != nil {
		return err
	}
	config := tasks.Config{
		Node: cfg.NodeID, Dir: a.tasksDir(), Private: a.private, Denied: a.denied.note, Roots: cfg.Data.Roots, MetricsBytes: cfg.MetricsBytes, EventsBytes: cfg.EventsBytes,
		MaxLaunches: cfg.MaxLaunches, KeepTasks: cfg.KeepTasks, KeepTasksFor: cfg.KeepTasksFor, ArchiveWait: a.cfg.LogArchive.Wait,
		Groups: a.isolation.Groups(), Simulated: a.simulated,
		Processes: a.processes, GPUs: a.gpus, Fitness: a.fitness, Outbox: a.outbox, Leases: a.leases, Inputs: a.inputs, Outputs: a.outputs, Renames: a.renames, Series: a.series,
		Launcher: &launch.Launcher{
			Node: cfg.NodeID, Isolation: a.isolation, Users: a.users, LogBytes: cfg.LogBytes, Visible: a.gpus.Visible, Places: a.gpus.Places, MemoryMB: a.gpus.MemoryMB, Outputs: a.outputs, Quotas: a.quotas,
			Roots: cfg.Data.Roots, Private: a.private, Denied: a.denied.note, Log: a.log,
		},
		Restart: func() { a.sessions.Restart() }, Metrics: cfg.Metrics, Log: a.log,
	}
	if a.shipper != nil {
		config.Archived = a.shipper.Done
	}
	a.tasks = tasks.New(config)
	a.gpus.OnFault(a.tasks.EndFaulty)
	a.leases.OnLaunchable(a.tasks.Launchable)
	return nil
}

// openLeader prepares the sessions.
func (a *agent) openLeader() {
	a.sessions = leader.NewSessions(leader.Config{
		Node: a.cfg.NodeID, Coordinators: a.cfg.Coordinators, Network: a.cfg.Machine.Network, Credentials: a.coordinatorCredentials(),
		Hello: a.hello, Tasks: a.tasks, Checkpoints: a.checkpoints, GPUs: a.gpus, Fitness: a.fitness, Outbox: a.outbox, Leases: a.leases, Rosters: a.rosters, Relays: a.relays, Log: a.log,
	})
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
	parts.Go(func() { a.tasks.Run(life) })
	a.gpus.Begin(ctx)
	parts.Go(func() { a.gpus.Run(life) })
	if a.cfg.Machine.Processes == nil {
		parts.Go(func() { a.fitness.Run(life) })
	}
	parts.Go(func() { a.series.Sample(life, a.gpus.Readings) })
	parts.Go(func() { a.rosters.Run(life) })
	parts.Go(func() { a.leases.Run(life) })
	parts.Go(func() { a.peers.Run(life) })
	if err := a.tasks.Adopt(); err != nil {
		end()
		parts.Wait()
		return err
	}
	parts.Go(func() { a.sessions.Run(life) })
	parts.Go(func() { a.ship(life) })
	parts.Go(func() { a.denied.tell(life, a.sessions.RecordDenials) })
	parts.Go(func() { a.checkpoints.Run(life) })
	parts.Go(func() { a.cleaner().Run(life) })
	a.log.Info("agent is up", "grpc", a.grpcAddr, "http", a.httpAddr, "gpus", len(a.gpus.Current()), "cpus", a.cpus, "memory_mb", a.memMB)

	select {
	case <-ctx.Done():
	case err = <-fatal:
	}
	if a.cfg.StopTasksOnExit {
		a.stopTasks()
	}
	a.tasks.Close()
	end()
	parts.Wait()
	if pool != nil {
		leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = pool.Leave(leaving)
	}
	return err
}

// reportsPatience is how long stopping all tasks waits for their reports to be sent; otherwise the next agent sends them.
const reportsPatience = time.Second

// stopTasks stops all tasks and waits until their shims are gone.
func (a *agent) stopTasks() {
	if err := a.tasks.StopAll(a.cfg.StopGrace); err != nil {
		a.log.Error("tasks keep running", "error", err)
		return
	}
	bounded, cancel := context.WithTimeout(context.Background(), reportsPatience)
	defer cancel()
	for a.outbox.Waiting() > 0 && a.sessions.Live() && bounded.Err() == nil {
		wait.For(bounded, 5*time.Millisecond)
	}
}

func (a *agent) cleaner() *outputs.Cleaner {
	return &outputs.Cleaner{Dirs: a.outputs, Keep: a.cfg.KeepOutputsFor, Live: a.tasks.LiveJobs, Needed: a.sessions.NeededOutputs, Log: a.log}
}

// as returns the function that runs another one with the rights of the user of a tenant's tasks; nil: that is the agent's.
func (a *agent) as() func(tenant string, f func()) error {
	if a.users == nil {
		return nil
	}
	return a.users.As
}

// openUsers looks up the users of the tasks, and lets them pass through the directories in which their own lie.
func (a *agent) openUsers() (err error) {
	a.users, err = isolation.OpenUsers(isolation.UsersConfig{ByTenant: a.cfg.Users, Default: a.cfg.DefaultUser, MinUID: a.cfg.MinUID})
	if err != nil || a.users == nil {
		return err
	}
	for _, dir := range []string{a.cfg.DataDir, a.tasksDir(), filepath.Join(a.cfg.DataDir, outputs.Folder), a.cfg.Data.Cache(a.cfg.DataDir)} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return fmt.Errorf("let the users of tasks reach their directories: %w", err)
		}
		info, err := os.Stat(dir)
		if err == nil {
			err = os.Chmod(dir, info.Mode().Perm()|0o111)
		}
		if err != nil {
			return fmt.Errorf("let the users of tasks reach their directories: %w", err)
		}
	}
	return a.users.Reach(a.tasksDir())
}

func (a *agent) labels() map[string]string {
	labels := withClique(a.cfg.Labels, a.gpus.Clique())
	if a.cfg.Machine.Processes != nil {
		return labels // there are no processes
	}
	return withIsolation(labels, a.isolation)
}

// hello is the first message of a session.
func (a *agent) hello() *v1.Hello {
	return &v1.Hello{
		NodeId: a.cfg.NodeID, Hostname: a.hostname, AgentVersion: a.cfg.Version, BootId: a.bootID, Gpus: a.gpus.Current(),
		CpuCount: int32(a.cpus), MemoryMb: int32(a.memMB), Labels: a.labels(), GrpcAddr: a.grpcAddr, HttpAddr: a.httpAddr,
		Incarnation: a.incarnation, RosterVersion: a.leases.RosterVersion(), Tasks: a.tasks.Unacknowledged(),
		ArchivesCheckpoints: a.cfg.CheckpointArchive.URL != "", Unfit: a.fitness.Why(),
	}
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
