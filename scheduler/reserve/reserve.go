// Package reserve reserves starts for waiting jobs that fit nowhere: times, and the places that are free then.
//
// Contract. [Starts] is pure, like a plan: it reads a view, and its result is a proposal that the state checks.
//
// Guarantees. A reserved start depends only on time limits of running jobs, never on predictions. No start delays
// another one that comes before it.
package reserve

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/claims"
	"github.com/mindcoordinator/mind/fsm/work/domains"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/promises"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/scheduler/order"
	"github.com/mindcoordinator/mind/scheduler/predict"
	"github.com/mindcoordinator/mind/scheduler/quota"
)

const (
	// Little is the least time, in nanoseconds, by which a start must become earlier, or be missed, before the reserved
	// start is changed. A start must also become earlier by 1/littlePart of the time until it.
	Little      = int64(60e9)
	littlePart  = 20
	mostLooked  = 256 // jobs that are looked at, without a reserved start
	lookedTimes = 4   // as many more for each start that may be reserved
	// never is later than all times.
	never = int64(math.MaxInt64)
)

// View is the part of the state that Starts reads. *fsm.View implements it.
type View interface {
	quota.View
	order.View
	Nodes() iter.Seq[*work.Node]
	Use(node string) work.NodeUse
	LeasesOn(node string) iter.Seq[*work.Lease]
	Job(ident.Job) (*work.Job, bool)
	ClassOf(*work.Job) work.ClassKey
	// ClaimOf returns the places that are kept for a job.
	ClaimOf(ident.Job) (*claims.Claim, bool)
	// Windows are the maintenances and reservations of nodes. Promises are the reserved starts of waiting jobs.
	Windows() iter.Seq[*windows.Window]
	Promises() iter.Seq[*promises.Promise]
}

// Starts reserves starts for the first jobs of the given classes, in the order in which they would be offered, that
// have waited for as long as the policy says. Each gets the earliest start that the time limits of the running jobs
// allow. Starts returns false if the existing reserved starts do not change.
//
// An existing reserved start stays, whatever jobs come later, and whatever fair share says. It changes when its places
// become free earlier, when one of them is lost, when a job of a higher priority needs them, and when a job does not
// end in time. No start depends on the end of a job without a time limit.
//
// now is in Unix nanoseconds. model predicts durations for the order SHORTEST; nil: a model without data.
func Starts(v View, blocked []work.ClassKey, now int64, model *predict.Model) (jobverbs.PromiseStarts, bool) {
	now = max(now, v.Now())
	r := &reserver{view: v, ranking: order.NewRanking(v, model), now: now}
	seats := int(r.ranking.Policy.Backfill.Reservations)
	had := r.reserved()
	var want []*candidate
	if seats > 0 {
		want = slices.Concat(had, r.waiting(blocked, had, seats))
	}
	if len(want) == 0 {
		return jobverbs.PromiseStarts{}, r.count > 0
	}
	slices.SortStableFunc(want, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(a.above, b.above), cmp.Compare(b.rank(), a.rank()))
	})
	r.sites = newSites(v, now)
	for _, c := range had {
		r.sites.enter(c, &jobverbs.Start{Job: c.old.Job, At: c.old.StartAt, Tasks: c.old.Tasks}, false)
	}
	var out jobverbs.PromiseStarts
	changed, kept := false, 0
	for _, c := range want {
		if len(out.Starts) == seats {
			break
		}
		start := r.decide(c)
		if start == nil {
			continue
		}
		out.Starts = append(out.Starts, *start)
		if c.old == nil || c.old.StartAt != start.At || !slices.Equal(c.old.Tasks, start.Tasks) {
			changed = true
		} else {
			kept++
		}
	}
	return out, changed || kept != r.count
}

// reserver decides the reserved starts one after the other.
type reserver struct {
	view    View
	ranking *order.Ranking
	now     int64
	sites   *sites
	// count is the number of existing reserved starts.
	count int
}

// candidate is a job for which a start may be reserved. asks is the same job without the types of GPU of which a limit
// leaves too few. old is its existing reserved start; nil: none.
type candidate struct {
	job   *work.Job
	asks  *work.Job
	above int
	old   *promises.Promise
}

// allowed returns a job without the types of GPU of which its limits leave too few.
func allowed(j *work.Job, l *quota.Limits) *work.Job {
	shape := l.Narrow(j.Shape)
	if shape == j.Shape {
		return j
	}
	asks := *j
	asks.Shape = shape
	return &asks
}

// rank puts jobs with a reserved start before others.
func (c *candidate) rank() int {
	if c.old != nil {
		return 1
	}
	return 0
}

