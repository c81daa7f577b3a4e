package jobview

import (
	"fmt"
	"math/bits"

	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/jobspec"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Of returns a job as users see it. With position it computes the job's place in the queue, which a list of many jobs
// should not do for each.
func Of(v *fsm.View, j *work.Job, position bool) *v1.Job {
	out := &v1.Job{
		JobId:        j.ID.String(),
		Name:         j.Name,
		TenantId:     j.Tenant,
		UserId:       j.User,
		Status:       Status(v, j),
		State:        j.State,
		Phase:        Phase(j),
		Priority:     int32(j.Priority),
		Queue:        j.Queue,
		Labels:       j.Labels,
		Attempt:      int32(j.Attempt),
		MaxRetries:   int32(j.Retry.Max),
		ExitCode:     j.ExitCode,
		ErrorType:    j.ErrorType,
		ErrorMessage: words.Of(j.ErrorMessage),
		Reason:       Reason(v, j),
		CreatedAt:    call.Time(j.CreatedAt),
		StartedAt:    call.Time(j.StartedAt),
		FinishedAt:   call.Time(j.FinishedAt),
		UpdatedAt:    call.Time(j.UpdatedAt),
		Revision:     j.Revision,
		Stopping:     j.Stop,
		Retries: &v1.RetryCounts{
			NodeLost: int32(j.Retries.NodeLost), GpuFault: int32(j.Retries.GPUFault), LaunchFailed: int32(j.Retries.LaunchFailed),
			DataFetch: int32(j.Retries.DataFetch), Exit: int32(j.Retries.Exit), Preempted: int32(j.Retries.Preempted), Drained: int32(j.Retries.Drained),
		},
	}
	// If the request can no longer be read, the rest is still correct.
	if spec, err := jobspec.Decode(j); err == nil {
		out.TrainingConfig, out.DataConfig, out.ResourceConfig = spec.TrainingConfig, spec.DataConfig, spec.ResourceConfig
		out.OutputConfig, out.SchedulingConfig, out.CommandConfig = spec.OutputConfig, spec.SchedulingConfig, spec.CommandConfig
		out.EvaluationConfig = spec.EvaluationConfig
	}
	out.RequestDropped = j.SpecDropped
	if n := j.Notices; n != nil {
		out.NotifyConfig, out.NotifiedAt, out.NotifyError = noticesView(n), call.Time(n.ToldAt), n.Err
	}
	if j.Progress != (work.Progress{}) {
		out.Progress = &v1.JobProgress{Step: j.Progress.Step, TotalSteps: j.Progress.Total}
	}
	if j.LastCheckpoint != 0 {
		out.LastCheckpointId = j.LastCheckpoint.String()
	}
	out.Held = j.HeldBack()
	if position && j.Waiting() {
		out.QueuePosition = proto.Int32(int32(v.Ahead(j)) + 1)
	}
	if p, promised := v.PromiseOf(j.ID); promised {
		out.ReservedStartAt, out.ReservedNodes = call.Time(p.StartAt), p.Nodes()
	}
	out.PastAttempts = pastAttempts(j)
	out.Array = arrayView(j)
	for i := range j.Tasks {
		t := taskView(v, &j.Tasks[i])
		out.Tasks = append(out.Tasks, t)
		out.Nodes = append(out.Nodes, t.NodeId)
		out.Gpus = append(out.Gpus, t.Gpus...)
	}
	return out
}

func taskView(v *fsm.View, t *work.Task) *v1.Task {
	return &v1.Task{
		Rank:       int32(t.Rank),
		NodeId:     t.Node,
		Gpus:       gpuUUIDs(v, t.Node, t.GPUs),
		State:      t.State,
		ExitCode:   t.ExitCode,
		StartedAt:  call.Time(t.StartedAt),
		FinishedAt: call.Time(t.EndedAt),
	}
}

// gpuUUIDs returns the UUIDs of a set of GPUs. A GPU that the node no longer reports keeps its index.
func gpuUUIDs(v *fsm.View, node string, set uint64) []string {
	n, ok := v.Node(node)
	if set == 0 || !ok {
		return nil
	}
	names := make(map[int]string, len(n.GPUs))
	for _, g := range n.GPUs {
		names[int(g.Index)] = g.UUID
	}
	var out []string
	for ; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		name, ok := names[i]
		if !ok {
			name = fmt.Sprintf("index %d", i)
		}
		out = append(out, name)
	}
	return out
}

func pastAttempts(j *work.Job) []*v1.PastAttempt {
	var out []*v1.PastAttempt
	for i := range j.Past {
		p := &j.Past[i]
		// The start is the time of the report in the log, the end is by the node's clock.
		started := p.StartedAt
		if p.EndedAt != 0 {
			started = min(started, p.EndedAt)
		}
		out = append(out, &v1.PastAttempt{
			Attempt: int32(p.Attempt), Nodes: p.Nodes, ExitCode: p.ExitCode, ErrorType: p.ErrorType, Reason: words.Of(p.Reason),
			StartedAt: call.Time(started), FinishedAt: call.Time(p.EndedAt), FailedNode: p.FailedNode,
		})
	}
	return out
}
