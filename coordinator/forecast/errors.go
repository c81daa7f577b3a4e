package forecast

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/scheduler"
)

const (
	// maxTold is for how many waiting jobs of a tenant the first estimate is remembered. More are not measured.
	maxTold = 10_000
	// maxErrors is how many of a tenant's newest errors are kept, and maxMeasured for how many tenants.
	maxErrors   = 200
	maxMeasured = 10_000
	// fewErrors are too few to say anything in words.
	fewErrors = 5
)

// Errors compares the first estimate that this replica made for a job with the job's start. Nothing of it is kept over a
// restart.
type Errors struct {
	// observe is called with how much later a job started than estimated.
	observe func(off time.Duration)

	mu      sync.Mutex
	tenants map[string]*tenantErrors
}

type tenantErrors struct {
	told map[ident.Job]told
	// off has the newest errors, in nanoseconds; next is the oldest of them once there are maxErrors.
	off  []int64
	next int
}

// told is the first estimate for a job after so many attempts.
type told struct {
	attempts uint32
	at       int64
}

func newErrors(observe func(off time.Duration)) *Errors {
	return &Errors{observe: observe, tenants: map[string]*tenantErrors{}}
}

// tell remembers the estimates that a forecast for a tenant has, made from a view, for jobs that had none before.
func (e *Errors) tell(v *fsm.View, tenant string, f *scheduler.Forecast) {
	waits := func(id ident.Job) (attempts uint32, ok bool) {
		j, ok := v.Find(id)
		// An array starts many times.
		if !ok || !j.Waiting() || j.Array != nil {
			return 0, false
		}
		return j.Attempt, true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	of := e.tenants[tenant]
	if of == nil {
		if len(e.tenants) >= maxMeasured {
			return
		}
		of = &tenantErrors{told: map[ident.Job]told{}}
		e.tenants[tenant] = of
	}
	// A job may have started between the view and now, so that its start was not noted.
	maps.DeleteFunc(of.told, func(id ident.Job, was told) bool {
		attempts, ok := waits(id)
		return !ok || attempts != was.attempts
	})
	for id, start := range f.Starts() {
		if start.After == 0 || start.At == 0 || len(of.told) >= maxTold {
			continue
		}
		if _, known := of.told[id]; known {
			continue
		}
		if attempts, ok := waits(id); ok {
			of.told[id] = told{attempts, start.At}
		}
	}
}

// Observe measures the estimates of jobs that get their places. It is called with each applied entry.
func (e *Errors) Observe(v *fsm.View, events []event.Event) {
	for i := range events {
		change := &events[i]
		if change.Topic == event.TopicJob && change.From == v1.JobState_QUEUED && change.To != v1.JobState_QUEUED {
			e.left(v.Now(), change)
		}
	}
}

// left forgets what was told of a job that waits no longer, and measures it if the job got its places.
func (e *Errors) left(now int64, change *event.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	of := e.tenants[change.Tenant]
	if of == nil {
		return
	}
	was, ok := of.told[change.Job]
	delete(of.told, change.Job)
	if !ok || change.To != v1.JobState_ALLOCATED || change.Attempt != was.attempts+1 {
		return
	}
	off := now - was.at
	of.add(off)
	e.observe(time.Duration(off))
}

func (t *tenantErrors) add(off int64) {
	if len(t.off) < maxErrors {
		t.off = append(t.off, off)
		return
	}
	t.off[t.next] = off
	t.next = (t.next + 1) % maxErrors
}

// Of says how far off the first estimates of the newest starts of a tenant's jobs were; nil: there were none.
func (e *Errors) Of(tenant string) *v1.EstimateError {
	e.mu.Lock()
	defer e.mu.Unlock()
	of := e.tenants[tenant]
	if of == nil || len(of.off) == 0 {
		return nil
	}
	later := slices.Sorted(slices.Values(of.off))
	within := make([]int64, len(later))
	for i, off := range later {
		within[i] = max(off, -off)
	}
	slices.Sort(within)
	seconds := func(ns int64) float64 { return time.Duration(ns).Round(time.Second).Seconds() }
	return &v1.EstimateError{
		Jobs: int32(len(later)), MedianLaterSeconds: seconds(later[(len(later)-1)/2]),
		HalfWithinSeconds: seconds(within[(len(within)-1)/2]), MostWithinSeconds: seconds(within[(len(within)*9+9)/10-1]),
	}
}

// SayErrors puts it into words; empty: too few jobs to say anything.
func SayErrors(e *v1.EstimateError) []string {
	if e.GetJobs() < fewErrors {
		return nil
	}
	said := func(seconds float64) string { return roughly(time.Duration(seconds * float64(time.Second))) }
	return []string{fmt.Sprintf("of the last %d starts of its tenant that were estimated, half were at most %s off, and 9 in 10 at most %s",
		e.GetJobs(), said(e.GetHalfWithinSeconds()), said(e.GetMostWithinSeconds()))}
}
