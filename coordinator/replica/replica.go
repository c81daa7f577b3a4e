// Package replica gives services one copy of the replicated state: propose a command, read at a consistency, wait for a
// change, and hand a write to the leader.
//
// Guarantees. A proposal that returns without an error is committed and applied here; an error says whether the command
// was refused, not sent or of unknown outcome (package call). Read returns a view with every write that was
// acknowledged before the call began, unless the call asked for stale. A write is forwarded to the leader in at most
// one hop, and is repeated only if it certainly had no effect.
//
// The package does not depend on services, nor on the meaning of commands.
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
	"github.com/mindcoordinator/mind/fsm/once"
	"github.com/mindcoordinator/mind/raftnode"
	"github.com/mindcoordinator/mind/raftnode/replay"
	"github.com/mindcoordinator/mind/raftnode/round"
)

// Config configures a replica.
type Config struct {
	ID string
	// Listed are the gRPC addresses of the initial voters by id. They are used while the state does not have them.
	Listed map[string]string
	// Secret proves to the other coordinators that a coordinator calls; empty: they require none.
	Secret string
	// LeaderWait bounds how long a call waits for a leader to be known.
	LeaderWait time.Duration
	// Shutdown bounds how long Raft may take to stop when the replica retires.
	Shutdown time.Duration
	// Life ends when the coordinator shuts down or its replica retires. End ends it.
	Life context.Context
	End  context.CancelFunc
	Log  *slog.Logger
}

// Replica is this coordinator's copy of the state, with a connection to the leader.
type Replica struct {
	config  Config
	machine *fsm.Machine
	// links are connections to the other coordinators.
	links *links.Links
	// raft is nil until Open.
	raft atomic.Pointer[raftnode.Node]
	// retired is the reason why this replica is out of service; nil: it is in service.
	retired atomic.Pointer[string]
	// rounds are the shared questions for a read index. asking counts the goroutine that asks them.
	rounds  round.Rounds[uint64]
	asking  sync.WaitGroup
	changes changes
	leader  knownLeader
	// begun is closed by Begin.
	begun chan struct{}
	begin sync.Once
}

// New returns a replica that can be read, but is not in a cluster yet.
func New(config Config, machine *fsm.Machine, others *links.Links) *Replica {
	return &Replica{config: config, machine: machine, links: others, begun: make(chan struct{})}
}

// Open connects the replica to its cluster.
func (r *Replica) Open(node *raftnode.Node) {
	r.raft.Store(node)
	r.RefreshLeader()
}

// Opened reports whether Open was called.
func (r *Replica) Opened() bool { return r.raft.Load() != nil }

// Raft returns the node that was passed to Open; nil before.
func (r *Replica) Raft() *raftnode.Node { return r.raft.Load() }

// Past returns the log and the snapshots that this replica keeps.
func (r *Replica) Past() replay.Source { return r.Raft().Past() }

// ID returns the name of this coordinator among the voters.
func (r *Replica) ID() string { return r.config.ID }

// View returns the state that this replica has applied.
func (r *Replica) View() *fsm.View { return r.machine.View() }

// Life returns a context that ends when the coordinator shuts down, or its replica retires.
func (r *Replica) Life() context.Context { return r.config.Life }

// Link returns the connection to another coordinator. Callers must not close it.
func (r *Replica) Link(addr string) (Conn, error) { return r.links.To(addr) }

// AsReplica returns a context whose calls prove that a coordinator makes them.
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

// Propose replicates a command and returns its result, which must be an R. Of a call that is repeated with its
// idempotency key, it returns the result of the first time.
func Propose[R any](ctx context.Context, p Proposer, command kernel.Command) (R, error) {
	var none R
	answer, err := p.Propose(ctx, command)
	if err != nil {
		return none, err
	}
	if o, ok := answer.(once.Result); ok {
		if o.Kept {
			call.Of(ctx).Writes.Add(1)
		}
		return unwrap[R](command, o)
	}
	result, ok := answer.(R)
	if !ok {
		return none, fmt.Errorf("%T was answered with %T", command, answer)
	}
	return result, nil
}

// beginWithin bounds how long a proposal waits for Begin.
const beginWithin = 3 * time.Second

// Begin is called when the leader has raised the level of the state as far as it can. Until then, proposals to a state
// below the newest level wait, because the first commands of a new cluster would be written at an older level.
func (r *Replica) Begin() { r.begin.Do(func() { close(r.begun) }) }

// AtOnce returns a Proposer that does not wait for Begin.
func (r *Replica) AtOnce() Proposer { return atOnce{r} }

type atOnce struct{ r *Replica }

func (a atOnce) Propose(ctx context.Context, command kernel.Command) (any, error) {
	return a.r.propose(ctx, command)
}

// awaitBegin waits for Begin, if the level may still be raised.
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

// Pack makes a log entry of commands, at the level of the state.
func (r *Replica) Pack(now time.Time, commands [][]byte) []byte {
	return kernel.Pack(r.View().Level(), now, commands)
}

// Propose implements Proposer. It returns after the command was applied here.
func (r *Replica) Propose(ctx context.Context, command kernel.Command) (any, error) {
	r.awaitBegin(ctx)
	return r.propose(ctx, command)
}

func (r *Replica) propose(ctx context.Context, command kernel.Command) (any, error) {
	command = r.once(ctx, command)
	// The level never falls, so the command's entry will have this level or a higher one.
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

// Retire takes this replica out of service: it leaves Raft, and refuses every call. The process continues to run, so
// that it can be examined.
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

// Retired returns the error for calls if this replica is out of service, and nil otherwise.
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

// WhyRetired returns why this replica is out of service; empty: it is in service.
func (r *Replica) WhyRetired() string {
	if why := r.retired.Load(); why != nil {
		return *why
	}
	return ""
}
