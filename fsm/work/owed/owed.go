// Package owed lists the jobs with notices that were not told, and those that are to be told when they have waited for too long.
package owed

import (
	"iter"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

// maxKept bounds how many finished jobs stay beyond the bound until their notices were told or given up.
const maxKept = 10_000

// Board has the lists. They follow from the rows of the jobs.
type Board struct {
	// untold is by tenant, so that the leader can be fair between tenants.
	untold    kernel.Index[tenantJob]
	impatient kernel.Index[timer]
}

type tenantJob struct {
	tenant string
	id     ident.Job
}

type timer struct {
	at int64
	id ident.Job
}

// NewBoard returns empty lists.
func NewBoard() Board {
	return Board{
		untold:    kernel.NewIndex(func(a, b tenantJob) bool { return a.tenant < b.tenant || a.tenant == b.tenant && a.id < b.id }),
		impatient: kernel.NewIndex(func(a, b timer) bool { return a.at < b.at || a.at == b.at && a.id < b.id }),
	}
}

// Freeze returns the lists as they are now.
func Freeze(b *Board) Board { return Board{b.untold.Freeze(), b.impatient.Freeze()} }

// List takes a change of a row to the lists.
func List(b *Board, old, j *work.Job) {
	if old.Notices == j.Notices {
		return
	}
	if was, is := old.Notices.Owes(), j.Notices.Owes(); was != is {
		if is {
			b.untold.Put(tenantJob{j.Tenant, j.ID})
		} else {
			b.untold.Delete(tenantJob{old.Tenant, old.ID})
		}
	}
	if was, is := old.Notices.Wakes(), j.Notices.Wakes(); was != is {
		if was != 0 {
			b.impatient.Delete(timer{was, old.ID})
		}
		if is != 0 {
			b.impatient.Put(timer{is, j.ID})
		}
	}
}

// Keeps says whether a finished job stays, because it has notices that were not told.
func (b *Board) Keeps(j *work.Job) bool { return j.Notices.Owes() && b.untold.Len() <= maxKept }

// Impatient returns a job that has waited for so long that its URL is to be told; false: there is none.
func (b *Board) Impatient(now int64) (ident.Job, bool) {
	t, ok := b.impatient.Min()
	return t.id, ok && t.at <= now
}

// NextImpatient is when the next job has waited for too long, if it still waits then.
func (b *Board) NextImpatient() (int64, bool) {
	t, ok := b.impatient.Min()
	return t.at, ok
}

// UntoldJobCount is how many jobs have notices that were not told.
func (b *Board) UntoldJobCount() int { return b.untold.Len() }

// UntoldJobTenants iterates the tenants of jobs with notices that were not told, each once, in the order of their names, from one on.
func (b *Board) UntoldJobTenants(from string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for next := from; ; {
			found, ok := "", false
			b.untold.AscendFrom(tenantJob{tenant: next}, func(o tenantJob) bool {
				found, ok = o.tenant, true
				return false
			})
			if !ok || !yield(found) {
				return
			}
			next = found + "\x00"
		}
	}
}

// UntoldJobsOf iterates the jobs of a tenant with notices that were not told, from one on.
func (b *Board) UntoldJobsOf(tenant string, from ident.Job) iter.Seq[ident.Job] {
	return func(yield func(ident.Job) bool) {
		b.untold.AscendFrom(tenantJob{tenant, from}, func(o tenantJob) bool { return o.tenant == tenant && yield(o.id) })
	}
}

// CheckNotices reports what does not hold of the notices of jobs.
func (b *Board) CheckNotices(jobs iter.Seq[*work.Job], report kernel.Report) {
	untold, impatient := 0, 0
	for j := range jobs {
		if j.Notices == nil {
			continue
		}
		if wrong := j.Notices.Wrong(); wrong != "" {
			report("%s %s", j.ID, wrong)
		}
		if _, _, element := j.ID.Element(); element {
			report("%s is an element, and has notices of its own", j.ID)
		}
		if j.Notices.Owes() {
			if untold++; !b.untold.Has(tenantJob{j.Tenant, j.ID}) {
				report("%s has notices that were not told, and no leader sees them", j.ID)
			}
		}
		if at := j.Notices.Wakes(); at != 0 {
			if impatient++; !b.impatient.Has(timer{at, j.ID}) || j.State != v1.JobState_QUEUED || j.Held != 0 {
				report("%s has a notice due at %d, that it waits: it is not listed, or does not wait", j.ID, at)
			}
		}
	}
	if untold != b.untold.Len() || impatient != b.impatient.Len() {
		report("%d jobs have notices that were not told, and %d wait impatiently; %d and %d are listed", untold, impatient, b.untold.Len(), b.impatient.Len())
	}
}
