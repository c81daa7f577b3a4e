// Package replica gives services one copy of the replicated state: propose a command, read at a consistency, wait for a
// change, and hand a write to the leader.
//
// Guarantees. A proposal that returns without an error is committed and applied here; an error says whether the command
// was refused, not sent or of unknown outcome (package call). Read returns a view that holds every write that was
// acknowledged before the call began, unless the call asked for stale. A write is handed to the leader in at most one hop, and
// is repeated only when it certainly had no effect.
//
// It knows no service, and nothing of what the commands mean.
package replica

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/links"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/raftnode"
	"github.com/mindcoordinator/mind/raftnode/replay"
	"github.com/mindcoordinator/mind/raftnode/round"
)

// Config is what a replica knows of itself and of the others.
type Config struct {
	ID string
	// Listed are gRPC addresses of the initial voters by id, for as long as the state does not say them.
	Listed map[string]string
	// Secret shows the other coordinators that a coordinator calls; empty: none is asked for.
	Secret string
	// LeaderWait bounds how long a call waits for a leader to be known.
	LeaderWait time.Duration
	// Shutdown bounds how long Raft may take to stop when the replica retires.
	Shutdown time.Duration
	// Life ends when the coordinator shuts down or its replica retires; End ends it.
	Life context.Context
	End  context.CancelFunc
	Log  *slog.Logger
}

// Replica is this coordinator's copy of the state, and its way to the leader.
type Replica struct {
	config  Config
	machine *fsm.Machine
	// links are connections to the other coordinators.
	links *links.Links
	// raft is nil until Open.
	raft atomic.Pointer[raftnode.Node]
	// retired says why this replica is out of service; nil: it is not.
	retired atomic.Pointer[string]
	// rounds are the questions for a read index; asking counts the goroutine that asks them.
	rounds  round.Rounds[uint64]
	asking  sync.WaitGroup
	changes changes
	leader  knownLeader
	// begun is closed when the first term of this replica begins: see Begin.
	begun chan struct{}
	begin sync.Once
}

// New makes a replica that can be read, but is in no cluster yet.
func New(config Config, machine *fsm.Machine, others *links.Links) *Replica {
	return &Replica{config: config, machine: machine, links: others, begun: make(chan struct{})}
}

// Open puts the replica into its cluster.
func (r *Replica) Open(node *raftnode.Node) {
	r.raft.Store(node)
	r.RefreshLeader()
}

// Opened says whether Open was called.
func (r *Replica) Opened() bool { return r.raft.Load() != nil }

// Raft is the node that Open was given; nil before.
func (r *Replica) Raft() *raftnode.Node { return r.raft.Load() }

// Past is what this replica keeps of its log.
func (r *Replica) Past() replay.Source { return r.Raft().Past() }

// ID names this coordinator among the voters.
func (r *Replica) ID() string { return r.config.ID }

// View is the state as this replica has it now.
func (r *Replica) View() *fsm.View { return r.machine.View() }

// Life ends when the coordinator shuts down, or its replica retires.
func (r *Replica) Life() context.Context { return r.config.Life }

// Link is the connection to another coordinator. Callers must not close it.
func (r *Replica) Link(addr string) (Conn, error) { return r.links.To(addr) }

// AsReplica sends along what shows that a coordinator calls.
func (r *Replica) AsReplica(ctx context.Context) context.Context {
	if r.config.Secret == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, status.KeySecret, r.config.Secret)
}

// Proposer replicates commands.
type Proposer interface {
	Propose(ctx context.Context, command kernel.Command) (any, error)
}

// Propose replicates a command and returns its result, which must be an R.
func Propose[R any](ctx context.Context, p Proposer, command kernel.Command) (R, error) {
	var none R
	answer, err := p.Propose(ctx, command)
	if err != nil {
		return none, err
	}
	result, ok := answer.(R)
	if !ok {
		return none, fmt.Errorf("%T was answered with %T", command, answer)
	}
	return result, nil
}

// beginWithin bounds how long a proposal waits for Begin.
const beginWithin = 3 * time.Second

// Begin says that the leader has raised the level of the state as far as it can. Until then, proposals to a state below the
// newest level wait: the first commands of a new cluster would be written at the level of an old one.
func (r *Replica) Begin() { r.begin.Do(func() { close(r.begun) }) }

// AtOnce proposes without waiting for Begin.
func (r *Replica) AtOnce() Proposer { return atOnce{r} }

type atOnce struct{ r *Replica }

func (a atOnce) Propose(ctx context.Context, command kernel.Command) (any, error) {
	return a.r.propose(ctx, command)
}

// awaitBegin waits for Begin, where that matters.
func (r *Replica) awaitBegin(ctx context.Context) {
	if r.View().Level() >= level.Supported().Newest || !r.IsLeader() {
		return
	}
	timer := time.NewTimer(beginWithin)
	defer timer.Stop()
	select {
	case <-r.begun:
	case <-timer.C:
	case <-ctx.Done():
	case <-r.config.Life.Done():
	}
}

// Pack makes a log entry of commands, at the level that the state has here.
func (r *Replica) Pack(now time.Time, commands [][]byte) []byte {
	return kernel.Pack(r.View().Level(), now, commands)
}

// Propose implements Proposer. It returns when the command was applied here.
func (r *Replica) Propose(ctx context.Context, command kernel.Command) (any, error) {
	r.awaitBegin(ctx)
	return r.propose(ctx, command)
}

func (r *Replica) propose(ctx context.Context, command kernel.Command) (any, error) {
	// The level never falls, so the entry that the command gets into is of this level or above.
	data, err := kernel.Encode(r.View().Level(), command)
	if err != nil {
		return nil, err
	}
	applied, err := r.Raft().Propose(ctx, data)
	if err != nil {
		return nil, fmt.Errorf("proposing %T: %w", command, err)
	}
	if c := call.Of(ctx); c != nil {
		c.Index.Store(applied.Index)
	}
	return applied.Result, nil
}

// Retire takes this replica out of service: it has no part in Raft any more, and refuses every call. The process lives on,
// so that it can be looked at.
func (r *Replica) Retire(why string) {
	r.retired.Store(&why)
	r.config.Log.Error("this replica takes itself out of service", "why", why, "index", r.View().Index(),
		"next", "stop it, look at its data with `mind raft verify`, and replace it")
	r.config.End()
	ctx, cancel := context.WithTimeout(context.Background(), r.config.Shutdown)
	defer cancel()
	if err := r.Raft().Shutdown(ctx); err != nil {
		r.config.Log.Error("raft does not stop", "error", err)
	}
	r.RefreshLeader()
}

// Retired is the answer of a replica that is out of service, nil of one that is not.
func (r *Replica) Retired() error {
	why := r.WhyRetired()
	if why == "" {
		return nil
	}
	return &call.Failure{
		Code: codes.Unavailable, Outcome: status.NotSent,
		Message: fmt.Sprintf("coordinator %s is out of service: %s; use another one", r.config.ID, why),
	}
}

// WhyRetired says why this replica is out of service; empty: it is not.
func (r *Replica) WhyRetired() string {
	if why := r.retired.Load(); why != nil {
		return *why
	}
	return ""
}
