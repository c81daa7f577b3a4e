package scheduler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/fsm/work/promises"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
	"github.com/mindcoordinator/mind/fsm/work/typed"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/fsm/work/windowverbs"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/reserve"
	"github.com/mindcoordinator/mind/scheduler/worth"
)

// backfilled drives a cluster in which starts are reserved for blocked jobs.
type backfilled struct {
	*state
	planner scheduler.Planner
}

func newBackfilled(t testing.TB, reservations uint32, after time.Duration) *backfilled {
	b := &backfilled{state: newState(t)}
	p := policy.DefaultPolicy()
	p.Backfill = policy.Backfill{Reservations: reservations, After: int64(after)}
	require.Nil(t, b.apply(queueverbs.PutPolicy{Policy: p})[0].(queueverbs.PolicyResult).Refusal)
	return b
}

func (b *backfilled) limited(gpus, nodes uint16, limit time.Duration) ident.Job {
	j := b.job(work.Shape{Nodes: nodes, GPUs: gpus}, 5)
	j.MaxRuntime = int64(limit)
	r := b.apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{j}})[0].(jobverbs.SubmitJobsResult).Results[0]
	require.Nil(b.t, r.Refusal)
	return r.Job
}

// decide reserves starts and plans, until nothing more is placed. Placed jobs run at once.
func (b *backfilled) decide() {
	for {
		v := b.machine.View()
		prices := worth.Learn(v.Mix(), v.Nodes())
		opts := scheduler.Options{Now: b.now.UnixNano(), Backfill: true, Quiet: true, Prices: func() *worth.Prices { return prices }}
		classes := slices.Collect(v.Classes())
		for rounds := 0; ; rounds++ {
			starts, changed := reserve.Starts(v, classes, b.now.UnixNano(), opts.Model)
			if !changed {
				break
			}
			require.Less(b.t, rounds, 10, "it comes to rest: %v", starts)
			require.Empty(b.t, b.apply(starts)[0].(jobverbs.PromiseResult).Refused)
			v = b.machine.View()
			require.Empty(b.t, fsm.Check(v))
		}
		plan := b.planner.Plan(v, opts)
		require.Equal(b.t, plan.Commands, scheduler.Plan(v, opts).Commands, "what is kept from pass to pass changes nothing")
		if plan.Placed == 0 {
			return
		}
		for _, c := range plan.Commands {
			require.Empty(b.t, b.apply(c)[0].(jobverbs.PlaceResult).Refused)
			for _, p := range c.Placements {
				b.start(p.Job)
			}
		}
	}
}

func (b *backfilled) start(id ident.Job) {
	j := b.get(id)
	for _, t := range j.Tasks {
		r := jobverbs.TaskReport{Job: id, Attempt: j.Attempt, Rank: t.Rank, Token: j.Token}
		starting, running := r, r
		starting.Kind, running.Kind = jobverbs.ReportStarting, jobverbs.ReportRunning
		b.apply(jobverbs.ReportTasks{Node: t.Node, Reports: []jobverbs.TaskReport{starting, running}})
	}
}

func (b *backfilled) finish(id ident.Job) {
	j, zero := b.get(id), int32(0)
	for _, t := range j.Tasks {
		b.apply(jobverbs.ReportTasks{Node: t.Node, Reports: []jobverbs.TaskReport{
			{Job: id, Attempt: j.Attempt, Rank: t.Rank, Token: j.Token, Kind: jobverbs.ReportEnded, ExitCode: &zero},
		}})
	}
}

// pass lets time pass, and ends jobs that have run for their duration.
func (b *backfilled) pass(until time.Time, takes map[ident.Job]time.Duration) {
	for {
		var next *work.Job
		at := until
		for j := range b.machine.View().ActiveJobs() {
			if ends := time.Unix(0, j.StartedAt).Add(takes[j.ID]); ends.Before(at) {
				next, at = j, ends
			}
		}
		if at.After(b.now) {
			b.now = at
		}
		if next == nil {
			return
		}
		b.finish(next.ID)
		b.decide()
	}
}

func (b *backfilled) promise(id ident.Job) *promises.Promise {
	p, ok := b.machine.View().PromiseOf(id)
	require.True(b.t, ok, "%s has no promise", id)
	return p
}

func (b *backfilled) waits(id ident.Job) bool { return b.get(id).State == v1.JobState_QUEUED }

