package power

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/chaos/vm/power/ledger"
)

// moment is a moment at which the power is cut.
type moment struct {
	name string
	// early moments come before the cluster is ready, and have no load.
	early bool
	// await returns at the moment. If that does not come, it returns when ctx ends.
	await func(ctx context.Context, s *scene)
}

// scene has the state of one start of the machine for the moments.
type scene struct {
	rng *rand.Rand
	*cluster
	events *events
	ledger *ledger.Ledger
	// usual is how long the cluster took to become ready at its last start.
	usual time.Duration
}

// moments are used in an order that the seed determines, repeatedly.
var moments = []moment{
	{name: "starting", early: true, await: func(ctx context.Context, s *scene) { s.pass(ctx, s.usual*6/5) }},
	{name: "ready", await: func(ctx context.Context, s *scene) { s.pass(ctx, time.Second) }},
	{name: "acknowledged", await: after(ledger.Acknowledged, 5, 250)},
	{name: "snapshot", await: awaitSnapshot},
	{name: "ended", await: after(ledger.Ended, 1, 8)},
	{name: "registered", await: after(ledger.Registered, 1, 6)},
	{name: "quarantined", await: after(ledger.Quarantined, 1, 1)},
	{name: "canceled", await: after(ledger.Canceled, 1, 12)},
	{name: "burst", await: func(ctx context.Context, s *scene) { s.pass(ctx, 10*time.Second) }},
	{name: "stopping", await: awaitStopping},
}

// shortMoments are the moments of a short run, in which faults are most likely.
var shortMoments = []string{"acknowledged", "snapshot", "quarantined", "registered", "ended"}

// patience limits the wait for a moment.
const patience = 25 * time.Second

// pass waits for a random time up to most.
func (s *scene) pass(ctx context.Context, most time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(s.rng.Int64N(int64(most)))):
	}
}

// after returns a moment at the n-th event of a kind in this start, for a random n; in a third of the cases it is a
// little later.
func after(e ledger.Event, least, most int) func(context.Context, *scene) {
	return func(ctx context.Context, s *scene) {
		s.events.await(ctx, e, least+s.rng.IntN(most-least+1))
		if s.rng.IntN(3) == 0 {
			s.pass(ctx, 50*time.Millisecond)
		}
	}
}

// awaitSnapshot waits until a coordinator is writing a snapshot, which has a temporary name until it is complete.
func awaitSnapshot(ctx context.Context, s *scene) {
	s.pass(ctx, 4*time.Second)
	_ = s.machine.AwaitFile(ctx, dataDir+"/coordinators/*/raft/snapshots/snapshots/*.tmp") // after an error there is no such moment
	s.pass(ctx, 30*time.Millisecond)
}

// awaitStopping tells the cluster to stop, and returns while it is stopping.
func awaitStopping(ctx context.Context, s *scene) {
	s.pass(ctx, 5*time.Second)
	s.ledger.Stopping()
	_, _ = s.machine.Shell(ctx, fmt.Sprintf("kill -TERM %d", s.process.PID))
	s.pass(ctx, 3*time.Second)
}

// events counts the events of clients.
type events struct {
	mu    sync.Mutex
	seen  map[ledger.Event]int
	waits []*waiter
}

type waiter struct {
	event ledger.Event
	n     int
	done  chan struct{}
}

func newEvents() *events { return &events{seen: map[ledger.Event]int{}} }

// tell counts an event. It does not wait.
func (e *events) tell(event ledger.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen[event]++
	kept := e.waits[:0]
	for _, w := range e.waits {
		if e.seen[w.event] >= w.n {
			close(w.done)
		} else {
			kept = append(kept, w)
		}
	}
	e.waits = kept
}

// await waits for the n-th event of a kind.
func (e *events) await(ctx context.Context, event ledger.Event, n int) {
	w := &waiter{event, n, make(chan struct{})}
	e.mu.Lock()
	if e.seen[event] >= n {
		close(w.done)
	} else {
		e.waits = append(e.waits, w)
	}
	e.mu.Unlock()
	select {
	case <-w.done:
	case <-ctx.Done():
	}
}

// deck returns a function that returns all moments once in a random order, and then again in another one.
func deck(rng *rand.Rand, of []moment) func() moment {
	var left []moment
	return func() moment {
		if len(left) == 0 {
			left = append(left, of...)
			rng.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		}
		m := left[0]
		left = left[1:]
		return m
	}
}

func momentsNamed(names []string) ([]moment, error) {
	var some []moment
	for _, name := range names {
		found := false
		for _, m := range moments {
			if m.name == name {
				some, found = append(some, m), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no moment %q", name)
		}
	}
	return some, nil
}
