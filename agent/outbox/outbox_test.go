package outbox

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func said(job string, latest string) *Report {
	return &Report{Latest: latest, Body: &v1.Report{Task: &v1.TaskRef{JobId: job}}}
}

func seqs(batch []*v1.Report) []uint64 {
	out := []uint64{}
	for _, r := range batch {
		out = append(out, r.GetSeq())
	}
	return out
}

func TestOutboxKeepsOrderUntilAcknowledged(t *testing.T) {
	o := New(10)
	acked := 0
	for range 3 {
		r := said("a", "")
		r.Acked = func() { acked++ }
		o.Add(r)
	}
	require.Equal(t, []uint64{11, 12, 13}, seqs(o.Take()))
	require.Empty(t, o.Take())
	o.Ack(12)
	require.Equal(t, 2, acked)
	o.Add(said("b", ""))
	require.Equal(t, []uint64{14}, seqs(o.Take()))
	o.Rewind()
	require.Equal(t, []uint64{13, 14}, seqs(o.Take()))
	o.Ack(14)
	require.Zero(t, o.Waiting())
	require.Equal(t, 3, acked)
}

func TestOutboxDropsWhatALaterWordReplaces(t *testing.T) {
	o := New(0)
	o.Add(said("a", "progress"), said("b", "progress"), said("a", "phase"), said("a", ""))
	o.Add(said("a", "progress"))
	require.Equal(t, []uint64{2, 3, 4, 5}, seqs(o.Take()))
	// Sent reports stay.
	o.Add(said("a", "progress"))
	require.Equal(t, []uint64{6}, seqs(o.Take()))
}

func TestOutboxIgnoresAnAckOfWhatThisSessionHasNotSent(t *testing.T) {
	o := New(0)
	o.Add(said("a", ""), said("a", ""))
	require.Len(t, o.Take(), 2)
	o.Rewind()
	o.Ack(2)
	require.Equal(t, 2, o.Waiting())
}

func TestOutboxBoundsItsBatches(t *testing.T) {
	o := New(0)
	for range MaxBatch + 1 {
		o.Add(said("a", ""))
	}
	require.Len(t, o.Take(), MaxBatch)
	require.Len(t, o.Take(), 1)
}

// A job decides how large its reports are: what is too much for one message comes in several.
func TestOutbox_boundsTheBytesOfItsBatches(t *testing.T) {
	o := New(0)
	for _, n := range []int{maxBatchBytes / 2, maxBatchBytes / 3, maxBatchBytes / 3, 2 * maxBatchBytes, 1} {
		r := said("a", "")
		r.Body.Body = &v1.Report_Gate{Gate: &v1.GateReport{ContextJson: strings.Repeat("x", n)}}
		o.Add(r)
	}
	for _, want := range []int{2, 1, 1, 1, 0} {
		require.Len(t, o.Take(), want)
	}
}

func TestOutbox_aLaunchWaitsForWhatFollowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := New(0)
		woken := func() bool {
			synctest.Wait()
			select {
			case <-o.Wake():
				return true
			default:
				return false
			}
		}
		tk := taskid.ID{Job: "job_1"}
		o.Add(Launch(tk, &v1.Report{Body: &v1.Report_Starting{Starting: &v1.TaskStarting{}}}, time.Time{}))
		o.Add(Launch(tk, &v1.Report{Body: &v1.Report_Running{Running: &v1.TaskRunning{Pid: 1}}}, time.Time{}))
		require.False(t, woken(), "it may wait")
		time.Sleep(holdTime)
		require.True(t, woken(), "but not for long")
		batch := o.Take()
		require.Len(t, batch, 1, "running says that it was started")
		require.NotNil(t, batch[0].GetRunning())

		other := taskid.ID{Job: "job_2"}
		o.Add(Launch(other, &v1.Report{Body: &v1.Report_Running{Running: &v1.TaskRunning{Pid: 2}}}, time.Time{}))
		o.Add(About(other, &v1.Report{Body: &v1.Report_Ended{Ended: &v1.TaskEnded{}}}, time.Time{}))
		require.True(t, woken(), "an end is told at once")
		require.Len(t, o.Take(), 2, "and takes along what was held")
	})
}

func TestOutboxForgetsAllButTheEndOfATaskThatIsNotWanted(t *testing.T) {
	o := New(0)
	checkpoint := func(job string) *Report {
		r := said(job, "")
		r.Body.Body = &v1.Report_Checkpoint{Checkpoint: &v1.CheckpointReport{}}
		return r
	}
	end := said("a", "")
	end.Body.Body = &v1.Report_Ended{Ended: &v1.TaskEnded{}}
	o.Add(checkpoint("a"))
	require.Len(t, o.Take(), 1)
	o.Add(checkpoint("a"), checkpoint("b"), end)
	o.Drop(said("a", "").Body.GetTask())
	require.Equal(t, []uint64{3, 4}, seqs(o.Take()))
	o.Rewind()
	require.Equal(t, []uint64{1, 3, 4}, seqs(o.Take()), "what was sent cannot be taken back")
}

func TestOutboxBoundsTheCheckpointsOfATask(t *testing.T) {
	o := New(0)
	checkpoint := func(job string) *Report {
		r := said(job, "")
		r.Body.Body = &v1.Report_Checkpoint{Checkpoint: &v1.CheckpointReport{}}
		return r
	}
	o.Add(said("a", ""), checkpoint("b"))
	for range maxCheckpoints + 5 {
		o.Add(checkpoint("a"))
	}
	require.Equal(t, maxCheckpoints+2, o.Waiting())
	batch := o.Take()
	require.EqualValues(t, []uint64{1, 2, 8}, seqs(batch)[:3], "the oldest go")
}