func TestReserve_onlyWhatEndsInTimePasses(t *testing.T) {
	b := newBackfilled(t, 1, 0)
	for i := range 2 {
		id := fmt.Sprintf("n%d", i)
		b.node(id, gpus(id, "H100", 8, 8), nil)
	}
	long := b.limited(4, 1, 2*time.Hour)
	b.decide()
	gang := b.limited(8, 2, time.Hour)
	b.decide()
	p := b.promise(gang)
	require.Equal(t, promises.Leaves(b.get(long), 0, 0), p.StartAt)
	require.Len(t, p.Tasks, 2)
	endless, tooLong, short := b.limited(4, 1, 0), b.limited(4, 1, 2*time.Hour), b.limited(4, 1, time.Hour)
	b.decide()
	require.True(t, b.waits(endless))
	require.True(t, b.waits(tooLong))
	require.False(t, b.waits(short))
	require.Equal(t, p, b.promise(gang), "it stays as it was")

	plan := scheduler.Plan(b.machine.View(), scheduler.Options{Now: b.now.UnixNano()})
	require.Zero(t, plan.Placed)
	var why []reason.Reason
	for _, c := range plan.Commands {
		for _, r := range c.Reasons {
			if r.Class.Shape.Nodes == 1 {
				why = append(why, r.Reason)
			}
		}
	}
	delays := reason.New(reason.WouldDelay, (p.StartAt+1e9-1)/1e9)
	require.Equal(t, []reason.Reason{delays, delays}, why, "of jobs without a limit, and of those with one that is too long")

	b.finish(long)
	b.finish(short)
	b.decide()
	require.False(t, b.waits(gang), "it starts as soon as its places are free")
	require.True(t, b.waits(endless))
}

func TestReserve_aHigherPriorityTakesThePlaces(t *testing.T) {
	b := newBackfilled(t, 1, 0)
	b.node("n0", gpus("n0", "H100", 8, 8), nil)
	b.limited(4, 1, time.Hour)
	b.decide()
	whole := b.limited(8, 1, time.Hour)
	b.decide()
	before := b.promise(whole).StartAt
	urgent := b.job(work.Shape{Nodes: 1, GPUs: 4}, 9)
	urgent.MaxRuntime = int64(3 * time.Hour)
	b.apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{urgent}})
	b.decide()
	after := b.promise(whole)
	require.Greater(t, after.StartAt, before)
	require.Equal(t, reason.PromiseOutranked, after.Cause.Code())
	require.Equal(t, before, after.First)
}

func TestReserve_nothingDependsOnAnEndlessJob(t *testing.T) {
	b := newBackfilled(t, 8, 0)
	b.node("n0", gpus("n0", "H100", 8, 8), nil)
	b.limited(4, 1, 0)
	b.decide()
	b.limited(8, 1, time.Hour)
	b.decide()
	require.Zero(t, b.machine.View().PromiseCount())
}

func TestReserve_aLostNodeIsSaid(t *testing.T) {
	b := newBackfilled(t, 1, 0)
	for _, id := range []string{"n0", "n1"} {
		b.node(id, gpus(id, "H100", 8, 8), nil)
		b.limited(8, 1, time.Hour)
		b.decide()
	}
	waiting := b.limited(8, 1, time.Hour)
	b.decide()
	lost := b.promise(waiting).Tasks[0].Node
	b.away(lost)
	b.decide()
	p := b.promise(waiting)
	require.NotEqual(t, lost, p.Tasks[0].Node)
	require.Equal(t, reason.PromiseNodeLost, p.Cause.Code())
	require.Nil(t, b.apply(nodeverbs.SetNode{ID: p.Tasks[0].Node, Action: nodeverbs.NodeForget})[0].(nodeverbs.NodeResult).Refusal)
	require.Zero(t, b.machine.View().PromiseCount())
	require.Empty(t, fsm.Check(b.machine.View()))
}

// If all jobs have time limits and keep them, all have the same priority and no node fails, then no job starts later
// than at its first reserved start, and a gang starts however many small jobs come. A new leader, which has only the
// state, decides the same.
func TestReserve_promisesAreKept(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := newBackfilled(t, uint32(rapid.IntRange(1, 4).Draw(r, "reservations")), time.Duration(rapid.IntRange(0, 20).Draw(r, "after"))*time.Minute)
		nodes := rapid.IntRange(1, 4).Draw(r, "nodes")
		for i := range nodes {
			id := fmt.Sprintf("n%d", i)
			b.node(id, gpus(id, "H100", 8, 8), nil)
		}
		takes, first := map[ident.Job]time.Duration{}, map[ident.Job]int64{}
		for range rapid.IntRange(5, 60).Draw(r, "steps") {
			b.pass(b.now.Add(time.Duration(rapid.IntRange(1, 10).Draw(r, "minutes"))*time.Minute), takes)
			for range rapid.IntRange(0, 4).Draw(r, "come") {
				limit := time.Duration(rapid.IntRange(5, 120).Draw(r, "limit")) * time.Minute
				size, on := uint16(rapid.SampledFrom([]int{1, 1, 2, 4, 8}).Draw(r, "gpus")), uint16(1)
				if nodes > 1 && rapid.IntRange(0, 9).Draw(r, "gang") == 0 {
					size, on = 8, uint16(nodes)
				}
				id := b.limited(size, on, limit)
				takes[id] = limit * time.Duration(rapid.IntRange(1, 10).Draw(r, "tenths")) / 10
			}
			b.decide()
			if rapid.Bool().Draw(r, "another leader") {
				b.planner = scheduler.Planner{}
			}
			for p := range b.machine.View().Promises() {
				if first[p.Job] == 0 {
					first[p.Job] = p.StartAt
				}
			}
		}
		for id, at := range first {
			j := b.get(id)
			if !b.waits(id) {
				require.LessOrEqual(r, j.StartedAt, at, "%s starts later than promised", id)
				continue
			}
			require.LessOrEqual(r, b.promise(id).StartAt, at, "%s is promised a later start: %+v %q", id, b.promise(id), words.Of(b.promise(id).Cause))
		}
	})
}

