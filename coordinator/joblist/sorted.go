package joblist

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
)

// maxSorted bounds the jobs that are examined for a page of an order that no index has. Every page examines all of them.
const maxSorted = 100_000

// sorting is an order that no index has. Jobs with equal keys are in the order of their submits, in desc the newest first.
type sorting struct {
	// key returns a text whose order is that of the jobs.
	key  func(*work.Job) string
	desc bool
}

// sortings are the orders that no index has. Jobs that have not started or finished are last.
var sortings = map[order]*sorting{
	"name":             {key: func(j *work.Job) string { return strings.ToLower(j.Name) }},
	"name desc":        {key: func(j *work.Job) string { return strings.ToLower(j.Name) }, desc: true},
	"started_at desc":  {key: func(j *work.Job) string { return numberKey(j.StartedAt) }, desc: true},
	"finished_at desc": {key: func(j *work.Job) string { return numberKey(j.FinishedAt) }, desc: true},
	"gpu_count desc":   {key: func(j *work.Job) string { return numberKey(int64(j.Shape.GPUMilli())) }, desc: true},
}

// orders names all orders, for users.
var orders = func() string {
	names := append([]order{byAgeDesc, byAge, byPriority}, slices.Sorted(maps.Keys(sortings))...)
	var quoted []string
	for _, name := range names {
		quoted = append(quoted, strconv.Quote(string(name)))
	}
	return strings.Join(quoted, ", ")
}()

// numberKey returns a text that sorts as a number does that is not negative.
func numberKey(n int64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(max(0, n)))) }

// compare orders two jobs by their marks.
func (s *sorting) compare(a, b pageMark) int {
	c := cmp.Or(strings.Compare(a.key, b.key), cmp.Compare(a.id, b.id))
	if s.desc {
		return -c
	}
	return c
}

// findSorted finds a page of an order that no index has: it examines all jobs of the groups, and keeps the first ones
// after the end of the previous page.
func (q *Query) findSorted(v *fsm.View, groups []work.CountedGroup) (Page, error) {
	examined := 0
	for _, g := range groups {
		examined += g.Jobs
	}
	if examined > maxSorted {
		return Page{}, call.Bad("order_by", "%d jobs would be sorted by %q, and at most %d are: ask for fewer by status or queue, or for the order created_at or priority", examined, q.order, maxSorted)
	}
	type row struct {
		pageMark
		job *work.Job
	}
	found, rows := Page{Exact: true}, make([]row, 0, q.size+2)
	for j := range v.JobsOfGroups(groups, true, 0) {
		if !q.matches(v, j) {
			continue
		}
		found.Total++
		r := row{pageMark{id: j.ID, key: q.sort.key(j)}, j}
		if q.after.id != 0 && q.sort.compare(r.pageMark, q.after) <= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(rows, r, func(a, b row) int { return q.sort.compare(a.pageMark, b.pageMark) })
		if at > q.size {
			continue
		}
		rows = slices.Insert(rows, at, r)
		rows = rows[:min(len(rows), q.size+1)] // one more says whether there is another page
	}
	for _, r := range rows[:min(len(rows), q.size)] {
		found.Jobs = append(found.Jobs, r.job)
	}
	if len(rows) > q.size {
		q.Cut(&found, q.size)
	}
	return found, nil
}
