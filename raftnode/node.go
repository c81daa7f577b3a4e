package raftnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/durable"
	"github.com/mindcoordinator/mind/raftnode/hostlog"
	"github.com/mindcoordinator/mind/raftnode/machine"
	"github.com/mindcoordinator/mind/raftnode/round"
	"github.com/mindcoordinator/mind/raftnode/store"
)

const (
	// appendBatch limits the number of entries in one message to a follower. Each of them may have MaxEntryBytes, so
	// more would not arrive within LinkTimeout.
	appendBatch = 64
	// logCache is the number of newest entries that are kept in memory, so that replication need not read them from
	// disk.
	logCache = 128
	// snapshotsKept is the number of snapshots that are kept: the newest, and one for the case that the newest is
	// damaged.
	snapshotsKept = 2
	// drainTime limits the wait for writes in flight when the node stops.
	drainTime = 5 * time.Second
)

// ErrRemoved is the error of a node that stopped because it was removed from the membership; see Err.
var ErrRemoved = errors.New("this replica was removed from the membership")

// Node is one replica.
type Node struct {
	cfg  Config
	log  *slog.Logger
	raft *raft.Raft

	transport *transport
	store     *store.Latch
	snapshots raft.SnapshotStore
	machine   *machine.Machine
	proposer  *proposer
	reads     round.Rounds[readAt]
	metrics   *metrics
	pacing    *pacing
	gate      gate

	leading atomic.Pointer[period]
	lost    atomic.Pointer[loss]
	changes subscriptions
	notify  chan bool

	// background is the context of all goroutines of the node.
	background context.Context
	end        context.CancelFunc
	running    sync.WaitGroup

	// opened is closed at the end of Open.
	opened   chan struct{}
	stopOnce sync.Once
	stopping chan struct{}
	done     chan struct{}
	cause    error // written before done is closed
}

// Open starts a replica: it restores the state machine from the newest snapshot, connects to the other replicas and
// applies committed entries.
func Open(cfg Config, sm StateMachine) (*Node, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("raft node configuration: %w", err)
	}
	if err := durable.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	n := &Node{
		cfg:      cfg,
		log:      cfg.Logger.With("component", "raftnode", "replica", cfg.ID),
		notify:   make(chan bool),
		opened:   make(chan struct{}),
		stopping: make(chan struct{}),
		done:     make(chan struct{}),
	}
	n.background, n.end = context.WithCancel(context.Background())
	n.machine = machine.New(sm)
	n.pacing = newPacing(cfg, n.log)
	defer close(n.opened)
	if err := n.start(); err != nil {
		n.end()
		return nil, errors.Join(err, n.closeParts())
	}
	return n, nil
}

func (n *Node) start() error {
	open := n.cfg.Stores
	if open == nil {
		open = n.openStores
	}
	disk, snapshots, err := open()
	if disk != nil {
		n.store = store.NewLatch(disk, n.diskFailed)
	}
	if err != nil {
		return err
	}
	n.snapshots = snapshots
	// The stores sync the files that they write, but not the directory with the names of new files.
	if err := durable.SyncDir(n.cfg.Dir); err != nil {
		return fmt.Errorf("sync data directory: %w", err)
	}
	cached, err := raft.NewLogCache(logCache, n.store)
	if err != nil {
		return fmt.Errorf("create log cache: %w", err)
	}
	begins, err := n.begins(cached, snapshots)
	if err != nil {
		return err
	}
	if n.transport, err = openTransport(n.cfg, n.pacing, hostlog.New(n.log)); err != nil {
		return err
	}
	if begins {
		if err := n.bootstrap(cached, snapshots); err != nil {
			return err
		}
	}
	if n.raft, err = newRaft(n.raftConfig(), n.machine, cached, n.store, snapshots, n.transport); err != nil {
		return n.explainStart(err, snapshots)
	}
	n.pacing.begin(n.raft)
	n.observe()
	n.proposer = newProposer(n)
	n.metrics = newMetrics(n)
	n.running.Go(n.watchLeadership)
	n.running.Go(func() { n.pacing.run(n.background) })
	n.running.Go(n.keepLinks)
	n.running.Go(n.proposer.pack)
	n.running.Go(n.proposer.complete)
	return nil
}

// openStores opens the stores of the log and the snapshots on disk.
func (n *Node) openStores() (Store, raft.SnapshotStore, error) {
	disk, err := store.Open(store.Config{Dir: n.cfg.Dir, Log: n.cfg.LogStore, Logger: n.log})
	if err != nil {
		return nil, nil, fmt.Errorf("open log store: %w", err)
	}
	if n.cfg.WrapStore != nil {
		disk = n.cfg.WrapStore(disk)
	}
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(filepath.Join(n.cfg.Dir, "snapshots"), snapshotsKept, hostlog.New(n.log))
	if err != nil {
		return disk, nil, fmt.Errorf("open snapshot store: %w", err)
	}
	return disk, snapshots, nil
}

// newRaft starts raft. Raft panics when it cannot write its term; newRaft returns this as an error, because nothing
// runs yet.
func newRaft(cfg *raft.Config, fsm raft.FSM, logs raft.LogStore, stable raft.StableStore, snapshots raft.SnapshotStore, t raft.Transport) (r *raft.Raft, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case error:
			r, err = nil, fmt.Errorf("start raft: %w", p)
		default:
			r, err = nil, fmt.Errorf("start raft: %v", p)
		}
	}()
	if r, err = raft.NewRaft(cfg, fsm, logs, stable, snapshots, t); err != nil {
		return nil, fmt.Errorf("start raft: %w", err)
	}
	return r, nil
}