// A window that is put after a start was reserved keeps the node from the job.
func TestBackfill_aWindowKeepsWhatWasPromised(t *testing.T) {
	b := newBackfilled(t, 2, 0)
	b.node("n1", gpus("n1", "H100", 8, 8), nil)
	first := b.limited(8, 1, time.Hour)
	b.decide()
	second := b.limited(8, 1, 10*time.Hour)
	b.now = b.now.Add(time.Minute)
	b.decide()
	require.Equal(t, 1, b.machine.View().PromiseCount())
	now := b.now.UnixNano()
	b.apply(windowverbs.PutWindow{Name: "kernel", Kind: windows.Maintenance, Patterns: []string{"n1"}, From: now + int64(2*time.Hour), Until: now + int64(3*time.Hour)})
	b.finish(first)
	require.Equal(t, 1, b.machine.View().PromiseCount())
	b.run()
	require.Equal(t, v1.JobState_QUEUED, b.get(second).State)
	b.decide()
	require.Equal(t, v1.JobState_QUEUED, b.get(second).State)
	require.Zero(t, b.machine.View().PromiseCount(), "nothing is promised on a node with a window")
}

// A start is reserved only on GPUs of types of which the limits leave enough.
func TestReserve_keepsToLimitsByType(t *testing.T) {
	for name, before := range map[string]bool{"the limit was there": true, "the limit comes later": false} {
		t.Run(name, func(t *testing.T) {
			b := newBackfilled(t, 8, 0)
			limit := func() {
				q := work.Queue{Name: work.DefaultQueue, Weight: 1, MaxByType: typed.Limits{{Type: "H100", GPUs: 4}}}
				require.Nil(t, b.apply(queueverbs.PutQueue{Queue: q})[0].(queueverbs.QueueResult).Refusal)
			}
			require.Nil(t, b.apply(queueverbs.PutQueue{Queue: work.Queue{Name: "other", Weight: 1}})[0].(queueverbs.QueueResult).Refusal)
			b.node("h1", gpus("h1", "H100", 4, 4), nil)
			b.node("h2", gpus("h2", "H100", 4, 4), nil)
			b.node("a1", gpus("a1", "A100", 4, 4), nil)
			runs := b.job(work.Shape{Nodes: 2, GPUs: 4}, 5)
			runs.Queue, runs.MaxRuntime = "other", int64(time.Hour)
			id := b.apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{runs}})[0].(jobverbs.SubmitJobsResult).Results[0].Job
			b.decide()
			if before {
				limit()
			}
			waits := b.limited(3, 2, 0)
			b.decide()
			_, reserved := b.machine.View().PromiseOf(waits)
			require.Equal(t, !before, reserved, "only one node has A100s, and no more than 4 H100s are allowed")
			if !before {
				limit()
			}
			b.finish(id)
			b.decide() // The state refuses nothing.
			require.Empty(t, b.placed(waits))
		})
	}
}

// A class is blocked, and says why, if none of its jobs ends before a reserved start, although each was tried.
func TestBackfill_aClassThatPassesNothingIsBlocked(t *testing.T) {
	b := newBackfilled(t, 1, 0)
	for i := range 2 {
		id := fmt.Sprintf("n%d", i)
		b.node(id, gpus(id, "H100", 8, 8), nil)
	}
	b.limited(4, 1, 2*time.Hour)
	b.decide()
	gang := b.limited(8, 2, time.Hour)
	b.decide()
	start := b.promise(gang).StartAt
	// Of the last term some jobs could end in time, but this one does not.
	for _, limit := range []time.Duration{0, 5 * time.Hour, 127 * time.Minute} {
		b.limited(4, 1, limit)
	}
	v := b.machine.View()
	plan := scheduler.Plan(v, scheduler.Options{Now: b.now.UnixNano(), Backfill: true})
	require.Zero(t, plan.Placed)
	require.ElementsMatch(t, slices.Collect(v.Classes()), plan.Blocked.Keys())
	delays := 0
	for _, c := range plan.Commands {
		for _, r := range c.Reasons {
			if r.Reason == reason.New(reason.WouldDelay, (start+1e9-1)/1e9) {
				delays++
			}
		}
	}
	require.Equal(t, 3, delays)
	short := b.limited(4, 1, 110*time.Minute)
	b.decide()
	require.False(t, b.waits(short), "a job of the last term that ends in time passes those that do not")
}