// reserved returns the jobs whose reserved starts may stay, the oldest first.
func (r *reserver) reserved() []*candidate {
	var all []*candidate
	limits := quota.New(r.view)
	for p := range r.view.Promises() {
		r.count++
		j, ok := r.view.Job(p.Job)
		if !ok || !r.eligible(j) {
			continue
		}
		key := r.view.ClassOf(j)
		l := limits.Of(&key)
		if l.Bars(j.Shape) != "" || !l.Allow(j.Shape, p.Tasks) {
			continue
		}
		all = append(all, &candidate{job: j, asks: allowed(j, &l), above: r.ranking.Of(j).Above, old: p})
	}
	slices.SortStableFunc(all, func(a, b *candidate) int { return cmp.Compare(a.old.Since, b.old.Since) })
	return all
}

// eligible reports whether a start may be reserved for a job. Elements of an array that were never placed have no row.
// If the last attempt of a job may be alive, only the leader knows where the next one may run. A job with a claim has
// more than a reserved start. The search for a start does not consider domains between nodes.
func (r *reserver) eligible(j *work.Job) bool {
	_, claimed := r.view.ClaimOf(j.ID)
	return j.Waiting() && j.Array == nil && !j.Replacement() && !claimed && (j.Shape.Between == domains.Anywhere || j.Shape.Nodes <= 1)
}

// waiting returns the first jobs of blocked classes that have waited for long enough.
func (r *reserver) waiting(blocked []work.ClassKey, had []*candidate, seats int) []*candidate {
	line, limits := order.NewTree(r.view, r.ranking), quota.New(r.view)
	var open []quota.Limits // by the numbers of the classes
	for _, key := range blocked {
		l := limits.Of(&key)
		if l.Bars(key.Shape) != "" {
			continue
		}
		c := order.NewClass(&key)
		c.Number = len(open)
		open = append(open, l)
		line.Open(&c)
	}
	line.Ready()
	known := map[ident.Job]bool{}
	for _, c := range had {
		known[c.job.ID] = true
	}
	var found []*candidate
	for range mostLooked + lookedTimes*seats {
		l := line.First()
		if l == nil || len(found) == lookedTimes*seats {
			break
		}
		j := l.Head
		if known[j.ID] || !r.eligible(j) || r.ranking.Waited(j) < r.ranking.Policy.Backfill.After {
			line.Skip()
			continue
		}
		found = append(found, &candidate{job: j, asks: allowed(j, &open[l.Class.Number]), above: l.Rank.Above})
		line.Placed()
	}
	return found
}

// decide returns the start to reserve for a job, without delaying the starts that were entered before; nil: none.
func (r *reserver) decide(c *candidate) *jobverbs.Start {
	if c.old == nil {
		start := r.sites.find(c.asks, r.now, never, c.above)
		if start == nil {
			return nil
		}
		r.sites.enter(c, start, start.At <= r.now)
		if start.At <= r.now {
			return nil // The job starts with the next plan.
		}
		return start
	}
	r.sites.forget(c.old)
	start := &jobverbs.Start{Job: c.old.Job, Attempt: c.old.Attempt, At: c.old.StartAt, Tasks: c.old.Tasks, Cause: c.old.Cause}
	if why := r.broken(c); why != "" {
		if start = r.sites.find(c.asks, r.now, never, c.above); start == nil {
			return nil
		}
		start.Cause = why
	} else if better := r.sites.find(c.asks, r.now, start.At-max(Little, (start.At-r.now)/littlePart), math.MaxInt); better != nil {
		start = better
		start.Cause = reason.New(reason.PromiseEarlier)
	}
	r.sites.enter(c, start, false)
	return start
}

// broken returns the reason why a reserved start cannot be kept; empty: it can.
func (r *reserver) broken(c *candidate) reason.Reason {
	p := c.old
	latest := p.StartAt + Little
	for i := range p.Tasks {
		t := &p.Tasks[i]
		s := r.sites.named(t.Node)
		if s == nil || work.CheckTask(s.Node.Node, &work.NodeUse{}, c.job.Shape, t.GPUs) != nil {
			return reason.New(reason.PromiseNodeLost, t.Node)
		}
		use := s.When(latest)
		if work.CheckTask(s.Node.Node, &use, c.job.Shape, t.GPUs) != nil {
			if r.outranked(c, s, latest) {
				return reason.New(reason.PromiseOutranked)
			}
			return reason.New(reason.PromiseOverrun)
		}
		s.reserve(&use, p.StartAt, p.Until, c.above)
		if work.CheckTask(s.Node.Node, &use, c.job.Shape, t.GPUs) != nil {
			return reason.New(reason.PromiseOutranked)
		}
	}
	if r.now > latest {
		return reason.New(reason.PromiseOverrun)
	}
	return ""
}

// outranked reports whether a claim, or a job of a higher priority, is on a node for longer than until the given time.
func (r *reserver) outranked(c *candidate, s *site, until int64) bool {
	if s.Use.Claimed != (work.Claimed{}) {
		return true
	}
	for i := range s.Leases {
		l := &s.Leases[i]
		if j, ok := r.view.Job(l.Job); ok && (l.At == 0 || l.At > until) && r.ranking.Of(j).Above < c.above {
			return true
		}
	}
	return false
}
