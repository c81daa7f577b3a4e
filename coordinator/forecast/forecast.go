// Package forecast predicts when the waiting jobs of a tenant will start.
//
// Guarantees. A forecast is made on request, one at a time on each replica, from a view of the state limited to its tenant
// and to shared data: nothing of another tenant can be inferred from it. After a forecast that took long, the next one for
// that tenant waits for a multiple of that time; meanwhile requests get the last forecast, or none. A submit waits at most
// a few milliseconds for one.
//
// Not guaranteed: that a forecast exists, that it includes the newest jobs, and that it is right.
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
	"github.com/mindcoordinator/mind/scheduler/foresee"
)

const (
	// DefaultRest is the pause before the next forecast for the same tenant, as a multiple of the time that the last one
	// took: forecasts for one tenant never use more than about a twentieth of a processor.
	DefaultRest = 20
	// keptFor is how long a forecast is reused while nothing is written, and how long it is kept at most.
	keptFor = time.Second
	// recentFor is how old a forecast may be to answer other requests while the next one is made: they wait only if there
	// is no such forecast.
	recentFor = 30 * time.Second
	// MaxOnSubmit is the number of waiting jobs of a tenant up to which submits are answered with an estimate:
	// estimates must not slow down a burst of submits.
	MaxOnSubmit = 1000
	// submitPatience is how long a submit, which is already accepted, waits for its estimate. If forecasts take longer,
	// submits make them submitRest times less often than explicit requests: one in a thousand submits may wait for one.
	submitPatience = 10 * time.Millisecond
	submitRest     = 50
)

// Forecasts are the forecasts of this replica, one for each tenant. They are made on request, from the view of the
// answer; neither the planner nor the applying goroutine uses them.
type Forecasts struct {
	// rest is the multiple of a forecast's time by which the next one is delayed.
	rest int

	mu      sync.Mutex
	tenants map[string]*tenantForecast
	// turn is held while a forecast is computed.
	turn chan struct{}

	// Errors measures their errors.
	Errors *Errors
}

// New returns Forecasts. The next forecast for a tenant is delayed by rest times the duration of the last one;
// negative: no delay. off is called with the delay of a job's start after its first estimate.
func New(rest int, off func(time.Duration)) *Forecasts {
	return &Forecasts{rest: rest, tenants: map[string]*tenantForecast{}, turn: make(chan struct{}, 1), Errors: newErrors(off)}
}

// tenantForecast is the forecast state of a tenant.
type tenantForecast struct {
	// turn is held while the next forecast is made.
	turn   chan struct{}
	newest atomic.Pointer[madeForecast]
}

// madeForecast is a forecast with the state that it was made from, its time, and how long it took.
type madeForecast struct {
	*foresee.Forecast
	index uint64
	made  time.Time
	took  time.Duration
}

// Tenant predicts when the waiting jobs of a tenant start; nil: there is nothing to predict, or the caller's time is
// over. The result may be a little old, and then lacks the newest jobs.
func (e *Forecasts) Tenant(ctx context.Context, v *fsm.View, tenant string) *foresee.Forecast {
	return e.foresee(ctx, v, tenant, 1)
}

