package scheduler

import (
	"cmp"
	"math"
	"slices"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/claims"
	"github.com/mindcoordinator/mind/fsm/work/domains"
	"github.com/mindcoordinator/mind/fsm/work/promises"
)

const (
	// little is by how much a start must become earlier, or be missed, for the promise to be changed; or a twentieth of the
	// time until then, if that is more.
	little      = int64(60e9)
	littlePart  = 20
	mostLooked  = 256 // jobs beside those that are promised a start
	lookedTimes = 4   // for each of those
	// never is after all times.
	never = int64(math.MaxInt64)
)

// ReserveView is what promising starts reads beside what planning does. *fsm.View implements it.
type ReserveView interface {
	View
	ClaimOf(ident.Job) (*claims.Claim, bool)
}

// Reserve decides which starts are promised: to the first jobs of these classes that have waited for as long as the policy
// says, in the order in which they would be offered, the earliest start that the time limits of the running jobs allow. false:
// the promises that there are stay as they are.
//
// A promise that there is stays, whatever comes behind it, and whatever comes before it in fair share. It is changed when its
// places are free earlier, when one of them is lost, when a job of a higher priority needs them, and when a job does not end
// when it should have. Nothing is promised that depends on the end of a job without a limit.
//
// now is in Unix nanoseconds. Like [Plan] it is pure, and the state checks what it proposes.
func Reserve(v ReserveView, blocked []work.ClassKey, now int64, opts Options) (promises.PromiseStarts, bool) {
	now = max(now, v.Now())
	r := &reserver{view: v, ranking: newRanking(v, opts), now: now}
	seats := int(r.ranking.policy.Backfill.Reservations)
	had := r.reserved()
	var want []*candidate
	if seats > 0 {
		want = slices.Concat(had, r.waiting(blocked, had, seats))
	}
	if len(want) == 0 {
		return promises.PromiseStarts{}, r.count > 0
	}
	slices.SortStableFunc(want, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(a.above, b.above), cmp.Compare(b.rank(), a.rank()))
	})
	r.sites = newSites(v, now)
	for _, c := range had {
		r.sites.enter(c, &promises.Start{Job: c.old.Job, At: c.old.StartAt, Tasks: c.old.Tasks}, false)
	}
	var out promises.PromiseStarts
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

// reserver makes promises, one after the other.
type reserver struct {
	view    ReserveView
	ranking *ranking
	now     int64
	sites   *sites
	// count is how many promises there are.
	count int
}

// candidate is a job that may be promised a start; old is what it was promised before, nil for nothing.
type candidate struct {
	job   *work.Job
	above int
	old   *promises.Promise
}

// rank puts promises that were made before others.
func (c *candidate) rank() int {
	if c.old != nil {
		return 1
	}
	return 0
}

// promised are the jobs with a promise that they may have, the oldest promise first.
func (r *reserver) reserved() []*candidate {
	var all []*candidate
	limits := newRoom(r.view)
	for p := range r.view.Promises() {
		r.count++
		j, ok := r.view.Job(p.Job)
		if !ok || !r.eligible(j) {
			continue
		}
		if l := limits.limitsOf(r.view.ClassOf(j)); l.bars(j.Shape) != "" {
			continue
		}
		all = append(all, &candidate{job: j, above: r.ranking.of(j).above, old: p})
	}
	slices.SortStableFunc(all, func(a, b *candidate) int { return cmp.Compare(a.old.Since, b.old.Since) })
	return all
}

// eligible says whether a job may be promised a start. An array is many jobs, of which those that were never placed have no
// row. Where a job may run whose last attempt may be alive, only the leader knows, and what a preemption keeps for one is more
// than a promise. The search for a start does not see domains between nodes.
func (r *reserver) eligible(j *work.Job) bool {
	_, claimed := r.view.ClaimOf(j.ID)
	return j.Waiting() && j.Array == nil && !j.Replacement() && !claimed && (j.Shape.Between == domains.Anywhere || j.Shape.Nodes <= 1)
}

