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
	"github.com/mindcoordinator/mind/scheduler/foresee"
)

const (
	// maxTold is the number of waiting jobs of a tenant whose first estimates are kept. More are not measured.
	maxTold = 10_000
	// maxErrors is the number of a tenant's newest errors that are kept, and maxMeasured the number of tenants.
	maxErrors   = 200
	maxMeasured = 10_000
	// fewErrors is the number of errors below which there is no summary.
	fewErrors = 5
)

// Errors compares the first estimate that this replica made for a job with the job's start. A restart loses its data.
type Errors struct {
	// observe is called with the delay of a job's start after the estimate; negative: it started earlier.
	observe func(off time.Duration)

	mu      sync.Mutex
	tenants map[string]*tenantErrors
}

type tenantErrors struct {
	told map[ident.Job]told
	// off has the newest errors, in nanoseconds. next is the index of the oldest once there are maxErrors.
	off  []int64
	next int
}

// told is the first estimate for the next attempt of a job.
type told struct {
	attempts uint32
	at       int64
}

func newErrors(observe func(off time.Duration)) *Errors {
	return &Errors{observe: observe, tenants: map[string]*tenantErrors{}}
}

// tell stores the estimates of a forecast for a tenant, which was made from a view, for jobs that had none before.
func (e *Errors) tell(v *fsm.View, tenant string, f *foresee.Forecast) {
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
		if !start.Waits() || start.At == 0 || len(of.told) >= maxTold {
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

// left removes the estimate of a job that waits no longer, and measures its error if the job got its places.
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

// Of returns the errors of the first estimates for the newest starts of a tenant's jobs; nil: there were none.
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

// SayErrors describes the errors in words; empty: there are too few.
func SayErrors(e *v1.EstimateError) []string {
	if e.GetJobs() < fewErrors {
		return nil
	}
	said := func(seconds float64) string { return roughly(time.Duration(seconds * float64(time.Second))) }
	return []string{fmt.Sprintf("of the last %d starts of its tenant that were estimated, half were at most %s off, and 9 in 10 at most %s",
		e.GetJobs(), said(e.GetHalfWithinSeconds()), said(e.GetMostWithinSeconds()))}
}
