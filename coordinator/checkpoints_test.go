package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// ordered waits until the agent's orders about checkpoints satisfy a condition.
func (a *scriptedAgent) ordered(wanted func([]*v1.CheckpointOrder) bool) []*v1.CheckpointOrder {
	a.t.Helper()
	for range 600 {
		a.mu.Lock()
		saved := a.saved
		a.mu.Unlock()
		if wanted(saved) {
			return saved
		}
		time.Sleep(100 * time.Millisecond) // in the bubble's time
	}
	a.t.Fatal("the orders did not come")
	return nil
}

func (a *scriptedAgent) reportSaved(r *v1.Report) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.report(r)
}

func (c *cluster) checkpoint(at, id string) *v1.Checkpoint {
	c.t.Helper()
	out, err := c.jobs(at).GetCheckpoint(c.ctx("t1", ""), &v1.GetCheckpointRequest{CheckpointId: id})
	require.NoError(c.t, err)
	return out.GetCheckpoint()
}

// TestCluster_aCheckpointIsUploadedPinnedAndGivenUp follows checkpoints from their report to their removal.
func TestCluster_aCheckpointIsUploadedPinnedAndGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		a := c.agent("n1", 1)
		a.mu.Lock()
		a.hello.ArchivesCheckpoints = true
		a.mu.Unlock()
		a.isolate()
		c.awaitNode("n1", v1.NodeState_UNREACHABLE)
		a.heal()
		c.awaitNode("n1", v1.NodeState_READY)
		at := c.leader()
		spec := sleeper(1, 0)
		spec.OutputConfig = &v1.OutputConfig{KeepCheckpoints: 1}
		job := c.submit(at, spec)
		c.awaitStatus(at, job, v1.JobStatus_TRAINING)
		save := func(step int64, path string) string {
			before := c.get(at, job).GetLastCheckpointId()
			a.reportSaved(&v1.Report{Task: a.ref(job), Body: &v1.Report_Checkpoint{Checkpoint: &v1.CheckpointReport{Path: path, Step: step, ManifestDigest: "d", SizeBytes: 9}}})
			return c.await(at, job, func(j *v1.Job) bool { return j.GetLastCheckpointId() != before }).GetLastCheckpointId()
		}
		store := func(id string) {
			orders := a.ordered(func(o []*v1.CheckpointOrder) bool {
				return len(o) > 0 && o[0].GetCheckpointId() == id && o[0].GetAction() == v1.CheckpointAction_UPLOAD
			})
			a.reportSaved(&v1.Report{Body: &v1.Report_CheckpointStored{CheckpointStored: &v1.CheckpointStored{CheckpointId: id, ArchiveKey: orders[0].GetArchiveKey(), ContentDigest: "sha256:c", StoredBytes: 9}}})
			a.ordered(func(o []*v1.CheckpointOrder) bool {
				return len(o) == 0 || o[0].GetCheckpointId() != id || o[0].GetAction() != v1.CheckpointAction_UPLOAD
			})
		}
		first := save(1, "/c/1")
		require.Equal(t, v1.CheckpointState_LOCAL, c.checkpoint(at, first).GetState())
		a.ordered(func(o []*v1.CheckpointOrder) bool { return len(o) == 1 })
		a.reportSaved(&v1.Report{Body: &v1.Report_CheckpointUpload{CheckpointUpload: &v1.CheckpointUpload{CheckpointId: first, DoneBytes: 4, Error: "the archive is full"}}})
		require.Eventually(t, func() bool { return c.checkpoint(at, first).GetUploadedBytes() == 4 }, time.Minute, time.Second)
		require.Equal(t, v1.CheckpointState_UPLOADING, c.checkpoint(at, first).GetState())
		require.Equal(t, "the archive is full", c.checkpoint(at, first).GetReason())
		store(first)
		shown := c.checkpoint(at, first)
		require.Equal(t, v1.CheckpointState_DURABLE, shown.GetState())
		require.Equal(t, "mind://"+first, shown.GetUri())
		require.Equal(t, "sha256:c", shown.GetContentDigest())
		require.Empty(t, shown.GetReason())

		second := save(2, "/c/2")
		pinned, err := c.jobs(at).PinCheckpoint(c.ctx("t1", ""), &v1.PinCheckpointRequest{CheckpointId: second})
		require.NoError(t, err)
		require.True(t, pinned.GetCheckpoint().GetPinned())
		_, err = c.jobs(at).PinCheckpoint(c.ctx("t2", ""), &v1.PinCheckpointRequest{CheckpointId: second})
		requireCode(t, codes.NotFound, err)
		_, err = c.jobs(at).DeleteCheckpoint(c.ctx("t1", ""), &v1.DeleteCheckpointRequest{CheckpointId: second})
		requireCode(t, codes.FailedPrecondition, err)
		require.ErrorContains(t, err, "is pinned: unpin it first")
		store(second)
		require.Equal(t, v1.CheckpointState_EXPIRED, c.checkpoint(at, first).GetState())
		require.Equal(t, "it is not the newest checkpoint", c.checkpoint(at, first).GetReason())
		orders := a.ordered(func(o []*v1.CheckpointOrder) bool { return len(o) == 2 })
		for i, action := range []v1.CheckpointAction_Value{v1.CheckpointAction_REMOVE_FILES, v1.CheckpointAction_REMOVE_ARCHIVED} {
			require.Equal(t, action, orders[i].GetAction())
			require.Equal(t, "/c/1", orders[i].GetPath())
			a.reportSaved(&v1.Report{Body: &v1.Report_CheckpointRemoved{CheckpointRemoved: &v1.CheckpointRemoved{CheckpointId: first, Action: action}}})
		}
		a.ordered(func(o []*v1.CheckpointOrder) bool { return len(o) == 0 })

		third := save(3, "/c/3")
		store(third)
		require.Equal(t, v1.CheckpointState_DURABLE, c.checkpoint(at, second).GetState(), "it is pinned")
		_, err = c.jobs(at).UnpinCheckpoint(c.ctx("t1", ""), &v1.UnpinCheckpointRequest{CheckpointId: second})
		require.NoError(t, err)
		require.Equal(t, v1.CheckpointState_EXPIRED, c.checkpoint(at, second).GetState())
		_, err = c.jobs(at).PinCheckpoint(c.ctx("t1", ""), &v1.PinCheckpointRequest{CheckpointId: second})
		requireCode(t, codes.FailedPrecondition, err)
	})
}

// ref returns the newest task of a job on this node.
func (a *scriptedAgent) ref(job string) *v1.TaskRef {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, task := range a.tasks {
		if task.ref.GetJobId() == job && !task.ended {
			return task.ref
		}
	}
	a.t.Fatalf("no task of %s", job)
	return nil
}
