package tables

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

// tenantShape is what the jobs of a tenant have in common that ask for the same.
type tenantShape struct {
	tenant string
	shape  work.Shape
}

// shapeCount is the number of jobs of a tenant with a shape.
type shapeCount struct {
	of tenantShape
	n  int
}

type shapeSlot struct {
	shapeCount
	dirty bool
}

func shapeLess(a, b shapeCount) bool {
	if a.of.tenant != b.of.tenant {
		return a.of.tenant < b.of.tenant
	}
	return work.ClassLess(work.ClassKey{Shape: a.of.shape}, work.ClassKey{Shape: b.of.shape})
}

// countShape counts a job that comes into the state (or leaves it).
func (s *State) countShape(j *work.Job, by int) {
	w, of := s.work, tenantShape{j.Tenant, j.Shape}
	slot := w.shapes[of]
	if slot == nil {
		slot = &shapeSlot{shapeCount: shapeCount{of: of}}
		w.shapes[of] = slot
	}
	slot.n += by
	if !slot.dirty {
		slot.dirty = true
		w.dirtyShapes = append(w.dirtyShapes, slot)
	}
}

func (s *State) flushShapes() {
	w := s.work
	for _, slot := range w.dirtyShapes {
		slot.dirty = false
		if slot.n > 0 {
			s.jobs.shapes.Put(slot.shapeCount)
			continue
		}
		s.jobs.shapes.Delete(slot.shapeCount)
		delete(w.shapes, slot.of)
	}
	w.dirtyShapes = w.dirtyShapes[:0]
}

// Mix iterates what the jobs of the state ask for, those that ended as well, with the number of jobs. A shape comes once for
// each tenant that has it.
func (v *View) Mix() iter.Seq2[work.Shape, int] {
	return func(yield func(work.Shape, int) bool) {
		v.jobs.shapes.All()(func(c shapeCount) bool { return yield(c.of.shape, c.n) })
	}
}

// MixOf is Mix for the jobs of one tenant.
func (v *View) MixOf(tenant string) iter.Seq2[work.Shape, int] {
	return func(yield func(work.Shape, int) bool) {
		v.jobs.shapes.AscendFrom(shapeCount{of: tenantShape{tenant: tenant}}, func(c shapeCount) bool {
			return c.of.tenant == tenant && yield(c.of.shape, c.n)
		})
	}
}

func checkShapes(s *rows, report kernel.Report) {
	want := map[tenantShape]int{}
	for j := range s.jobs.rows.Rows() {
		want[tenantShape{j.Tenant, j.Shape}]++
	}
	for c := range s.jobs.shapes.All() {
		if want[c.of] != c.n {
			report("%d jobs of %s with shape %+v, counted again %d", c.n, c.of.tenant, c.of.shape, want[c.of])
		}
		delete(want, c.of)
	}
	if len(want) > 0 {
		report("%d shapes of jobs are not counted", len(want))
	}
}
