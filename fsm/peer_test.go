package fsm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

// pair is a job with a rank on n1 and one on n2, both of which run.
func pair(w *world, retry work.RetryPolicy) ident.Job {
	n := gang(2)
	n.Retry = retry
	id := w.submit(n)
	w.place(id, "n1", "n2")
	w.run(id)
	return id
}

// A rank whose peer is gone exits, because its collective breaks, and is heard of before anyone misses the peer.
func TestPeer_whatTheAttemptEndsBy(t *testing.T) {
	exits := func(w *world, id ident.Job) { w.report(id, 0, jobverbs.ReportEnded, exit(1)) }
	lose := func(w *world, _ ident.Job) {
		w.later(time.Minute)
		w.lose("n2", "n3")
	}
	away := func(w *world, _ ident.Job) { w.away("n2") }
	after := func(d time.Duration) func(*world, ident.Job) { return func(w *world, _ ident.Job) { w.later(d) } }
	register := func(boot string) func(*world, ident.Job) {
		return func(w *world, _ ident.Job) { w.do(nodeverbs.RegisterNode{Node: testNode("n2", boot, 8)}) }
	}
	ends := func(code int32, e v1.ErrorType_Value) func(*world, ident.Job) {
		return func(w *world, id ident.Job) { w.report(id, 1, jobverbs.ReportEnded, exit(code), failed(e, "")) }
	}
	for name, c := range map[string]struct {
		course []func(*world, ident.Job)
		want   v1.ErrorType_Value
	}{
		"missed after the exit":         {[]func(*world, ident.Job){exits, after(5 * time.Second), away, lose}, v1.ErrorType_NODE_LOST},
		"missed before the exit":        {[]func(*world, ident.Job){away, after(20 * time.Second), exits, lose}, v1.ErrorType_NODE_LOST},
		"missed long before the exit":   {[]func(*world, ident.Job){away, after(10 * time.Minute), exits, lose}, v1.ErrorType_NODE_LOST},
		"missed just in time":           {[]func(*world, ident.Job){exits, after(work.BlameWithin), away, lose}, v1.ErrorType_NODE_LOST},
		"missed late, but long silent":  {[]func(*world, ident.Job){exits, after(50 * time.Second), away, after(-20 * time.Second), lose}, v1.ErrorType_NODE_LOST},
		"lost for another reason":       {[]func(*world, ident.Job){exits, after(2 * time.Minute), away, lose}, v1.ErrorType_EXIT_NONZERO},
		"all nodes healthy":             {[]func(*world, ident.Job){exits, ends(143, v1.ErrorType_UNSPECIFIED)}, v1.ErrorType_EXIT_NONZERO},
		"the peer was stopped":          {[]func(*world, ident.Job){exits, ends(0, v1.ErrorType_UNSPECIFIED)}, v1.ErrorType_EXIT_NONZERO},
		"the peer is back":              {[]func(*world, ident.Job){exits, away, after(20 * time.Second), register("boot1"), ends(143, v1.ErrorType_UNSPECIFIED)}, v1.ErrorType_EXIT_NONZERO},
		"its node started again":        {[]func(*world, ident.Job){exits, after(5 * time.Second), away, after(3 * time.Minute), register("boot2")}, v1.ErrorType_NODE_LOST},
		"its node started at once":      {[]func(*world, ident.Job){exits, after(20 * time.Second), register("boot2")}, v1.ErrorType_NODE_LOST},
		"its node started another time": {[]func(*world, ident.Job){exits, after(2 * time.Minute), away, after(time.Minute), register("boot2")}, v1.ErrorType_EXIT_NONZERO},
		"its node is forgotten": {[]func(*world, ident.Job){exits, away, func(w *world, _ ident.Job) {
			w.setNode(nodeverbs.SetNode{ID: "n2", Action: nodeverbs.NodeForget})
		}}, v1.ErrorType_NODE_LOST},
		"its node had stopped it":     {[]func(*world, ident.Job){exits, after(59 * time.Second), ends(137, v1.ErrorType_NODE_LOST)}, v1.ErrorType_NODE_LOST},
		"its node stops it later":     {[]func(*world, ident.Job){exits, after(3 * time.Minute), ends(137, v1.ErrorType_NODE_LOST)}, v1.ErrorType_EXIT_NONZERO},
		"a GPU under the peer failed": {[]func(*world, ident.Job){exits, after(2 * time.Second), ends(1, v1.ErrorType_GPU_FAULT)}, v1.ErrorType_GPU_FAULT},
		"no agreement with the peer where to continue": {[]func(*world, ident.Job){func(w *world, id ident.Job) {
			w.report(id, 0, jobverbs.ReportEnded, failed(v1.ErrorType_DATA_FETCH, ""))
		}, away, lose}, v1.ErrorType_NODE_LOST},
		"lack of memory is its own": {[]func(*world, ident.Job){func(w *world, id ident.Job) {
			w.report(id, 0, jobverbs.ReportEnded, exit(1), failed(v1.ErrorType_OOM, ""))
		}, away, lose}, v1.ErrorType_OOM},
		"so is a loss that is no number": {[]func(*world, ident.Job){func(w *world, id ident.Job) {
			w.report(id, 0, jobverbs.ReportEnded, exit(1), failed(v1.ErrorType_DIVERGED, ""))
		}, away, lose}, v1.ErrorType_DIVERGED},
	} {
		t.Run(name, func(t *testing.T) {
			w := cluster(t)
			id := pair(w, work.RetryPolicy{On: work.RetryAll})
			for _, f := range c.course {
				f(w, id)
			}
			j := w.job(id)
			if c.want == v1.ErrorType_EXIT_NONZERO || c.want == v1.ErrorType_OOM || c.want == v1.ErrorType_DIVERGED {
				require.Equal(t, failedJob, j.State, "max_retries is 0")
				require.Equal(t, c.want, j.ErrorType)
				return
			}
			require.Equal(t, queued, j.State, "what the infrastructure did is free")
			require.Equal(t, c.want, j.Past[0].ErrorType)
			require.Equal(t, "n2", j.Past[0].FailedNode)
			require.Contains(t, words.Of(j.Past[0].Reason), c.want.String())
			require.True(t, j.Avoids("n2"))
			require.False(t, j.Avoids("n1"), "the one that exited is not to blame")
			require.Zero(t, j.Retries.Exit)
		})
	}
}

