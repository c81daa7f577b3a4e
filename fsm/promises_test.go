package fsm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
)

// promise promises starts, and says why some were not.
func (w *world) promise(starts ...jobverbs.Start) []reason.Code {
	var codes []reason.Code
	for _, r := range do[jobverbs.PromiseResult](w, jobverbs.PromiseStarts{Starts: starts}).Refused {
		codes = append(codes, r.Reason.Code())
	}
	require.Empty(w.t, fsm.Check(w.publish()))
	return codes
}

// blocked is a node of two GPUs that are in use, and jobs that wait for both for an hour each.
func blocked(t *testing.T, jobs int) (*world, []jobverbs.Start) {
	w := newWorld(t)
	w.node("n1", 2)
	n := oneGPU()
	n.Shape.GPUs, n.MaxRuntime = 2, int64(time.Hour)
	w.place(w.submit(n), "n1")
	var starts []jobverbs.Start
	for i := range jobs {
		starts = append(starts, jobverbs.Start{
			Job: w.submit(n), Attempt: 1, At: w.now + int64(i+1)*int64(2*time.Hour), Tasks: []work.TaskPlacement{{Node: "n1", GPUs: 3}},
		})
	}
	return w, starts
}

func TestPromises_refusals(t *testing.T) {
	w, starts := blocked(t, 2)
	require.Empty(t, w.promise(starts...))
	for want, change := range map[reason.Code]func(s *jobverbs.Start){
		reason.PromiseOverlaps: func(s *jobverbs.Start) { s.At = starts[0].At + int64(time.Minute) },
		reason.PlanOutdated:    func(s *jobverbs.Start) { s.Attempt = 2 },
		reason.NoNode:          func(s *jobverbs.Start) { s.Tasks = []work.TaskPlacement{{Node: "n9", GPUs: 3}} },
		reason.WrongGPUCount:   func(s *jobverbs.Start) { s.Tasks = []work.TaskPlacement{{Node: "n1", GPUs: 1}} },
		reason.WrongPlaces:     func(s *jobverbs.Start) { s.Tasks = nil },
		reason.NoJob:           func(s *jobverbs.Start) { s.Job = ident.Job(1 << 40) },
	} {
		bad := starts[1]
		change(&bad)
		require.Equal(t, []reason.Code{want}, w.promise(starts[0], bad))
		require.Equal(t, 1, w.m.View().PromiseCount(), "the other one is promised")
	}
	policy := w.m.View().Policy()
	policy.Backfill.Reservations = 1
	require.Empty(t, w.promise(starts...))
	require.Nil(t, do[queueverbs.PolicyResult](w, queueverbs.PutPolicy{Policy: policy}).Refusal)
	require.Equal(t, 1, w.m.View().PromiseCount(), "the later one is over")
	require.Equal(t, []reason.Code{reason.TooManyPromises}, w.promise(starts...))
}

// A promise says for when it was made first, and ends with what it is about.
func TestPromises_end(t *testing.T) {
	w, starts := blocked(t, 2)
	require.Empty(t, w.promise(starts...))
	later := starts[0]
	later.At += int64(time.Minute)
	require.Empty(t, w.promise(later, starts[1]))
	p, ok := w.m.View().PromiseOf(later.Job)
	require.True(t, ok)
	require.Equal(t, []int64{later.At, starts[0].At}, []int64{p.StartAt, p.First})

	do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: starts[1].Job, Action: work.ActionCancel})
	require.Equal(t, 1, w.m.View().PromiseCount(), "the job is over")
	w.away("n1")
	require.Nil(t, do[nodeverbs.NodeResult](w, nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeForget}).Refusal)
	require.Zero(t, w.m.View().PromiseCount(), "the node is gone")
	require.Empty(t, fsm.Check(w.publish()))
}
