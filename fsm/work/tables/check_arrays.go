package tables

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/ranges"
)

// checkArrays holds that each element of an array is in one place: it waits, has a row, or is among those that are over;
// that the row of the array counts them right; and that no more of them run than may.
func checkArrays(s *rows, report kernel.Report) {
	counted := map[ident.Job]*work.ElementsWithARow{}
	for j := range s.jobs.rows.Rows() {
		array, number, element := j.ID.Element()
		if !element {
			continue
		}
		row, ok := s.Job(array)
		if !ok || row.Array == nil || !row.Array.Has(number) || row.Tenant != j.Tenant || row.Queue != j.Queue || j.Array != nil {
			report("I13: %s is no element of an array", j.ID)
			continue
		}
		if e := row.ElementWithoutARow(number); e != nil {
			report("I13: %s is %s, and %s in its array", j.ID, j.State, e.State)
		}
		if j.MaxParallel != row.MaxParallel {
			report("I13: %s has another bound than its array", j.ID)
		}
		if counted[array] == nil {
			counted[array] = &work.ElementsWithARow{}
		}
		counted[array].Count(j, 1)
	}
	for j := range s.jobs.rows.Rows() {
		if j.Array != nil {
			checkArray(s, j, counted[j.ID], report)
		}
	}
}

func checkArray(s *rows, j *work.Job, rows *work.ElementsWithARow, report kernel.Report) {
	a := j.Array
	if rows == nil {
		rows = &work.ElementsWithARow{}
	}
	if a.Rows != *rows {
		report("I13: %s counts %+v, counted again %+v", j.ID, a.Rows, *rows)
	}
	sets := []ranges.Set{a.Waiting, a.Succeeded, a.Canceled}
	for i := range a.Failed {
		sets = append(sets, a.Failed[i].Elements)
	}
	sum := int(rows.Queued + rows.Live + rows.Paused + rows.Succeeded + rows.Failed + rows.Canceled)
	var all ranges.Set
	for _, set := range sets {
		sum += set.Len()
		for i, r := range set {
			if r.First > r.Last || i > 0 && set[i-1].Last+1 >= r.First || !a.Has(r.First) || !a.Has(r.Last) {
				report("I13: %s has the runs %v", j.ID, set)
			}
		}
		all = all.And(set)
	}
	switch {
	case sum != a.Size() || all.Len()+int(rows.Queued+rows.Live+rows.Paused+rows.Succeeded+rows.Failed+rows.Canceled) != sum:
		report("I13: %s has %d elements, counted again %d", j.ID, a.Size(), sum)
	case j.MaxParallel != 0 && rows.Live > j.MaxParallel:
		report("I13: %d elements of %s run, %d may", rows.Live, j.ID, j.MaxParallel)
	case j.Terminal() != (a.Unfinished() == 0):
		report("I13: %s is %s and has %d elements that are not over", j.ID, j.State, a.Unfinished())
	case j.State == v1.JobState_SUCCEEDED && (a.AnyFailed() || rows.Canceled > 0 || len(a.Canceled) > 0):
		report("I13: %s is %s, and not all of its elements are", j.ID, j.State)
	case j.Attempt != 0 || j.Token != 0 || len(j.Tasks) > 0:
		report("I13: %s is an array and has an attempt of its own", j.ID)
	case a.Base > a.Attempts:
		report("I13: the next attempts of %s begin after %d, and there were %d", j.ID, a.Base, a.Attempts)
	case j.ID > s.meta.LastArray:
		report("I13: %s is newer than the newest array", j.ID)
	}
}
