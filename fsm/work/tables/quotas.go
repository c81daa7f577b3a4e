package tables

import (
	"iter"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/figures"
)

type quotaTables struct {
	rows kernel.Table[string, *work.Quota]
}

func newQuotaTables() (t quotaTables) {
	t.rows = kernel.NewTable[string, *work.Quota](recordQuota, func(a, b string) bool { return a < b })
	return t
}

func (t *quotaTables) freeze() quotaTables {
	return quotaTables{rows: t.rows.Freeze()}
}

// SetQuota puts a quota in, or takes it away. The waiting jobs of a tenant are in classes of their own while one limits them, so
// that the scheduler can pass over all of them at once, and tell their tenant alone why: they change places here.
func (s *State) SetQuota(tenant string, q *work.Quota) {
	var moved []*work.Job
	if s.Limited(tenant) != q.Limits() {
		moved = s.waitingOf(tenant)
	}
	for _, j := range moved {
		s.unlist(j)
	}
	figures.Touch(&s.Sums, tenant)
	if q != nil {
		s.quotas.rows.Put(tenant, q)
	} else {
		s.quotas.rows.Delete(tenant)
	}
	for _, j := range moved {
		s.list(j)
	}
}

// waitingOf lists the jobs of a tenant that the scheduler may place.
func (s *rows) waitingOf(tenant string) []*work.Job {
	var groups []work.CountedGroup
	for g := range s.JobGroups(tenant) {
		if g.State == v1.JobState_QUEUED && !g.Held || g.State == v1.JobState_RUNNING { // an array waits while it runs
			groups = append(groups, g)
		}
	}
	var waiting []*work.Job
	for j := range s.JobsOfGroups(groups, false, 0) {
		if j.Waiting() {
			waiting = append(waiting, j)
		}
	}
	return waiting
}

// Limited says whether a tenant has a quota that may keep its jobs waiting.
func (s *rows) Limited(tenant string) bool {
	if s.quotas.rows.Len() == 0 {
		return false
	}
	q, ok := s.quotas.rows.Get(tenant)
	return ok && q.Limits()
}

// Quota returns the quota of a tenant; false: it has none.
func (s *rows) Quota(tenant string) (*work.Quota, bool) { return s.quotas.rows.Get(tenant) }

// Quotas iterates the quotas by tenant.
func (s *rows) Quotas() iter.Seq[*work.Quota] { return s.quotas.rows.Rows() }
