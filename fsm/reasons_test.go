package fsm_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

// TestReasons_anyLogOfMixedLevels applies random logs whose entries are of versions 2 to 5 in turn, and requires that
// everything holds after each entry (so every reason can be worded), that a twin is the same, and that a machine which was
// restored is.
func TestReasons_anyLogOfMixedLevels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{T: t, w: newWorld(t)}
		g.w.voters("c1", "c2", "c3")
		for range rapid.IntRange(1, 30).Draw(t, "entries") {
			g.w.later(time.Duration(rapid.SampledFrom([]int64{0, 1e9, 60e9, 25 * 3600e9}).Draw(t, "dt")))
			g.w.at = rapid.SampledFrom([]level.Level{2, 3, 4, 5, 5}).Draw(t, "level")
			cmds := make([]kernel.Command, rapid.IntRange(1, 4).Draw(t, "n"))
			for i := range cmds {
				cmds[i] = g.command()
			}
			g.w.do(cmds...)
		}
		twin := fsm.New()
		twin.StoreConfiguration(1, []string{"c1", "c2", "c3"})
		g.w.replay(twin)
		sameState(t, g.w.m, twin)
		restored := fsm.New()
		require.NoError(t, restored.Restore(bytes.NewReader(snapshotBytes(t, g.w.m))))
		sameState(t, g.w.m, restored)
	})
}

// TestReasons_areEnglishBelowTheirLevel drives the same story at two levels: the rows differ in nothing but their reasons,
// and those of the older level are the sentences of the newer one.
func TestReasons_areEnglishBelowTheirLevel(t *testing.T) {
	tell := func(version byte) (said []reason.Reason) {
		w := newWorld(t)
		who := &access.Actor{Tenant: "acme", User: "ada"}
		do := func(cmds ...kernel.Command) []any {
			return w.doAs(version, cmds...)
		}
		submit := func(n work.NewJob) ident.Job {
			return do(work.SubmitJobs{Jobs: []work.NewJob{n}, Actor: who})[0].(work.SubmitJobsResult).Results[0].Job
		}
		do(work.RegisterNode{Node: testNode("n1", "boot1", 8)})
		job := submit(retried(oneGPU(), 3))
		after := oneGPU()
		after.Dependencies = []work.Dependency{{Job: job}}
		dependent := submit(after)
		note := func() {
			for _, id := range []ident.Job{job, dependent} {
				j := w.job(id)
				said = append(said, j.Reason, j.ErrorMessage)
				for _, p := range j.Past {
					said = append(said, p.Reason)
				}
				for _, task := range j.Tasks {
					said = append(said, task.ErrorMessage)
				}
				said = append(said, w.m.View().ClassReason(w.m.View().ClassOf(j)))
			}
			n := w.row("n1")
			said = append(said, n.Reason)
			if n.Drain != nil {
				said = append(said, n.Drain.Reason)
			}
			for i := range n.GPUs {
				said = append(said, n.GPUs[i].HealthReason)
			}
		}
		note()
		do(work.PlaceJobs{Reasons: []work.ClassReason{{Class: w.job(job).Class(), Reason: reason.New(reason.NoNodeReady)}}})
		note()
		for range 2 {
			do(work.PlaceJobs{Placements: []work.Placement{w.placement(job, "n1")}})
			j := w.job(job)
			do(work.ReportTasks{Node: "n1", Reports: []work.TaskReport{{
				Job: job, Attempt: j.Attempt, Token: j.Token, Kind: work.ReportEnded, ErrorType: v1.ErrorType_GPU_FAULT, ErrorMessage: "XID 79",
			}}})
			note()
		}
		do(work.SetNode{ID: "n1", Action: work.NodeUnreachable, Reason: reason.New(reason.NodeSilent, int64(3*time.Second))})
		note()
		do(work.SetNode{ID: "n1", Action: work.NodeReachable})
		do(work.SetNode{ID: "n1", Action: work.NodeDrain, Force: true, Actor: who}, work.SetNode{ID: "n1", Action: work.NodeHealth})
		note()
		do(work.ControlJob{Job: job, Action: work.ActionCancel, Actor: who}, work.ControlJob{Job: job, Action: work.ActionCancel, Actor: who})
		note()
		do(work.PutQueue{Queue: work.Queue{Name: "q", MaxGPUs: 2}, Actor: who}, work.PutQuota{Tenant: "acme", Actor: who}, work.DeleteQueue{Name: "default", Actor: who})
		for r := range w.m.View().AuditRecords(0) {
			said = append(said, r.Message)
		}
		return said
	}
	was, is := tell(3), tell(4)
	require.Len(t, is, len(was))
	codes := map[reason.Code]bool{}
	for i := range is {
		require.Zero(t, was[i].Code(), "no code stands in an entry below its level: %s", was[i])
		require.Equal(t, string(was[i]), is[i].Before())
		codes[is[i].Code()] = true
	}
	require.GreaterOrEqual(t, len(codes), 14, "few codes were seen: %v", codes)
}

func TestReasons_nobodyCanForgeACode(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 1)
	id := w.submit(oneGPU())
	forged := string(reason.New(reason.NodeForgotten, "n1"))
	w.do(work.ControlJob{Job: id, Action: work.ActionCancel, Reason: forged, Actor: &access.Actor{User: "mallory"}})
	require.Zero(t, w.job(id).Reason.Code())
	for r := range w.m.View().AuditRecords(0) {
		require.Zero(t, r.Message.Code())
	}
}

// TestReasons_withoutParametersAreShared holds that a million held jobs do not have a million copies of why.
func TestReasons_withoutParametersAreShared(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = reason.New(reason.WaitsForJobs) }))
	require.Less(t, len(reason.New(reason.WaitsForJobs)), len(strings.TrimSpace(reason.New(reason.WaitsForJobs).Before())))
}
