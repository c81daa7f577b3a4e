package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func said(job string, latest string) *report {
	return &report{latest: latest, body: &v1.Report{Task: &v1.TaskRef{JobId: job}}}
}

func seqs(batch []*v1.Report) []uint64 {
	out := []uint64{}
	for _, r := range batch {
		out = append(out, r.GetSeq())
	}
	return out
}

func TestOutboxKeepsOrderUntilAcknowledged(t *testing.T) {
	o := newOutbox(10)
	acked := 0
	for range 3 {
		r := said("a", "")
		r.acked = func() { acked++ }
		o.add(r)
	}
	require.Equal(t, []uint64{11, 12, 13}, seqs(o.take()))
	require.Empty(t, o.take())
	o.ack(12)
	require.Equal(t, 2, acked)
	o.add(said("b", ""))
	require.Equal(t, []uint64{14}, seqs(o.take()))
	o.rewind()
	require.Equal(t, []uint64{13, 14}, seqs(o.take()))
	o.ack(14)
	require.Zero(t, o.waiting())
	require.Equal(t, 3, acked)
}

func TestOutboxDropsWhatALaterWordReplaces(t *testing.T) {
	o := newOutbox(0)
	o.add(said("a", "progress"), said("b", "progress"), said("a", "phase"), said("a", ""))
	o.add(said("a", "progress"))
	require.Equal(t, []uint64{2, 3, 4, 5}, seqs(o.take()))
	// What was sent cannot be taken back.
	o.add(said("a", "progress"))
	require.Equal(t, []uint64{6}, seqs(o.take()))
}

func TestOutboxIgnoresAnAckOfWhatThisSessionHasNotSent(t *testing.T) {
	o := newOutbox(0)
	o.add(said("a", ""), said("a", ""))
	require.Len(t, o.take(), 2)
	o.rewind()
	o.ack(2)
	require.Equal(t, 2, o.waiting())
}

func TestOutboxBoundsItsBatches(t *testing.T) {
	o := newOutbox(0)
	for range maxBatch + 1 {
		o.add(said("a", ""))
	}
	require.Len(t, o.take(), maxBatch)
	require.Len(t, o.take(), 1)
}

func TestOutbox_aLaunchWaitsForWhatFollowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(0)
		woken := func() bool {
			synctest.Wait()
			select {
			case <-o.wake:
				return true
			default:
				return false
			}
		}
		tk := &task{key: key{job: "job_1", attempt: 1, token: 7}}
		o.add(tk.progress(&v1.Report{Body: &v1.Report_Starting{Starting: &v1.TaskStarting{}}}, time.Time{}))
		o.add(tk.progress(&v1.Report{Body: &v1.Report_Running{Running: &v1.TaskRunning{Pid: 1}}}, time.Time{}))
		require.False(t, woken(), "it may wait")
		time.Sleep(holdTime)
		require.True(t, woken(), "but not for long")
		batch := o.take()
		require.Len(t, batch, 1, "running says that it was started")
		require.NotNil(t, batch[0].GetRunning())

		other := &task{key: key{job: "job_2", attempt: 1, token: 8}}
		o.add(other.progress(&v1.Report{Body: &v1.Report_Running{Running: &v1.TaskRunning{Pid: 2}}}, time.Time{}))
		o.add(other.report(&v1.Report{Body: &v1.Report_Ended{Ended: &v1.TaskEnded{}}}, time.Time{}))
		require.True(t, woken(), "an end is told at once")
		require.Len(t, o.take(), 2, "and takes along what was held")
	})
}

func TestOutboxForgetsAllButTheEndOfATaskThatIsNotWanted(t *testing.T) {
	o := newOutbox(0)
	checkpoint := func(job string) *report {
		r := said(job, "")
		r.body.Body = &v1.Report_Checkpoint{Checkpoint: &v1.CheckpointReport{}}
		return r
	}
	end := said("a", "")
	end.body.Body = &v1.Report_Ended{Ended: &v1.TaskEnded{}}
	o.add(checkpoint("a"))
	require.Len(t, o.take(), 1)
	o.add(checkpoint("a"), checkpoint("b"), end)
	o.drop(said("a", "").body.GetTask())
	require.Equal(t, []uint64{3, 4}, seqs(o.take()))
	o.rewind()
	require.Equal(t, []uint64{1, 3, 4}, seqs(o.take()), "what was sent cannot be taken back")
}

func TestOutboxBoundsTheCheckpointsOfATask(t *testing.T) {
	o := newOutbox(0)
	checkpoint := func(job string) *report {
		r := said(job, "")
		r.body.Body = &v1.Report_Checkpoint{Checkpoint: &v1.CheckpointReport{}}
		return r
	}
	o.add(said("a", ""), checkpoint("b"))
	for range maxCheckpoints + 5 {
		o.add(checkpoint("a"))
	}
	require.Equal(t, maxCheckpoints+2, o.waiting())
	batch := o.take()
	require.EqualValues(t, []uint64{1, 2, 8}, seqs(batch)[:3], "the oldest go")
}
