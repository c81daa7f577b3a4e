package term

import (
	"context"
	"time"

	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
)

// tickPace is how often the leader checks whether a Tick is due. The check is cheap: a Tick is written only if the
// state says that it would change something.
const (
	tickPace = 200 * time.Millisecond
	// awayPace is how often a Tick is written while nodes are away, because the consequences of their absence have no
	// date.
	awayPace = 5 * time.Second
)

// tick proposes Ticks, which let time pass in the state.
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

// passTime proposes Ticks until nothing more is due.
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
