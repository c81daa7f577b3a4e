// Package foresee estimates when the waiting jobs of a tenant start.
//
// Contract. [Starts] runs the planner over the tenant's future instead of its present. It is pure, like the planner.
//
// Guarantees. A forecast uses the tenant's own jobs and shared data only: nodes, windows and limits of queues. It reveals
// nothing about other tenants, and its times are the earliest possible ones.
package foresee

import (
	"container/heap"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/preempt"
	"github.com/mindcoordinator/mind/scheduler/worth"
)

// Defaults of a forecast.
const (
	forecastJobs   = 1000
	forecastPasses = 256
	// forecastSlack merges ends at about the same time into one pass, once half of the passes are used: those within
	// this part (1/20) of the time until the first of them.
	forecastSlack = 20
)

// View is the part of the state that a forecast reads. *fsm.View implements it. *fsm.View implements it.
type View interface {
	scheduler.View
	preempt.View
	ClassJobs(class work.ClassKey) iter.Seq[*work.Job]
	MixOf(tenant string) iter.Seq2[work.Shape, int]
	// RanLike iterates the jobs of a tenant that succeeded in one attempt and have a similar name, the newest first.
	RanLike(tenant, name string) iter.Seq[*work.Job]
}

// Options bound the work of a forecast.
type Options struct {
	// Jobs is the number of the tenant's waiting jobs that are considered, from the head of the queue; default 1000.
	Jobs int
	// Passes is the number of passes that are planned; default 256. Later starts are not forecast.
	Passes int
}

// Start is when a waiting job is expected to start.
type Start struct {
	// At is in Unix nanoseconds; 0: it starts when After ends, at an unknown time.
	At int64
	// After is the job of the same tenant whose end lets the job start; 0: it waits for none, so At is the time of the
	// forecast, unless Window is set.
	After ident.Job
	// Window: it waits for none, but for the end of a maintenance or of a reservation.
	Window bool
}

// Waits reports whether the start is later than now for a reason that the forecast knows.
func (s Start) Waits() bool { return s.After != 0 || s.Window }

// Forecast holds the expected starts of the waiting jobs of one tenant.
type Forecast struct {
	starts map[ident.Job]Start
	// Passes is the number of planned passes.
	Passes int
}

// Start returns when a job is expected to start; false: unknown.
func (f *Forecast) Start(id ident.Job) (Start, bool) {
	s, ok := f.starts[id]
	return s, ok
}

// Starts iterates the expected starts of all jobs that have one, in no order.
func (f *Forecast) Starts() iter.Seq2[ident.Job, Start] { return maps.All(f.starts) }

// Starts simulates the future of one tenant's waiting jobs as if it had the cluster to itself: [scheduler.Plan] now, and
// again whenever a job is expected to end, and when a maintenance or a reservation ends. It uses the tenant's own jobs
// and shared data (nodes, windows, and the limits of queues), but nothing of other tenants, so that it reveals nothing
// about them. Its result is therefore the earliest possible start, as far as durations are known: a job behind one of
// unknown duration has no start. Like Plan it is pure.
func Starts(v View, tenant string, now time.Time, opts Options) *Forecast {
	if opts.Jobs <= 0 {
		opts.Jobs = forecastJobs
	}
	if opts.Passes <= 0 {
		opts.Passes = forecastPasses
	}
	out := &Forecast{starts: map[ident.Job]Start{}}
	f := newFuture(v, tenant)
	f.wait(opts.Jobs)
	if len(f.classes) == 0 {
		return out
	}
	d := durations{view: v, known: map[sampleKey][]int64{}}
	var (
		ends    endings
		endless []*holding // without a known end
	)
	for _, r := range f.running {
		if at, ok := d.end(r.job, now.UnixNano()); ok {
			ends = append(ends, ending{at, r})
		} else {
			endless = append(endless, r)
		}
	}
	heap.Init(&ends)
	at, freed, closed := now.UnixNano(), []*holding(nil), false
	windows := windowEnds(v, at)
	f.at = max(f.at, at)
	prices := sync.OnceValue(func() *worth.Prices { return worth.Learn(f.Mix(), f.Nodes()) })
	for {
		out.Passes++
		plan, causes := scheduler.Plan(f, scheduler.Options{Quiet: true, Prices: prices}), newCauses(freed)
		for i := range plan.Commands {
			for _, p := range plan.Commands[i].Placements {
				held := f.start(&p)
				start := Start{At: at, After: causes.of(held)}
				start.Window = closed && start.After == 0
				out.starts[p.Job] = start
				if array := p.Job.Submitted(); array != p.Job {
					if _, known := out.starts[array]; !known { // An array starts with its first element.
						out.starts[array] = start
					}
				}
				if took, ok := d.whole(held.job); ok {
					heap.Push(&ends, ending{at + took, held})
				} else {
					endless = append(endless, held)
				}
			}
		}
		if at == 0 || len(f.classes) == 0 || out.Passes == opts.Passes || len(ends)+len(endless)+len(windows) == 0 {
			return out
		}
		freed, closed = freed[:0], false
		if len(windows) > 0 && (len(ends) == 0 || windows[0] < ends[0].at) {
			at, windows, closed = windows[0], windows[1:], true
			f.at = max(f.at, at)
			continue
		}
		if len(ends) == 0 {
			// Times are unknown from here on. One more pass plans the jobs that wait for jobs of unknown duration.
			at, freed, endless = 0, endless, nil
			for _, h := range freed {
				f.end(h)
			}
			continue
		}
		until := ends[0].at
		if out.Passes >= opts.Passes/2 {
			until += (until - now.UnixNano()) / forecastSlack
		}
		for len(ends) > 0 && ends[0].at <= until {
			e := heap.Pop(&ends).(ending)
			at = e.at
			f.at = max(f.at, at)
			f.end(e.of)
			freed = append(freed, e.of)
		}
	}
}

// windowEnds returns the times at which maintenances and reservations end, in order.
func windowEnds(v View, now int64) (all []int64) {
	for w := range v.Windows() {
		if w.Until > now {
			all = append(all, w.Until)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// causes are the jobs that ended before a pass. last is, by node, the index of the last one that was on it.
type causes struct {
	freed []*holding
	last  map[string]int
}

func newCauses(freed []*holding) causes {
	c := causes{freed: freed, last: map[string]int{}}
	for i, h := range freed {
		for k := range h.tasks {
			c.last[h.tasks[k].Node] = i
		}
	}
	return c
}

// of returns the job whose end let another job start: the last one on that job's nodes, or the last of all if none was
// there; 0: no job ended.
func (c *causes) of(held *holding) ident.Job {
	if len(c.freed) == 0 {
		return 0
	}
	at := -1
	for i := range held.tasks {
		if k, ok := c.last[held.tasks[i].Node]; ok {
			at = max(at, k)
		}
	}
	if at < 0 {
		at = len(c.freed) - 1
	}
	return c.freed[at].job.ID
}

// ending is the time at which a job is expected to release its resources.
type ending struct {
	at int64
	of *holding
}

// endings is a heap, ordered by time and then by job, so that the same view gives the same forecast.
type endings []ending

func (e endings) Len() int { return len(e) }
func (e endings) Less(a, b int) bool {
	return e[a].at < e[b].at || e[a].at == e[b].at && e[a].of.job.ID < e[b].of.job.ID
}
func (e endings) Swap(a, b int) { e[a], e[b] = e[b], e[a] }
func (e *endings) Push(x any)   { *e = append(*e, x.(ending)) }
func (e *endings) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
