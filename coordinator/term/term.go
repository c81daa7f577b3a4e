// Package term runs the leader's duties during one term of leadership, and holds the leader's data of the term.
//
// Guarantees. A Term is created when the term begins and dropped when it ends: nothing in it is reset or passed on to
// the next term. Run returns when all goroutines of the term have ended. Raft refuses proposals after the term is over.
// Nodes get a fresh period before they are judged, and none is declared lost without the votes of a majority.
//
// A Term plans (package scheduler), lets time pass in the state, proves leadership, confirms renewals (package
// liveness), distributes the roster, and marks silent nodes as unreachable. The sessions of agents are in package
// session.
package term

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/liveness"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/coordinator/session"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/event"
)

// Raft proves leadership.
type Raft interface {
	// ReadIndex returns the term in which this replica leads, proven by a Raft round that began after the call.
	ReadIndex(ctx context.Context) (index, term uint64, err error)
	// Timeout returns how long Raft waits for a leader.
	Timeout() time.Duration
}

// Voters asks a coordinator for its votes on nodes.
type Voters interface {
	Ask(ctx context.Context, voter string, nodes []string) ([]*v1.Vote, error)
}

// Figures counts events.
type Figures interface {
	Planned(took time.Duration)
	Placed(jobs int)
	Renewed(direct, relayed int)
}

// State is the replicated state, with a Proposer to change it.
type State interface {
	View() *fsm.View
	replica.Proposer
}

// Config configures a Term.
type Config struct {
	State  State
	Raft   Raft
	Voters Voters
	// Figures are the metrics of the coordinator. Applied counts the changes of entries, on the applying goroutine.
	Figures Figures
	Applied func(*fsm.View, []event.Event)
	// Heartbeat is how often agents renew. UnreachableAfter is how long a node may be silent.
	Heartbeat, UnreachableAfter time.Duration
	// Placements bounds one command of a planning pass.
	Placements int
	// Duties are further functions that run until the term ends.
	Duties []func(context.Context)
	Log    *slog.Logger
}

// Term is one term of leadership.
type Term struct {
	config   Config
	log      *slog.Logger
	number   uint64
	state    State
	liveness *liveness.Term
	sessions *session.Table
	demand   *demand
	// away is the number of nodes that were unreachable at the last check.
	away atomic.Int64
}

// New begins a term. Leadership was proven just now, and all entries of earlier leaders are applied here.
func New(config Config, number uint64) *Term {
	v := config.State.View()
	live := liveness.NewTerm(config.UnreachableAfter, time.Now())
	return &Term{
		config: config, log: config.Log, number: number, state: config.State, liveness: live,
		sessions: session.NewTable(number, live, v), demand: newDemand(v.Index()),
	}
}

// Sessions returns the sessions of this term.
func (t *Term) Sessions() *session.Table { return t.sessions }

// Applied is called on the applying goroutine after each entry. It wakes the waiters whose view changed.
func (t *Term) Applied(v *fsm.View, events []event.Event) {
	nodes := false
	for i := range events {
		e := &events[i]
		switch e.Topic {
		case event.TopicNode:
			nodes = true
			t.sessions.Wake(e.Nodes)
			if e.NodeFrom != e.NodeTo && v.LeftByOthers() {
				// Another node may now have to remove the lost node's checkpoints from the archive.
				t.sessions.WakeAll()
			}
		case event.TopicJob, event.TopicLease, event.TopicCheckpoint:
			t.sessions.Wake(e.Nodes)
		case event.TopicState:
			nodes = true
			t.sessions.WakeAll()
		}
	}
	if nodes {
		t.sessions.RosterChanged()
	}
	t.demand.note(events)
	t.config.Applied(v, events)
}

// Run runs the term until ctx ends, and returns when all of its goroutines have ended. Applied must be called for each
// entry from here on.
func (t *Term) Run(ctx context.Context) {
	t.log.Info("leading", "term", t.number)
	// Entries may have been applied between New and now.
	t.sessions.RosterChanged()
	var loops sync.WaitGroup
	for _, loop := range append([]func(context.Context){t.prove, t.renew, t.distribute, t.plan, t.look, t.lose, t.tick}, t.config.Duties...) {
		loops.Go(func() { loop(ctx) })
	}
	<-ctx.Done()
	t.sessions.Close()
	loops.Wait()
	t.log.Info("leading no longer", "term", t.number, "why", context.Cause(ctx))
}

func (t *Term) distribute(ctx context.Context) { t.sessions.Distribute(ctx, t.state, t.log) }