// The evidence of the loss is kept with the attempt, and the place of the rank that exited is kept for the next one.
func TestPeer_theLossIsTheAttempts(t *testing.T) {
	w := cluster(t)
	id := pair(w, work.RetryPolicy{On: work.RetryAll})
	w.report(id, 0, jobverbs.ReportEnded, exit(1))
	require.Equal(t, v1.StopReason_GANG, w.job(id).Stop)
	w.away("n2")
	w.later(time.Minute)
	w.lose("n2", "n3")
	j := w.job(id)
	require.Equal(t, work.LossDeclared, j.Past[0].Loss.How)
	require.EqualValues(t, 1, j.Retries.NodeLost)
	c, kept := w.m.View().ClaimOf(id)
	require.True(t, kept)
	require.Equal(t, []uint16{0}, c.Ranks)
	require.Equal(t, "n1", c.Tasks[0].Node)
}

// The request of a user meanwhile stands.
func TestPeer_canceledStaysCanceled(t *testing.T) {
	w := cluster(t)
	id := pair(w, work.RetryPolicy{On: work.RetryAll})
	w.report(id, 0, jobverbs.ReportEnded, exit(1))
	w.away("n2")
	w.do(jobverbs.ControlJob{Job: id, Action: work.ActionCancel})
	w.later(time.Minute)
	w.lose("n2", "n3")
	require.Equal(t, v1.JobState_CANCELED, w.job(id).State)
}

// Of several survivors the first exit counts for none of them; and a second loss changes nothing.
func TestPeer_severalSurvivorsAndLosses(t *testing.T) {
	w := cluster(t)
	n := gang(4)
	n.Retry.On = work.RetryAll
	id := w.submit(n)
	w.place(id, "n1", "n2", "n3", "n4")
	w.run(id)
	w.report(id, 3, jobverbs.ReportEnded, exit(1))
	w.report(id, 0, jobverbs.ReportEnded, exit(1))
	w.do(nodeverbs.RegisterNode{Node: testNode("n2", "boot2", 8)})
	w.do(nodeverbs.RegisterNode{Node: testNode("n3", "boot2", 8)})
	j := w.job(id)
	require.Equal(t, queued, j.State)
	require.Equal(t, "n2", j.Past[0].FailedNode)
	require.Equal(t, work.LossReboot, j.Past[0].Loss.How)
}

// TestPeer_anyTimes has the node of some rank fall silent and some other ranks exit at any times before it is lost.
func TestPeer_anyTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := cluster(t)
		n := gang(4)
		n.Retry.On = work.RetryAll
		id := w.submit(n)
		w.place(id, "n1", "n2", "n3", "n4")
		w.run(id)
		start := w.now
		silent := uint16(rapid.IntRange(0, 3).Draw(t, "silent"))
		missed := rapid.IntRange(0, 90).Draw(t, "missed")
		var first time.Duration
		exits := map[int][]uint16{}
		for rank := range uint16(4) {
			if rank == silent {
				continue
			}
			at := rapid.IntRange(0, 90).Draw(t, "exit")
			exits[at] = append(exits[at], rank)
			if d := time.Duration(at) * time.Second; len(exits) == 1 && len(exits[at]) == 1 || d < first {
				first = d
			}
		}
		for at := range 91 {
			w.now = start + int64(at)*int64(time.Second)
			if at == missed {
				w.away(w.job(id).Tasks[silent].Node)
			}
			for _, rank := range exits[at] {
				w.report(id, rank, jobverbs.ReportEnded, exit(1))
			}
		}
		w.later(time.Minute)
		w.do(nodeverbs.RegisterNode{Node: testNode(w.job(id).Tasks[silent].Node, "boot2", 8)})
		j := w.job(id)
		if time.Duration(missed)*time.Second <= first+work.BlameWithin {
			require.Equal(t, queued, j.State)
			require.Equal(t, v1.ErrorType_NODE_LOST, j.Past[0].ErrorType)
			return
		}
		require.Equal(t, failedJob, j.State)
		require.Equal(t, v1.ErrorType_EXIT_NONZERO, j.ErrorType)
	})
}
