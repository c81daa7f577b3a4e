package coordinator

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/output"
)

// An agent removes all outputs that the answer does not name.
func TestCluster_whatJobsWroteThatIsStillNeeded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		a := c.agent("n1", 2)
		at := c.leader()
		runs, saved, gone := c.submit(at, sleeper(1, 0)), c.submit(at, sleeper(1, 0)), "job_zzzz"
		c.awaitStatus(at, runs, v1.JobStatus_TRAINING)
		c.awaitStatus(at, saved, v1.JobStatus_TRAINING)
		a.mu.Lock()
		for _, task := range a.tasks {
			a.report(&v1.Report{Task: task.ref, Body: &v1.Report_Checkpoint{Checkpoint: &v1.CheckpointReport{Path: "/out/" + task.ref.GetJobId() + "/c", Step: 1, ManifestDigest: "d", SizeBytes: 1}}})
		}
		a.mu.Unlock()
		c.await(at, saved, func(j *v1.Job) bool { return j.GetLastCheckpointId() != "" })
		a.end(saved, 0)
		c.awaitStatus(at, saved, v1.JobStatus_COMPLETED)

		needed := func(node string, jobs ...string) *v1.GetNeededOutputsResponse {
			t.Helper()
			out, err := v1.NewAgentServiceClient(c.members[c.follower()].conn).GetNeededOutputs(c.ctx("", ""), &v1.GetNeededOutputsRequest{NodeId: node, JobIds: jobs})
			require.NoError(t, err)
			return out
		}
		out := needed("n1", runs, saved, gone, "a folder")
		require.Equal(t, []string{runs, "a folder"}, out.GetUnfinishedJobIds())
		require.Equal(t, []string{"/out/" + saved + "/c"}, out.GetCheckpointPaths())
		require.Equal(t, out.GetCheckpointPaths(), needed("n2", saved).GetCheckpointPaths(), "nodes may share the file system that outputs are on")
		ckpt := c.get(at, saved).GetLastCheckpointId()
		_, err := c.jobs(at).DeleteCheckpoint(c.ctx("t1", ""), &v1.DeleteCheckpointRequest{CheckpointId: ckpt})
		require.NoError(t, err)
		require.Empty(t, needed("n1", saved).GetCheckpointPaths())

		client := v1.NewAgentServiceClient(c.members[at].conn)
		many := &v1.GetNeededOutputsRequest{NodeId: "n1"}
		for i := range output.MaxNeededJobs + 1 {
			many.JobIds = append(many.JobIds, "job_"+strconv.Itoa(i))
		}
		_, err = client.GetNeededOutputs(c.ctx("", ""), many)
		requireCode(t, codes.InvalidArgument, err)
	})
}

// The node that registered a checkpoint serves it, to nodes with a task that needs it.
func TestCluster_whoServesACheckpointToWhom(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		a := c.agent("n1", 1)
		at := c.leader()
		id := c.submit(at, sleeper(1, 0))
		c.awaitStatus(at, id, v1.JobStatus_TRAINING)
		a.mu.Lock()
		for _, task := range a.tasks {
			a.report(&v1.Report{Task: task.ref, Body: &v1.Report_Checkpoint{Checkpoint: &v1.CheckpointReport{Path: "/out/c-1", Step: 1, ManifestDigest: "d", SizeBytes: 1}}})
		}
		a.mu.Unlock()
		saved := c.await(at, id, func(j *v1.Job) bool { return j.GetLastCheckpointId() != "" }).GetLastCheckpointId()
		c.agent("n2", 1)
		other := c.submit(at, sleeper(1, 0))
		c.awaitStatus(at, other, v1.JobStatus_TRAINING) // on n2

		ask := func(server, checkpoint, reader string) (*v1.GetServedCheckpointResponse, error) {
			return v1.NewAgentServiceClient(c.members[c.follower()].conn).GetServedCheckpoint(c.ctx("", ""),
				&v1.GetServedCheckpointRequest{NodeId: server, CheckpointId: checkpoint, ReaderNodeId: reader})
		}
		out, err := ask("n1", saved, "n1")
		require.NoError(t, err, "another task of the job could be there")
		require.Equal(t, "/out/c-1", out.GetCheckpoint().GetPath())
		require.Equal(t, "d", out.GetCheckpoint().GetManifestDigest())
		require.Equal(t, id, out.GetJobId())
		require.Equal(t, "t1", out.GetTenantId())
		_, err = ask("n2", saved, "n1")
		requireCode(t, codes.NotFound, err)
		_, err = ask("n1", "ckpt_zzzz", "n1")
		requireCode(t, codes.NotFound, err)
		_, err = ask("n1", saved, "n2")
		requireCode(t, codes.PermissionDenied, err)
		a.end(id, 0)
		c.awaitStatus(at, id, v1.JobStatus_COMPLETED)
		_, err = ask("n1", saved, "n1")
		requireCode(t, codes.PermissionDenied, err)
		_, err = c.jobs(at).DeleteCheckpoint(c.ctx("t1", ""), &v1.DeleteCheckpointRequest{CheckpointId: saved})
		require.NoError(t, err)
		_, err = ask("n1", saved, "n1")
		requireCode(t, codes.NotFound, err)
	})
}
