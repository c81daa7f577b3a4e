package waiting

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

func queued(entry int, user string, priority uint8) *work.Job {
	return &work.Job{
		ID: ident.Job(entry) << kernel.IDPositionBits, Tenant: "acme", User: user, Queue: "default",
		State: v1.JobState_QUEUED, Priority: priority, Shape: work.Shape{Nodes: 1, GPUs: 1},
	}
}

func laneOf(j *work.Job) work.LaneKey {
	return work.LaneKey{Class: j.Class(), Tenant: j.Tenant, User: j.User}
}

// state is some jobs, of which those that wait are listed.
type state struct {
	Lists
	jobs []*work.Job
}

func listed(jobs ...*work.Job) *state {
	s := &state{New(), jobs}
	for _, j := range jobs {
		if j.Waiting() {
			List(&s.Lists, laneOf(j), j)
		}
	}
	Flush(&s.Lists)
	return s
}

func (s *state) find(id ident.Job) (*work.Job, bool) {
	i := slices.IndexFunc(s.jobs, func(j *work.Job) bool { return j.ID == id })
	if i < 0 {
		return nil, false
	}
	return s.jobs[i], true
}

// check says what Check finds.
func (s *state) check() string {
	var found []string
	s.CheckWaiting(slices.Values(s.jobs), s.find, laneOf, func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) })
	return strings.Join(found, "\n")
}

func TestLists_offerByPriorityThenAge(t *testing.T) {
	a, b, c, other := queued(1, "ann", 0), queued(2, "ann", 5), queued(300, "ann", 0), queued(4, "bob", 0)
	s := listed(a, b, c, other)
	require.Empty(t, s.check())
	require.Equal(t, []*work.Job{b, a, c}, slices.Collect(s.LaneJobs(laneOf(a))))
	require.Equal(t, []*work.Job{c}, s.LaneJobsAfter(laneOf(a), a, make([]*work.Job, 4)))
	require.Len(t, slices.Collect(s.ClassJobs(a.Class())), 4)
	for i, j := range []*work.Job{b, a, other, c} {
		require.Equal(t, i, AheadOf(&s.Lists, j, s.find))
		require.Equal(t, i, PlacesIn(&s.Lists, "default", s.find).Ahead(j))
	}
}

func TestLists_aFrozenCopyStays(t *testing.T) {
	a, b := queued(1, "ann", 0), queued(2, "ann", 0)
	s := listed(a, b)
	Explain(&s.Lists, a.Class(), reason.Text("busy"))
	old := Freeze(&s.Lists)
	Unlist(&s.Lists, laneOf(a), a)
	Unlist(&s.Lists, laneOf(b), b)
	Flush(&s.Lists)
	require.Equal(t, []*work.Job{a, b}, slices.Collect(old.LaneJobs(laneOf(a))))
	require.Equal(t, 1, AheadOf(&old, b, s.find))
	require.Equal(t, reason.Text("busy"), old.ClassReason(a.Class()))
	require.Empty(t, slices.Collect(s.Classes()), "a class dies with its last job")
	require.Empty(t, s.ClassReason(a.Class()), "and its reason with it")
	Explain(&s.Lists, a.Class(), reason.Text("busy"))
	require.Empty(t, s.ClassReason(a.Class()), "a class of which none waits needs no reason")
}

func TestCheck_canFail(t *testing.T) {
	for name, c := range map[string]struct {
		breakIt func(s *state)
		says    string
	}{
		"a lane without jobs": {func(s *state) { s.lanes.Put(laneNumber{work.LaneKey{User: "nobody"}, 99}) }, "lanes,"},
		"a class unlisted":    {func(s *state) { s.classes.Delete(s.jobs[0].Class()) }, "which is not listed"},
		"a job of another lane": {func(s *state) {
			j := *s.jobs[0]
			j.User = "eve"
			s.jobs[0] = &j
		}, "is listed as waiting in lane"},
		"a job queued elsewhere": {func(s *state) { s.queued.Put(queuedJob{7, 9}) }, "is listed as queued in"},
		"a job waiting unlisted": {func(s *state) {
			for w := range s.waiting.All() {
				s.waiting.Delete(w)
				return
			}
		}, "the index of waiting has"},
		"a job queued unlisted": {func(s *state) {
			for q := range s.queued.All() {
				s.queued.Delete(q)
				return
			}
		}, "the index of queued has"},
		"waiting jobs uncounted": {func(s *state) {
			for b := range s.blocks.All() {
				s.blocks.Delete(b)
				return
			}
		}, "blocks of waiting jobs are not counted"},
		"waiting jobs counted wrong": {func(s *state) { s.blocks.Put(block{blockKey{"x", 7}, 3}) }, "of waiting jobs has 3, counted again 0"},
		"a reason for nobody": {func(s *state) {
			s.reasons.Put(work.ClassKey{Queue: "x"}, &classReason{Class: work.ClassKey{Queue: "x"}})
		}, "a reason for class"},
	} {
		t.Run(name, func(t *testing.T) {
			s := listed(queued(1, "ann", 0), queued(2, "bob", 3))
			require.Empty(t, s.check())
			c.breakIt(s)
			require.Contains(t, s.check(), c.says)
		})
	}
}
