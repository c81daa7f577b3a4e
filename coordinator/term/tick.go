package term

import (
	"context"
	"time"

	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
)

// tickPace is how often the leader looks whether a Tick is due. Looking costs nothing; a Tick is only written when the
// state says that it would do something.
const (
	tickPace = 200 * time.Millisecond
	// awayPace is how often time passes while nodes are away: what depends on them has no date of its own.
	awayPace = 5 * time.Second
)

// tick lets time pass in the state.
func (t *Term) tick(ctx context.Context) {
	ticker := time.NewTicker(tickPace)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			due, any := t.state.View().NextDue()
			if !(any && due <= now.UnixNano()) && !(now.Sub(last) >= awayPace && t.away.Load() > 0) {
				continue
			}
			last = now
			t.passTime(ctx)
		}
	}
}

// passTime proposes ticks until nothing is due any more.
func (t *Term) passTime(ctx context.Context) {
	for more := true; more; {
		tick := t.liveness.Tick(t.state.View(), t.listening(), time.Now())
		result, err := replica.Propose[clusterverbs.TickResult](ctx, t.state, tick)
		if err != nil && ctx.Err() == nil {
			t.log.Warn("tick was not taken", "error", err)
		}
		more = err == nil && result.More
	}
}
