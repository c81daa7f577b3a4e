// Package forecast says when the waiting jobs of a tenant are expected to start.
//
// Guarantees. A forecast is made when somebody asks, one at a time on each replica, from a view of the state and of what
// belongs to its tenant or to everybody: nothing of another tenant shows in it. After one that took long, the next one for
// that tenant rests for many times as long; meanwhile the last one is answered, or none. A submit waits a few
// milliseconds for one at most.
//
// Not guaranteed: that there is one, that it knows of a job that was submitted a moment ago, and that it comes true.
package forecast

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler"
)

const (
	// DefaultRest is how many times as long as a forecast took the next one for the same tenant is put off: forecasts for one
	// tenant never take more than about a twentieth of a processor.
	DefaultRest = 20
	// keptFor is how long a forecast is answered from while nothing was written, and how long it is remembered at most.
	keptFor = time.Second
	// recentFor is how old a forecast may be from which others are answered while the next one is made: only without such a
	// one they wait.
	recentFor = 30 * time.Second
	// MaxOnSubmit is how many jobs of a tenant may wait for a submit to be answered with an estimate: a flood of submits
	// shall not be slowed down by them.
	MaxOnSubmit = 1000
	// submitPatience is how long a submit, which is accepted already, waits for its turn to be estimated. Forecasts that took longer
	// are made by submits submitRest times less often than by those who ask for them: one in a thousand submits may wait for one.
	submitPatience = 10 * time.Millisecond
	submitRest     = 50
)

// Forecasts are those of this replica, one for each tenant that asks. They are made when somebody asks, from the view that
// the answer is made from anyway; neither the planner nor the applying of entries knows of them.
type Forecasts struct {
	// rest is how many times as long as a forecast took the next one is put off.
	rest int

	mu      sync.Mutex
	tenants map[string]*tenantForecast
	// turn is taken by the one forecast that is being made.
	turn chan struct{}
}

// New makes forecasts of which the next one for a tenant is put off for rest times as long as one took; less than 0: not
// at all.
func New(rest int) *Forecasts {
	return &Forecasts{rest: rest, tenants: map[string]*tenantForecast{}, turn: make(chan struct{}, 1)}
}

// tenantForecast is what is known of a tenant's future.
type tenantForecast struct {
	// turn is taken by who makes the next forecast.
	turn   chan struct{}
	newest atomic.Pointer[madeForecast]
}

// madeForecast is a forecast with the state that it was made of, when, and how long that took.
type madeForecast struct {
	*scheduler.Forecast
	index uint64
	made  time.Time
	took  time.Duration
}

// Tenant foresees when the waiting jobs of a tenant start; nil: there is nothing to foresee, or the caller's time is up. It
// may be a moment old, and then knows nothing of what was submitted since.
func (e *Forecasts) Tenant(ctx context.Context, v *fsm.View, tenant string) *scheduler.Forecast {
	return e.foresee(ctx, v, tenant, 1)
}

// foresee is the same, where the next forecast is put off for so many times longer if it takes long.
func (e *Forecasts) foresee(ctx context.Context, v *fsm.View, tenant string, longer int) *scheduler.Forecast {
	counts := v.CountsOf(tenant)
	live := counts[v1.JobState_ALLOCATED] + counts[v1.JobState_STARTING] + counts[v1.JobState_RUNNING]
	if queued := counts[v1.JobState_QUEUED]; queued == 0 || queued == 1 && live == 0 {
		return nil // Nothing of its own is in the way of any.
	}
	t, all := e.of(tenant)
	f := t.newest.Load()
	if f.good(v, e.rest, longer) {
		return f.Forecast
	}
	recent := f != nil && time.Since(f.made) < recentFor
	for _, turn := range []chan struct{}{t.turn, all} {
		switch {
		case try(turn):
		case recent:
			return f.Forecast
		case !take(ctx, turn):
			return nil
		}
		defer func() { <-turn }()
	}
	// Whoever had the turn before may have made it.
	if f = t.newest.Load(); f.good(v, e.rest, longer) {
		return f.Forecast
	}
	start := time.Now()
	f = &madeForecast{Forecast: scheduler.Foresee(v, tenant, logTime(v, start), scheduler.ForecastOptions{}), index: v.Index(), made: start}
	f.took = time.Since(start)
	t.newest.Store(f)
	return f.Forecast
}

// good says whether a forecast is used again: while it was made a short time ago for how long that took, or nothing was
// written since.
func (f *madeForecast) good(v *fsm.View, rest, longer int) bool {
	if f == nil {
		return false
	}
	if f.took > submitPatience {
		rest *= longer
	}
	age := time.Since(f.made)
	return age < time.Duration(rest)*f.took || f.index == v.Index() && age < keptFor
}