func (n *Node) raftConfig() *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(n.cfg.ID)
	c.HeartbeatTimeout = n.cfg.HeartbeatTimeout
	c.ElectionTimeout = n.cfg.ElectionTimeout
	c.LeaderLeaseTimeout = n.cfg.LeaderLease
	c.CommitTimeout = n.cfg.CommitTimeout
	c.MaxAppendEntries = appendBatch
	c.BatchApplyCh = true
	c.SnapshotInterval = n.cfg.SnapshotInterval
	c.SnapshotThreshold = n.cfg.SnapshotThreshold
	c.TrailingLogs = n.cfg.TrailingLogs
	c.NotifyCh = n.notify
	c.Logger = hostlog.New(n.log)
	c.NoLegacyTelemetry = true
	// When raft shuts itself down it does not answer some of its pending writes. So the node stops raft itself after it
	// was removed, when writes are answered: see RemoveServer and unwind.
	c.ShutdownOnRemove = false
	return c
}

// begins reports whether this replica must bootstrap a cluster: it has a Bootstrap list and no state, and MayBootstrap
// allows it.
func (n *Node) begins(logs raft.LogStore, snapshots raft.SnapshotStore) (bool, error) {
	if len(n.cfg.Bootstrap) == 0 {
		return false, nil
	}
	exists, err := raft.HasExistingState(logs, n.store, snapshots)
	switch {
	case err != nil:
		return false, fmt.Errorf("look for existing state: %w", err)
	case exists:
		return false, nil
	case n.cfg.MayBootstrap == nil:
		return true, nil
	}
	may, err := n.cfg.MayBootstrap()
	if err != nil {
		return false, fmt.Errorf("begin a cluster: %w", err)
	}
	return may, nil
}

func (n *Node) bootstrap(logs raft.LogStore, snapshots raft.SnapshotStore) error {
	var first raft.Configuration
	for _, s := range n.cfg.Bootstrap {
		first.Servers = append(first.Servers, raft.Server{ID: raft.ServerID(s.ID), Address: raft.ServerAddress(s.Addr)})
	}
	if err := raft.BootstrapCluster(n.raftConfig(), logs, n.store, snapshots, n.transport, first); err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	return nil
}

// diskFailed stops the node after a failed write. It runs on the goroutine of that write.
func (n *Node) diskFailed(err error) {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		err = fmt.Errorf("%w: the disk of %s is full; make room on it and start this coordinator again, nothing that was acknowledged is lost",
			err, n.cfg.Dir)
	}
	n.log.Error("disk write failed, this replica stops", "error", err)
	// The links are closed first, so that this replica acknowledges nothing that it may not have written.
	if n.transport != nil {
		n.transport.sever()
	}
	n.stop(context.Background(), fmt.Errorf("write to disk: %w", err))
}

// Shutdown transfers leadership if this replica leads, and stops the node. Writes in flight are answered; new ones are
// refused with ErrStopped. Shutdown returns when all goroutines have ended. If ctx ends before, it returns the error of
// ctx, and stopping continues.
func (n *Node) Shutdown(ctx context.Context) error {
	n.stop(ctx, nil)
	select {
	case <-n.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the raft node to stop: %w", ctx.Err())
	}
}

// Done returns a channel that is closed when the node has stopped, because of Shutdown or a fault.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err returns why the node stopped. It is nil before Done is closed, and after Shutdown.
func (n *Node) Err() error {
	select {
	case <-n.done:
		return n.cause
	default:
		return nil
	}
}

func (n *Node) stop(ctx context.Context, cause error) {
	n.stopOnce.Do(func() {
		n.cause = cause
		close(n.stopping)
		go func() {
			defer close(n.done)
			<-n.opened
			if n.raft != nil { // Open may have failed
				n.unwind(ctx)
			}
		}()
	})
}

// unwind stops the parts of the node in order. Raft never answers some futures that are pending when it is shut down,
// so unwind first waits, for at most drainTime, until no call waits for a future.
func (n *Node) unwind(ctx context.Context) {
	drain, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	heir := n.heir()
	n.endPeriod()
	n.proposer.close()
	if err := n.gate.closeAndWait(drain); err != nil {
		n.log.Warn("stopping with writes still in flight", "error", err)
	}
	if n.cause == nil && n.raft.State() == raft.Leader && n.voters() > 1 {
		if err := n.handOver(drain, heir); err != nil {
			n.log.Warn("leadership was not handed over", "error", err)
		}
	}
	stopped := n.raft.Shutdown()
	if err := errors.Join(n.transport.Close(), stopped.Error()); err != nil {
		n.log.Warn("stop raft", "error", err)
	}
	n.end()
	n.proposer.abandon()
	n.running.Wait()
	n.metrics.close()
	if err := n.closeParts(); err != nil {
		n.log.Warn("close log store", "error", err)
	}
}

func (n *Node) closeParts() error {
	var errs []error
	if n.transport != nil {
		errs = append(errs, n.transport.Close())
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	return errors.Join(errs...)
}

// await waits for a future of raft. If ctx ends first, a goroutine goes on waiting until raft answers.
func await(ctx context.Context, f raft.Future) error {
	answer := make(chan error, 1)
	go func() { answer <- f.Error() }()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
