package tables

import (
	"iter"
	"strings"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
)

// ranJob lists a job that ran through by whose it is and what it is called, without what numbers it. It is derived from the
// jobs, like every index.
type ranJob struct {
	tenant uint32
	stem   string
	id     ident.Job
}

func ranLess(a, b ranJob) bool {
	if a.tenant != b.tenant {
		return a.tenant < b.tenant
	}
	if c := strings.Compare(a.stem, b.stem); c != 0 {
		return c < 0
	}
	return a.id < b.id
}

func (s *State) ranOf(j *work.Job) ranJob {
	return ranJob{s.tenantNumber(j.Tenant), work.Stem(j.Name), j.ID}
}

// RanLike iterates, newest first, the jobs of a tenant that ran through and are called like that one but for its number.
func (v *View) RanLike(tenant, name string) iter.Seq[*work.Job] {
	return func(yield func(*work.Job) bool) {
		n, ok := v.jobs.tenants.Get(tenantNumber{name: tenant})
		if !ok {
			return
		}
		stem := work.Stem(name)
		v.jobs.ran.DescendFrom(ranJob{n.number, stem, ^ident.Job(0)}, func(r ranJob) bool {
			if r.tenant != n.number || r.stem != stem {
				return false
			}
			j, _ := v.Job(r.id)
			return yield(j)
		})
	}
}
