package fsm

import (
	"iter"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// ranJob lists a job that ran through by whose it is and what it is called, without what numbers it. It is derived from the
// jobs, like every index.
type ranJob struct {
	tenant uint32
	stem   string
	id     JobID
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

func (s *state) ranOf(j *Job) ranJob { return ranJob{s.tenantNumber(j.Tenant), Stem(j.Name), j.ID} }

// ranThrough says whether the job ran from its beginning to its end in one attempt. Only such a job tells how long the next
// one like it takes: one that failed, was stopped or went on from a checkpoint ran for some other time.
func (j *Job) ranThrough() bool {
	return j.State == v1.JobState_SUCCEEDED && j.Attempt == 1 && j.StartedAt != 0
}

// Stem is a name without what numbers it: "nightly" of "nightly-2026-01-31". Names of nothing else are left alone.
func Stem(name string) string {
	if stem := strings.TrimRight(name, "0123456789-_.: "); stem != "" {
		return stem
	}
	return name
}

// RanLike iterates, newest first, the jobs of a tenant that ran through and are called like that one but for its number.
func (v *View) RanLike(tenant, name string) iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		n, ok := v.jobs.tenants.tree.Get(tenantNumber{name: tenant})
		if !ok {
			return
		}
		stem := Stem(name)
		v.jobs.ran.tree.DescendLessOrEqual(ranJob{n.number, stem, ^JobID(0)}, func(r ranJob) bool {
			if r.tenant != n.number || r.stem != stem {
				return false
			}
			j, _ := v.Job(r.id)
			return yield(j)
		})
	}
}
