package coordinator

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// prepare lets the tasks of jobs of a name wait for their data.
func (a *scriptedAgent) prepare(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.prepares == nil {
		a.prepares = map[string]bool{}
	}
	a.prepares[name] = true
}

// tell sends a report for each task of a job that has not ended.
func (a *scriptedAgent) tell(job string, r *v1.Report) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, task := range a.tasks {
		if task.ref.GetJobId() == job && !task.ended {
			task.ended = r.GetEnded() != nil
			one := proto.CloneOf(r)
			one.Task = task.ref
			a.report(one)
		}
	}
}

func (a *scriptedAgent) transfer(job string, r *v1.TransferReport) {
	a.tell(job, &v1.Report{Body: &v1.Report_Transfer{Transfer: r}})
}

// heard returns the events that a tenant receives from now on.
func (c *cluster) heard(at, tenant string) <-chan *v1.Event {
	stream, err := v1.NewEventServiceClient(c.members[at].conn).WatchEvents(c.ctx(tenant, ""), &v1.WatchEventsRequest{Topics: []string{"job"}})
	require.NoError(c.t, err)
	_, err = stream.Header()
	require.NoError(c.t, err)
	events := make(chan *v1.Event, 1000)
	go func() {
		for {
			r, err := stream.Recv()
			if err != nil {
				close(events)
				return
			}
			for _, e := range r.GetEvents() {
				events <- e
			}
		}
	}()
	return events
}

// The tenant sees the progress of the transfer while the task is prepared, and no longer when it runs.
func TestCluster_transfersShowWhileATaskIsPrepared(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		agent := c.agent("n1", 8)
		agent.prepare("prepared")
		at := c.follower()
		req := trainingJob()
		req.Name, req.ResourceConfig.GpuCount = "prepared", 1
		sent, err := c.jobs(at).SubmitJob(c.ctx("t1", ""), req)
		require.NoError(t, err)
		id := sent.GetJobId()
		c.await(at, id, func(*v1.Job) bool { return agent.has(id) != nil })
		seen, evil := c.heard(at, "t1"), c.heard(at, "evil")
		agent.transfer(id, &v1.TransferReport{Path: "s3://b/train.jsonl", DoneBytes: 1 << 30, TotalBytes: 4 << 30, BytesPerSecond: 35 << 20})
		const want = "fetching s3://b/train.jsonl: 1.0 of 4.0 GiB, 35.0 MiB/s"
		job := c.await(at, id, func(j *v1.Job) bool { return j.GetReason() != "" })
		require.Equal(t, want+", node n1", job.GetReason())
		require.Equal(t, v1.JobStatus_PREPARING, job.GetStatus())
		why, err := c.jobs(at).ExplainJob(c.ctx("t1", ""), &v1.ExplainJobRequest{JobId: id})
		require.NoError(t, err)
		require.Equal(t, want+", node n1", why.GetReason())
		require.NotContains(t, why.GetDetails(), want+", node n1", "once is enough")
		for e := range seen {
			if e.GetTransfer() != "" {
				require.Equal(t, want, e.GetTransfer())
				break
			}
		}
		agent.transfer(id, &v1.TransferReport{})
		c.await(at, id, func(j *v1.Job) bool { return j.GetReason() == "" })
		agent.transfer(id, &v1.TransferReport{Path: "s3://b/2", DoneBytes: 1, TotalBytes: 2})
		c.await(at, id, func(j *v1.Job) bool { return j.GetReason() != "" })
		agent.tell(id, &v1.Report{Body: &v1.Report_Running{Running: &v1.TaskRunning{Pid: 1}}})
		job = c.await(at, id, func(j *v1.Job) bool { return j.GetState() == v1.JobState_RUNNING })
		require.Empty(t, job.GetReason())
		require.Empty(t, evil, "another tenant heard of it")
	})
}

// If one node cannot fetch data or a model, another one tries, if there is one. A job fails for missing data only after
// two nodes have reported it missing.
func TestCluster_dataThatOneNodeCannotFetchIsTriedOnAnother(t *testing.T) {
	for failure, want := range map[v1.ErrorType_Value]struct {
		attempts int32
		error    v1.ErrorType_Value
	}{
		v1.ErrorType_DATA_FETCH:      {2, v1.ErrorType_DATA_FETCH},
		v1.ErrorType_MODEL_NOT_FOUND: {2, v1.ErrorType_MODEL_NOT_FOUND},
	} {
		t.Run(failure.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := startCluster(t, 1, nil)
				nodes := map[string]*scriptedAgent{}
				for _, name := range []string{"n1", "n2", "n3"} {
					nodes[name] = c.agent(name, 8)
					nodes[name].prepare("fetches")
				}
				req := trainingJob()
				req.Name, req.ResourceConfig.GpuCount = "fetches", 1
				sent, err := c.jobs("c1").SubmitJob(c.ctx("t1", ""), req)
				require.NoError(t, err)
				id := sent.GetJobId()
				tried := map[string]bool{}
				for attempt := range want.attempts {
					job := c.await("c1", id, func(j *v1.Job) bool {
						return j.GetAttempt() == attempt+1 && len(j.GetNodes()) == 1 && nodes[j.GetNodes()[0]].has(id) != nil && j.GetStatus() == v1.JobStatus_PREPARING
					})
					node := job.GetNodes()[0]
					require.False(t, tried[node], "attempt %d went to %s again, with other nodes free", attempt+1, node)
					tried[node] = true
					nodes[node].tell(id, &v1.Report{Body: &v1.Report_Ended{Ended: &v1.TaskEnded{ErrorType: failure, ErrorMessage: "no route to the store"}}})
				}
				job := c.awaitStatus("c1", id, v1.JobStatus_FAILED)
				require.Equal(t, want.error, job.GetErrorType())
				require.Contains(t, job.GetErrorMessage(), "no route to the store")
				require.EqualValues(t, want.attempts-1, job.GetRetries().GetDataFetch())
			})
		})
	}
}
