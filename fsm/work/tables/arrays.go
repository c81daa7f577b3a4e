package tables

import (
	"iter"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/ranges"
)

// endedElement lists an element that is over and whose row may go: of an array, failed or not, by its end.
type endedElement struct {
	array  ident.Job
	failed bool
	at     int64
	id     ident.Job
}

func endedLess(a, b endedElement) bool {
	switch {
	case a.array != b.array:
		return a.array < b.array
	case a.failed != b.failed:
		return b.failed
	case a.at != b.at:
		return a.at < b.at
	}
	return a.id < b.id
}

// endedElements counts them.
type endedElements struct{ failed, others int }

func (e *endedElements) of(failed bool) *int {
	if failed {
		return &e.failed
	}
	return &e.others
}

func endedOf(j *work.Job) endedElement {
	failed := j.State != v1.JobState_SUCCEEDED && j.State != v1.JobState_CANCELED
	return endedElement{j.ID.Submitted(), failed, j.FinishedAt, j.ID}
}

// listEnded keeps the list of elements whose rows may go.
func (s *State) listEnded(old, j *work.Job) {
	if was := old.Foldable(); was {
		e := endedOf(old)
		s.jobs.ended.Delete(e)
		counts := s.work.ended[e.array]
		if *counts.of(e.failed)--; *counts == (endedElements{}) {
			delete(s.work.ended, e.array)
		}
	}
	if is := j.Foldable(); is {
		e := endedOf(j)
		s.jobs.ended.Put(e)
		counts := s.work.ended[e.array]
		if counts == nil {
			counts = &endedElements{}
			s.work.ended[e.array] = counts
		}
		*counts.of(e.failed)++
	}
}

// EndedElements lists the elements of an array that ended first and that are more than an array keeps.
func (s *State) EndedElements(array ident.Job) []*work.Job {
	counts := s.work.ended[array]
	if counts == nil {
		return nil
	}
	var out []*work.Job
	for _, failed := range [...]bool{false, true} {
		excess := counts.others - work.KeptOtherElements
		if failed {
			excess = counts.failed - work.KeptFailedElements
		}
		if excess <= 0 {
			continue
		}
		s.jobs.ended.AscendFrom(endedElement{array: array, failed: failed}, func(e endedElement) bool {
			if e.array != array || e.failed != failed || excess == 0 {
				return false
			}
			excess--
			j, _ := s.Job(e.id)
			out = append(out, j)
			return true
		})
	}
	return out
}

// Elements iterates the elements of an array that have a row, by number, from that one on.
func (s *rows) Elements(array ident.Job, from uint32) iter.Seq[*work.Job] {
	return func(yield func(*work.Job) bool) {
		s.jobs.rows.RowsFrom(array.At(from))(func(j *work.Job) bool {
			return j.ID.Submitted() == array && yield(j)
		})
	}
}

// Find returns a job by its id, also an element of an array that has no row: it is as if it had one.
func (s *rows) Find(id ident.Job) (*work.Job, bool) {
	if j, ok := s.Job(id); ok {
		return j, true
	}
	array, number, ok := id.Element()
	if !ok {
		return nil, false
	}
	row, ok := s.Job(array)
	if !ok {
		return nil, false
	}
	j := row.ElementWithoutARow(number)
	return j, j != nil
}

// ElementsLookedAt lists the elements of an array that others look at, to know whether they may run.
func (s *rows) ElementsLookedAt(array ident.Job) []ident.Job {
	var out []ident.Job
	s.jobs.dependents.AscendFrom(dependentJob{on: array.At(0)}, func(d dependentJob) bool {
		if d.on.Submitted() != array {
			return false
		}
		if len(out) == 0 || out[len(out)-1] != d.on {
			out = append(out, d.on)
		}
		return true
	})
	return out
}

// mustStay says whether a job is an element of which a task may still be alive. Without its row nobody would know, and a
// user may have it run again.
func (s *rows) mustStay(id ident.Job) bool {
	if _, _, element := id.Element(); !element {
		return false
	}
	j, ok := s.Job(id)
	return ok && len(j.Awaits) > 0
}

// Array returns the row of an array.
func (s *rows) Array(id ident.Job) (*work.Job, bool) {
	j, ok := s.Job(id)
	return j, ok && j.Array != nil
}

// ElementStates iterates all elements of an array by number, with a row or without.
func (s *rows) ElementStates(array *work.Job) iter.Seq[work.ElementState] {
	a := array.Array
	waits := v1.JobState_QUEUED
	if array.State == v1.JobState_PAUSED {
		waits = v1.JobState_PAUSED
	}
	type group struct {
		set  ranges.Set
		like work.ElementState
		at   int
	}
	groups := []group{
		{set: a.Waiting, like: work.ElementState{State: waits}},
		{set: a.Succeeded, like: work.ElementState{State: v1.JobState_SUCCEEDED, ExitCode: new(int32)}},
		{set: a.Canceled, like: work.ElementState{State: v1.JobState_CANCELED}},
	}
	for i := range a.Failed {
		f := &a.Failed[i]
		groups = append(groups, group{set: f.Elements, like: work.ElementState{
			State: v1.JobState_FAILED, ErrorType: f.ErrorType, ExitCode: f.ExitCode,
		}})
	}
	return func(yield func(work.ElementState) bool) {
		left := slices.Collect(s.Elements(array.ID, a.Start))
	elements:
		for n := a.Start; n <= a.End; n++ {
			if len(left) > 0 && left[0].ID == array.ID.At(n) {
				row := left[0]
				left = left[1:]
				if !yield(work.ElementState{Number: n, State: row.State, ErrorType: row.ErrorType, ExitCode: row.ExitCode, Row: row}) {
					return
				}
				continue
			}
			for i := range groups {
				g := &groups[i]
				for g.at < len(g.set) && g.set[g.at].Last < n {
					g.at++
				}
				if g.at < len(g.set) && g.set[g.at].First <= n {
					e := g.like
					if e.Number = n; !yield(e) {
						return
					}
					continue elements
				}
			}
		}
	}
}