// Job is the same where it is asked for one job; nil too where it says nothing of that one.
func (e *Forecasts) Job(ctx context.Context, v *fsm.View, j *work.Job) *scheduler.Forecast {
	if !j.Waiting() {
		return nil
	}
	return e.Tenant(ctx, v, j.Tenant)
}

// logTime is the time by this replica's clock, or by the log's where that is ahead.
func logTime(v *fsm.View, now time.Time) time.Time {
	return time.Unix(0, max(v.Now(), now.UnixNano()))
}

func try(turn chan struct{}) bool {
	select {
	case turn <- struct{}{}:
		return true
	default:
		return false
	}
}

func take(ctx context.Context, turn chan struct{}) bool {
	select {
	case turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// of finds what is kept for a tenant, and forgets what is old of others.
func (e *Forecasts) of(tenant string) (*tenantForecast, chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.tenants[tenant]
	if t == nil {
		for name, old := range e.tenants {
			old.forget(func() { delete(e.tenants, name) })
		}
		t = &tenantForecast{turn: make(chan struct{}, 1)}
		e.tenants[tenant] = t
	}
	return t, e.turn
}

// forget drops a forecast that nobody asks for any more.
func (t *tenantForecast) forget(drop func()) {
	select {
	case t.turn <- struct{}{}:
		if f := t.newest.Load(); f == nil || time.Since(f.made) > keptFor+DefaultRest*f.took {
			drop()
		}
		<-t.turn
	default: // In use.
	}
}

// StartOf is when a waiting job is expected to start; false: nothing can be said. That nothing of the tenant's own is in the
// way says nothing: the job waits nevertheless.
func StartOf(f *scheduler.Forecast, j *work.Job) (time.Time, bool) {
	if j.State == v1.JobState_QUEUED && j.Held == work.HoldNotBefore {
		return time.Unix(0, j.NotBefore), true
	}
	if f == nil || !j.Waiting() {
		return time.Time{}, false
	}
	start, ok := f.Start(j.ID)
	return time.Unix(0, start.At), ok && start.After != 0 && start.At != 0
}

// WaitOf is the same in seconds from now.
func WaitOf(f *scheduler.Forecast, j *work.Job) *float64 {
	at, ok := StartOf(f, j)
	if !ok {
		return nil
	}
	return proto.Float64(math.Round(max(0, time.Until(at).Seconds())))
}

// Waits is what a submit answers of jobs that were just accepted: in how many seconds each is expected to start. It does not
// wait for a forecast for long.
func (e *Forecasts) Waits(ctx context.Context, v *fsm.View, tenant string) func(id ident.Job) *float64 {
	if v.CountsOf(tenant)[v1.JobState_QUEUED] > MaxOnSubmit {
		return func(ident.Job) *float64 { return nil }
	}
	within, cancel := context.WithTimeout(ctx, submitPatience)
	defer cancel()
	forecast := e.foresee(within, v, tenant, submitRest)
	return func(id ident.Job) *float64 {
		j, ok := v.Job(id)
		if !ok {
			return nil
		}
		return WaitOf(forecast, j)
	}
}

// Explain says in words when a waiting job is expected to start.
func Explain(f *scheduler.Forecast, j *work.Job) []string {
	if f == nil || !j.Waiting() {
		return nil
	}
	start, ok := f.Start(j.ID)
	switch {
	case !ok || start.After == 0:
		return nil
	case start.At == 0:
		return []string{fmt.Sprintf("starts when %s ends at the earliest; how long that takes is not known: max_runtime_seconds would say it, or a job of that name that ran through", start.After)}
	}
	return []string{fmt.Sprintf("starts in %s at the earliest, when %s ends, going by the jobs of its tenant alone", roughly(time.Until(time.Unix(0, start.At))), start.After)}
}

// roughly is a duration as exactly as an estimate deserves it.
func roughly(d time.Duration) string {
	switch {
	case d < 90*time.Second:
		return fmt.Sprintf("about %d s", max(1, int(d.Round(time.Second)/time.Second)))
	case d < 90*time.Minute:
		return fmt.Sprintf("about %d min", int(d.Round(time.Minute)/time.Minute))
	case d < 36*time.Hour:
		return fmt.Sprintf("about %d h", int(d.Round(time.Hour)/time.Hour))
	}
	return fmt.Sprintf("about %d days", int(d.Round(24*time.Hour)/(24*time.Hour)))
}