// waiting are the first jobs of blocked classes that have waited for long enough.
func (r *reserver) waiting(blocked []work.ClassKey, had []*candidate, seats int) []*candidate {
	line, limits := newTree(r.view, r.ranking), newRoom(r.view)
	for _, key := range blocked {
		c := &class{key: key, limits: limits.limitsOf(key), costs: key.Shape.Amount().Now()}
		if c.limits.bars(key.Shape) != "" {
			continue
		}
		for lane := range r.view.Lanes(key) {
			if l := openLane(r.view, r.ranking, lane, c); l != nil {
				line.add(l)
			}
		}
	}
	line.ready()
	known := map[ident.Job]bool{}
	for _, c := range had {
		known[c.job.ID] = true
	}
	var found []*candidate
	for range mostLooked + lookedTimes*seats {
		l := line.first()
		if l == nil || len(found) == lookedTimes*seats {
			break
		}
		j := l.head
		if known[j.ID] || !r.eligible(j) || r.ranking.waited(j) < r.ranking.policy.Backfill.After {
			line.skip()
			continue
		}
		found = append(found, &candidate{job: j, above: l.rank.above})
		line.placed()
	}
	return found
}

// decide is what a job is promised, around what others have been; nil: nothing.
func (r *reserver) decide(c *candidate) *promises.Start {
	if c.old == nil {
		start := r.sites.find(c.job, r.now, never, c.above)
		if start == nil {
			return nil
		}
		r.sites.enter(c, start, start.At <= r.now)
		if start.At <= r.now {
			return nil // It starts with the next plan.
		}
		return start
	}
	r.sites.forget(c.old)
	start := &promises.Start{Job: c.old.Job, Attempt: c.old.Attempt, At: c.old.StartAt, Tasks: c.old.Tasks, Cause: c.old.Cause}
	if why := r.broken(c); why != "" {
		if start = r.sites.find(c.job, r.now, never, c.above); start == nil {
			return nil
		}
		start.Cause = why
	} else if better := r.sites.find(c.job, r.now, start.At-max(little, (start.At-r.now)/littlePart), math.MaxInt); better != nil {
		start = better
		start.Cause = reason.New(reason.PromiseEarlier)
	}
	r.sites.enter(c, start, false)
	return start
}

// broken says why a promise is not kept; empty: it is.
func (r *reserver) broken(c *candidate) reason.Reason {
	p := c.old
	latest := p.StartAt + little
	for i := range p.Tasks {
		t := &p.Tasks[i]
		s := r.sites.named(t.Node)
		if s == nil || work.CheckTask(s.node, &work.NodeUse{}, c.job.Shape, t.GPUs) != nil {
			return reason.New(reason.PromiseNodeLost, t.Node)
		}
		use := s.at(latest)
		if work.CheckTask(s.node, &use, c.job.Shape, t.GPUs) != nil {
			if r.outranked(c, s, latest) {
				return reason.New(reason.PromiseOutranked)
			}
			return reason.New(reason.PromiseOverrun)
		}
		s.reserve(&use, p.StartAt, p.Until, c.above)
		if work.CheckTask(s.node, &use, c.job.Shape, t.GPUs) != nil {
			return reason.New(reason.PromiseOutranked)
		}
	}
	if r.now > latest {
		return reason.New(reason.PromiseOverrun)
	}
	return ""
}

// outranked says whether what is on a node for longer has a higher priority than a job.
func (r *reserver) outranked(c *candidate, s *site, until int64) bool {
	if s.use.Claimed != (work.Claimed{}) {
		return true
	}
	for i := range s.leases {
		l := &s.leases[i]
		if j, ok := r.view.Job(l.Job); ok && (l.leaves == 0 || l.leaves > until) && r.ranking.of(j).above < c.above {
			return true
		}
	}
	return false
}
