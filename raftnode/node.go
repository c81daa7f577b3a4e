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
	// appendBatch bounds the entries of one message to a follower. Entries are
	// packed already, so a follower that lags is sent at most this many times
	// MaxEntryBytes at once: more would not arrive within LinkTimeout.
	appendBatch = 64
	// logCache keeps the newest entries in memory, so that replication does
	// not read back what was just written.
	logCache = 128
	// snapshotsKept is the newest and one to fall back on.
	snapshotsKept = 2
	// drainTime bounds the wait for writes in flight when a fault, and not
	// a caller with a deadline, stops the node.
	drainTime = 5 * time.Second
)

// ErrRemoved is the reason of a node that stopped because it was removed from
// the membership.
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
	changes subscriptions
	notify  chan bool

	// background is the context of every goroutine of the node.
	background context.Context
	end        context.CancelFunc
	running    sync.WaitGroup

	// opened is closed when Open is about to return.
	opened   chan struct{}
	stopOnce sync.Once
	stopping chan struct{}
	done     chan struct{}
	cause    error // written before done is closed
}

// Open starts a replica: it restores the state machine from the newest
// snapshot, joins the others and applies what was committed.
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
	// The stores sync what they write, and not the names of the files that they have just made.
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

// openStores opens the log and the snapshots on disk.
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

// newRaft starts raft. It panics when it cannot write its term, which before
// anything runs is only an error.
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
	// Raft forgets to answer some of the writes that it holds when it shuts
	// itself down. The node does that instead, once they are answered: see stop.
	c.ShutdownOnRemove = false
	return c
}

// begins says whether this replica is one of those that begin a cluster: it has
// no state, and somebody has said that there is none elsewhere.
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

// diskFailed runs on the goroutine whose write failed.
func (n *Node) diskFailed(err error) {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		err = fmt.Errorf("%w: the disk of %s is full; make room on it and start this coordinator again, nothing that was acknowledged is lost",
			err, n.cfg.Dir)
	}
	n.log.Error("disk write failed, this replica stops", "error", err)
	// First the links, so that nothing this replica believes to have written
	// is told to anybody.
	if n.transport != nil {
		n.transport.sever()
	}
	n.stop(context.Background(), fmt.Errorf("write to disk: %w", err))
}

// Shutdown hands leadership over when this replica has it, and stops. Writes
// in flight are answered; new ones are refused with ErrStopped. It returns
// when every goroutine has ended, or with ctx's error before that; stopping
// then goes on.
func (n *Node) Shutdown(ctx context.Context) error {
	n.stop(ctx, nil)
	select {
	case <-n.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the raft node to stop: %w", ctx.Err())
	}
}

// Done is closed when the node has stopped, by Shutdown or by a fault.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err says why the node stopped: nil before Done is closed and after Shutdown.
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

// unwind stops the parts in the order that loses nothing. Raft leaves some
// futures unanswered for ever when it is shut down under them, so everything
// that waits on one is let out first.
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

// await waits for one of raft's futures. When ctx ends first the future is left
// to its goroutine, which ends when raft answers.
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