// foresee is Tenant with a longer delay of the next forecast.
func (e *Forecasts) foresee(ctx context.Context, v *fsm.View, tenant string, longer int) *foresee.Forecast {
	if alone(v, tenant) {
		return nil
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
	// The previous holder of the turn may have made the forecast.
	if f = t.newest.Load(); f.good(v, e.rest, longer) {
		return f.Forecast
	}
	start := time.Now()
	f = &madeForecast{Forecast: foresee.Starts(v, tenant, logTime(v, start), foresee.Options{}), index: v.Index(), made: start}
	f.took = time.Since(start)
	t.newest.Store(f)
	e.Errors.tell(v, tenant, f.Forecast)
	return f.Forecast
}

// alone reports whether none of a tenant's own jobs is in the way of any.
func alone(v *fsm.View, tenant string) bool {
	counts := v.CountsOf(tenant)
	live := counts[v1.JobState_ALLOCATED] + counts[v1.JobState_STARTING] + counts[v1.JobState_RUNNING]
	queued := counts[v1.JobState_QUEUED]
	return queued == 0 || queued == 1 && live == 0
}

// Past returns the forecast for a job from an earlier state, as of that time; nil: there is none. It is not kept.
func Past(v *fsm.View, j *work.Job, then time.Time) *foresee.Forecast {
	if !j.Waiting() || alone(v, j.Tenant) {
		return nil
	}
	return foresee.Starts(v, j.Tenant, then, foresee.Options{})
}

// good reports whether a forecast is reused: because it is recent relative to the time that it took, or because nothing
// was written since.
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

// Job is Tenant for one job. It also returns nil if the forecast does not include the job.
func (e *Forecasts) Job(ctx context.Context, v *fsm.View, j *work.Job) *foresee.Forecast {
	if !j.Waiting() {
		return nil
	}
	return e.Tenant(ctx, v, j.Tenant)
}

// logTime is the time by this replica's clock, or the log's if that is ahead.
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

// of returns the forecast state of a tenant, and drops old forecasts of others.
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

// forget drops a forecast that is no longer requested.
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

// StartOf returns when a waiting job is expected to start; false: unknown. If neither a job of the tenant nor a window is in
// the way, the start is unknown, because the job waits nevertheless.
func StartOf(f *foresee.Forecast, j *work.Job) (time.Time, bool) {
	if j.State == v1.JobState_QUEUED && j.Held == work.HoldNotBefore {
		return time.Unix(0, j.NotBefore), true
	}
	if f == nil || !j.Waiting() {
		return time.Time{}, false
	}
	start, ok := f.Start(j.ID)
	return time.Unix(0, start.At), ok && start.Waits() && start.At != 0
}

// WaitOf is StartOf in seconds from now.
func WaitOf(f *foresee.Forecast, j *work.Job) *float64 {
	at, ok := StartOf(f, j)
	if !ok {
		return nil
	}
	return proto.Float64(math.Round(max(0, time.Until(at).Seconds())))
}

// After returns the id of the job whose end a waiting job waits for first; empty: it is unknown, or no job of its
// tenant.
func After(f *foresee.Forecast, j *work.Job) string {
	if f == nil || !j.Waiting() {
		return ""
	}
	if start, ok := f.Start(j.ID); ok && start.After != 0 {
		return start.After.String()
	}
	return ""
}

// Waits returns a function for jobs that were just accepted: the seconds until a job is expected to start. It does not
// wait long for a forecast.
func (e *Forecasts) Waits(ctx context.Context, v *fsm.View, tenant string) func(id ident.Job) *float64 {
	if v.CountsOf(tenant)[v1.JobState_QUEUED] > MaxOnSubmit {
		return func(ident.Job) *float64 { return nil }
	}
	within, cancel := context.WithTimeout(ctx, submitPatience)
	defer cancel()
	forecast := e.foresee(within, v, tenant, submitRest)
	return func(id ident.Job) *float64 {
		j, ok := v.Find(id)
		if !ok {
			return nil
		}
		return WaitOf(forecast, j)
	}
}

// Explain says in words when a waiting job is expected to start, as of now.
func Explain(f *foresee.Forecast, j *work.Job, now time.Time) []string {
	if f == nil || !j.Waiting() {
		return nil
	}
	start, ok := f.Start(j.ID)
	switch {
	case !ok || !start.Waits():
		return nil
	case start.Window:
		return []string{fmt.Sprintf("starts in %s at the earliest, when a maintenance or a reservation ends", roughly(time.Unix(0, start.At).Sub(now)))}
	case start.At == 0:
		return []string{fmt.Sprintf("starts at the earliest when %s ends; that time is unknown: set max_runtime_seconds, or wait for a job of that name to complete", start.After)}
	}
	return []string{fmt.Sprintf("starts in %s at the earliest, when %s ends (an estimate from the jobs of its tenant alone)", roughly(time.Unix(0, start.At).Sub(now)), start.After)}
}

// roughly formats a duration with the accuracy of an estimate.
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
