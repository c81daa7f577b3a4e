package fsm_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
)

// crowd is a state of jobs of several tenants, queues and priorities, some of which have gone on from QUEUED.
func crowd(t *rapid.T) *world {
	w := newWorld(t)
	w.do(queueverbs.PutQueue{Queue: work.Queue{Name: "fast"}})
	w.node("n1", 8)
	apply := func(c kernel.Command) any { // without checking everything each time
		w.index++
		return w.m.Apply(w.index, w.entry(c))[0]
	}
	for range rapid.IntRange(0, 200).Draw(t, "entries") {
		var c jobverbs.SubmitJobs
		for range rapid.IntRange(1, 3).Draw(t, "jobs") {
			n := oneGPU()
			n.Tenant = rapid.SampledFrom([]string{"acme", "umbrella", "acm"}).Draw(t, "tenant")
			n.Queue = rapid.SampledFrom([]string{"default", "fast"}).Draw(t, "queue")
			n.Priority = uint8(rapid.IntRange(4, 6).Draw(t, "priority"))
			if rapid.IntRange(0, 4).Draw(t, "evaluation") == 0 {
				n.Labels = map[string]string{work.EvaluationLabel: work.EvaluationValue}
			}
			c.Jobs = append(c.Jobs, n)
		}
		results := apply(c).(jobverbs.SubmitJobsResult).Results
		switch id, tenant := results[0].Job, c.Jobs[0].Tenant; rapid.IntRange(0, 5).Draw(t, "then") {
		case 0:
			apply(jobverbs.ControlJob{Tenant: tenant, Job: id, Action: work.ActionCancel})
		case 1:
			apply(jobverbs.PlaceJobs{Placements: []work.Placement{{Job: id, Attempt: 1, Tasks: []work.TaskPlacement{{Node: "n1", GPUs: 1}}}}}) // if it is free
		}
	}
	return w
}

// TestJobGroups_findWhatAWalkOverAllJobsFinds compares lists made of groups with those that look at every job.
func TestJobGroups_findWhatAWalkOverAllJobsFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := crowd(t)
		v := w.m.View()
		require.Empty(t, fsm.Check(v))
		for _, tenant := range []string{"acme", "umbrella", "acm", "nobody"} {
			state := v1.JobState_Value(rapid.IntRange(0, 10).Draw(t, "state"))
			wants := func(g work.JobGroup) bool { return state == 0 || g.State == state }
			var want []ident.Job
			for j := range v.Jobs(false, 0) {
				if j.Tenant == tenant && wants(j.Group()) {
					want = append(want, j.ID)
				}
			}
			var groups []work.CountedGroup
			total := 0
			for g := range v.JobGroups(tenant) {
				if wants(g.JobGroup) {
					groups = append(groups, g)
					total += g.Jobs
				}
			}
			require.Equal(t, len(want), total)
			require.Equal(t, want, append([]ident.Job(nil), ids(slices.Collect(v.JobsOfGroups(groups, false, 0)))...))
			backwards := slices.Clone(want)
			slices.Reverse(backwards)
			require.Equal(t, backwards, append([]ident.Job(nil), ids(slices.Collect(v.JobsOfGroups(groups, true, 0)))...))
			if len(want) == 0 {
				continue
			}
			at := rapid.IntRange(0, len(want)-1).Draw(t, "from")
			require.Equal(t, want[at:], ids(slices.Collect(v.JobsOfGroups(groups, false, want[at]))))
			require.Equal(t, backwards[len(want)-1-at:], ids(slices.Collect(v.JobsOfGroups(groups, true, want[at]))))
			for j := range v.JobsOfGroups(groups, false, 0) { // a reader that stops early gets no more
				require.Equal(t, want[0], j.ID)
				break
			}
		}
	})
}

// inQueue is the waiting jobs of a queue in the order in which they are considered.
func inQueue(v *fsm.View, queue string) []*work.Job {
	var jobs []*work.Job
	for j := range v.Jobs(false, 0) {
		if j.Queue == queue && j.Waiting() {
			jobs = append(jobs, j)
		}
	}
	slices.SortStableFunc(jobs, func(a, b *work.Job) int { return int(b.Priority) - int(a.Priority) })
	return jobs
}

// TestQueuePlaces_areThoseOfAWalkOverTheQueue compares the places that are counted in blocks with those in the queue's order.
func TestQueuePlaces_areThoseOfAWalkOverTheQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := crowd(t).m.View()
		for _, queue := range []string{"default", "fast", "nope"} {
			all, some := v.Places(queue), v.Places(queue)
			place := 0
			for _, j := range inQueue(v, queue) {
				require.Equal(t, place, v.Ahead(j), j.ID)
				require.Equal(t, place, all.Ahead(j), j.ID)
				if j.Tenant == "acme" {
					require.Equal(t, place, some.Ahead(j), j.ID)
				}
				place++
			}
			for j := range v.Jobs(true, 0) { // in any other order
				if j.Queue == queue && j.Waiting() {
					require.Equal(t, v.Ahead(j), all.Ahead(j), j.ID)
				}
			}
		}
	})
}

func BenchmarkAhead_ofAMillion(b *testing.B) {
	for _, perEntry := range []int{1, 64} {
		m := fsm.New()
		for _, e := range submitEntries(b, 1_000_000, perEntry) {
			m.Apply(e.Index, e.Data)
		}
		v := m.View()
		var last *work.Job
		for j := range v.Jobs(true, 0) {
			last = j
			break
		}
		b.Run(fmt.Sprintf("perEntry=%d", perEntry), func(b *testing.B) {
			for b.Loop() {
				require.Equal(b, 999_999, v.Ahead(last))
			}
		})
	}
}
