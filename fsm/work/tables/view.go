package tables

import (
	"iter"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/figures"
	"github.com/mindcoordinator/mind/fsm/work/inuse"
)

// MayTakeOver says whether a node may run a task of the job's next attempt, as far as the tasks go that may still be
// alive elsewhere.
func (v *View) MayTakeOver(j *work.Job, n *work.Node) bool { return j.MayRunOn(n) }

// SubmittedWith is the job that was submitted with a key and fingerprint, if that is remembered. It walks all keys: it is for
// the rare call that would be refused now but for having been made before.
func (s *rows) SubmittedWith(tenant, key string, fingerprint uint64) (ident.Job, bool) {
	if key == "" {
		return 0, false
	}
	return s.Submitted(tenant, key, fingerprint, s.meta.Now)
}

// Recovered is the index of the last recovery, and its time in Unix nanoseconds; 0: there was none.
func (v *View) Recovered() (index uint64, at int64) { return v.meta.Recovered, v.meta.RecoveredAt }

// RosterVersion is the index of the last change of the roster.
func (v *View) RosterVersion() uint64 { return v.meta.RosterVersion }

// Roster iterates the nodes on the roster, by id.
func (v *View) Roster() iter.Seq[*work.Node] {
	return func(yield func(*work.Node) bool) {
		for n := range v.Nodes() {
			if n.RosterSince != 0 && !yield(n) {
				return
			}
		}
	}
}

// View reads the tables of a frozen state. It never changes, costs no lock to read, and may be kept for as long as anybody
// likes.
type View struct {
	rows
	figures.View
	inuse.Figures
}

// Considered is the index up to which the scheduler has looked at every job.
func (v *View) Considered() uint64 { return v.meta.Considered }

// Fenced is how many stale reports were refused, ever.
func (v *View) Fenced() uint64 { return v.meta.Fenced }

// Incomplete is how many checkpoints were refused because they had no manifest, ever.
func (v *View) Incomplete() uint64 { return v.meta.Incomplete }

// Configured returns the bounds of finished jobs and of audit records that Configure has set; 0: the default.
func (v *View) Configured() (keepFinished, keepAudit uint32) {
	return v.meta.KeepFinished, v.meta.KeepAudit
}

// Counts is how many jobs there are, by state.
func (v *View) Counts() work.Counts { return v.jobs.counts }

// NextDue is the log time from which on a Tick has something to do; false: never, as things are. Timers of nodes that are
// away are not in it: while any is, a Tick is due every few seconds.
func NextDue(frozen *kernel.State) (int64, bool) {
	s := &Of(frozen).rows
	due, any := int64(0), false
	if s.Excess() > 0 {
		// Not at once: what is over the bound may have to stay for a while.
		due, any = s.meta.Now+1e9, true
	}
	consider := func(at int64) {
		if !any || at < due {
			due, any = at, true
		}
	}
	if t, ok := s.jobs.timers.Min(); ok {
		consider(t.at)
	}
	if at, ok := s.NextImpatient(); ok {
		consider(at)
	}
	if at, ok := s.NextExpiry(); ok {
		consider(at)
	}
	if t, ok := s.nodes.timers.Min(); ok {
		consider(t.at)
	}
	if at, ok := s.NextFaded(s.life()); ok {
		consider(at)
	}
	if t, ok := s.jobs.recovering.Min(); ok && s.nodes.unheard.Len() == 0 {
		consider(t.at)
	}
	if at, ok := s.NextEnd(); ok {
		consider(at)
	}
	if at, ok := s.NextTurn(); ok {
		consider(at)
	}
	if at, ok := s.NextMonth(); ok {
		consider(at)
	}
	if j, at := s.NextSpec(); j != nil {
		consider(at)
	}
	return due, any
}

// Job returns a job by its id.
func (s *rows) Job(id ident.Job) (*work.Job, bool) { return s.jobs.rows.Get(id) }

// Jobs iterates all jobs by id, from that id on (inclusive; 0: from the end that comes first).
func (s *rows) Jobs(desc bool, from ident.Job) iter.Seq[*work.Job] {
	switch {
	case !desc:
		return s.jobs.rows.RowsFrom(from)
	case from == 0:
		return s.jobs.rows.RowsDown(^ident.Job(0))
	}
	return s.jobs.rows.RowsDown(from)
}

// ActiveJobs iterates the jobs with leases, by id.
func (v *View) ActiveJobs() iter.Seq[*work.Job] {
	return func(yield func(*work.Job) bool) {
		v.jobs.active.All()(func(id ident.Job) bool {
			j, _ := v.Job(id)
			return yield(j)
		})
	}
}

// LiveJobs is the number of jobs with leases.
func (v *View) LiveJobs() int { return v.jobs.active.Len() }

// Pending says whether the job waits and the scheduler has never yet considered it.
func (v *View) Pending(j *work.Job) bool {
	return j.State == v1.JobState_QUEUED && j.Attempt == 0 && j.Created > v.meta.Considered
}

// Mix iterates what the jobs of the state ask for, those that ended as well, with the number of jobs. A shape comes once for
// each tenant that has it.
func (v *View) Mix() iter.Seq2[work.Shape, int] { return v.jobs.shapes.All() }

// MixOf is Mix for the jobs of one tenant.
func (v *View) MixOf(tenant string) iter.Seq2[work.Shape, int] { return v.jobs.shapes.Of(tenant) }

// Dependents iterates the jobs that wait for the end of that one.
func (s *rows) Dependents(id ident.Job) iter.Seq[*work.Job] {
	return func(yield func(*work.Job) bool) {
		s.jobs.dependents.AscendFrom(dependentJob{on: id}, func(d dependentJob) bool {
			if d.on != id {
				return false
			}
			j, _ := s.Job(d.id)
			return yield(j)
		})
	}
}

// JobGroups lists the groups of a tenant.
func (s *rows) JobGroups(tenant string) iter.Seq[work.CountedGroup] { return s.jobs.groups.Of(tenant) }

// JobsOfGroups iterates the jobs of some groups by id, from that id on (inclusive; 0: from the end that comes first).
func (s *rows) JobsOfGroups(groups []work.CountedGroup, desc bool, from ident.Job) iter.Seq[*work.Job] {
	return func(yield func(*work.Job) bool) {
		for id := range s.jobs.groups.Jobs(groups, desc, from) {
			if j, ok := s.Job(id); ok && !yield(j) {
				return
			}
		}
	}
}
