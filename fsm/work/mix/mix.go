// Package mix counts the jobs of the state by tenant and shape: what is asked for, and how often.
//
// An [Index] is changed in place, and brought up to date by Flush before it is frozen for a view.
package mix

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

// tenantShape is a shape that jobs of a tenant ask for.
type tenantShape struct {
	tenant string
	shape  work.Shape
}

// count is the number of jobs of a tenant with a shape.
type count struct {
	of tenantShape
	n  int
}

type slot struct {
	count
	dirty bool
}

// Index is the counts. Its map is looked into, never ranged over.
type Index struct {
	counts kernel.Index[count]
	slots  map[tenantShape]*slot
	// dirty are the slots that changed since the last flush, in the order of the changes.
	dirty []*slot
}

// New returns an index without jobs.
func New() Index {
	return Index{counts: kernel.NewIndex(less), slots: map[tenantShape]*slot{}}
}

func less(a, b count) bool {
	if a.of.tenant != b.of.tenant {
		return a.of.tenant < b.of.tenant
	}
	return work.ClassLess(work.ClassKey{Shape: a.of.shape}, work.ClassKey{Shape: b.of.shape})
}

// weight is how many jobs a row stands for: an array for all of its elements, whose rows come and go.
func weight(j *work.Job) int {
	if j.Array != nil {
		return j.Array.Size()
	}
	if _, _, element := j.ID.Element(); element {
		return 0
	}
	return 1
}

// Count counts a job that comes into the state (1) or leaves it (-1).
func (x *Index) Count(j *work.Job, by int) {
	if by *= weight(j); by == 0 {
		return
	}
	of := tenantShape{j.Tenant, j.Shape}
	s := x.slots[of]
	if s == nil {
		s = &slot{count: count{of: of}}
		x.slots[of] = s
	}
	s.n += by
	if !s.dirty {
		s.dirty = true
		x.dirty = append(x.dirty, s)
	}
}

// Change counts a job that takes the place of its former row.
func (x *Index) Change(old, j *work.Job) {
	if old.Shape != j.Shape {
		x.Count(old, -1)
		x.Count(j, 1)
	}
}

// Flush makes what was counted visible to Freeze.
func (x *Index) Flush() {
	for _, s := range x.dirty {
		s.dirty = false
		if s.n > 0 {
			x.counts.Put(s.count)
			continue
		}
		x.counts.Delete(s.count)
		delete(x.slots, s.of)
	}
	x.dirty = x.dirty[:0]
}

// Freeze returns a copy for a view.
func (x *Index) Freeze() Index { return Index{counts: x.counts.Freeze()} }

// All iterates the shapes with the number of jobs. A shape comes once for each tenant that has it.
func (x *Index) All() iter.Seq2[work.Shape, int] {
	return func(yield func(work.Shape, int) bool) {
		x.counts.All()(func(c count) bool { return yield(c.of.shape, c.n) })
	}
}

// Of iterates the shapes of one tenant's jobs.
func (x *Index) Of(tenant string) iter.Seq2[work.Shape, int] {
	return func(yield func(work.Shape, int) bool) {
		x.counts.AscendFrom(count{of: tenantShape{tenant: tenant}}, func(c count) bool {
			return c.of.tenant == tenant && yield(c.of.shape, c.n)
		})
	}
}

// Check reports where the counts differ from those of the jobs.
func (x *Index) Check(jobs iter.Seq[*work.Job], report kernel.Report) {
	want := map[tenantShape]int{}
	for j := range jobs {
		if n := weight(j); n > 0 {
			want[tenantShape{j.Tenant, j.Shape}] += n
		}
	}
	for c := range x.counts.All() {
		if want[c.of] != c.n {
			report("%d jobs of %s with shape %+v, counted again %d", c.n, c.of.tenant, c.of.shape, want[c.of])
		}
		delete(want, c.of)
	}
	if len(want) > 0 {
		report("%d shapes of jobs are not counted", len(want))
	}
}
