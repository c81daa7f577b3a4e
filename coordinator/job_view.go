package coordinator

import (
	"fmt"
	"math/bits"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/fsm"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// jobView is a job as users see it. position says whether its place in the queue is worth counting: that walks the queue,
// which a list of a hundred jobs should not do a hundred times.
func jobView(v *fsm.View, j *fsm.Job, position bool) *v1.Job {
	out := &v1.Job{
		JobId:        j.ID.String(),
		Name:         j.Name,
		TenantId:     j.Tenant,
		UserId:       j.User,
		Status:       statusOf(v, j),
		State:        j.State,
		Phase:        phaseOf(j),
		Priority:     int32(j.Priority),
		Queue:        j.Queue,
		Labels:       j.Labels,
		Attempt:      int32(j.Attempt),
		MaxRetries:   int32(j.Retry.Max),
		ExitCode:     j.ExitCode,
		ErrorType:    j.ErrorType,
		ErrorMessage: j.ErrorMessage,
		Reason:       reasonOf(v, j),
		CreatedAt:    timestamp(j.CreatedAt),
		StartedAt:    timestamp(j.StartedAt),
		FinishedAt:   timestamp(j.FinishedAt),
		UpdatedAt:    timestamp(j.UpdatedAt),
		Revision:     j.Revision,
		Stopping:     j.Stop,
		Retries: &v1.RetryCounts{
			NodeLost: int32(j.Retries.NodeLost), GpuFault: int32(j.Retries.GPUFault), LaunchFailed: int32(j.Retries.LaunchFailed),
			DataFetch: int32(j.Retries.DataFetch), Exit: int32(j.Retries.Exit), Preempted: int32(j.Retries.Preempted), Drained: int32(j.Retries.Drained),
		},
	}
	// What was accepted was marshalled by this package; if it cannot be read any more, the rest is still true.
	var spec v1.SubmitJobRequest
	if err := proto.Unmarshal(j.Spec, &spec); err == nil {
		out.TrainingConfig, out.DataConfig, out.ResourceConfig = spec.TrainingConfig, spec.DataConfig, spec.ResourceConfig
		out.OutputConfig, out.SchedulingConfig, out.CommandConfig = spec.OutputConfig, spec.SchedulingConfig, spec.CommandConfig
		out.EvaluationConfig = spec.EvaluationConfig
	}
	if j.Progress != (fsm.Progress{}) {
		out.Progress = &v1.JobProgress{Step: j.Progress.Step, TotalSteps: j.Progress.Total}
	}
	if j.LastCheckpoint != 0 {
		out.LastCheckpointId = j.LastCheckpoint.String()
	}
	out.Held = j.HeldBack()
	if position && j.Waiting() {
		out.QueuePosition = proto.Int32(int32(v.Ahead(j)) + 1)
	}
	out.PastAttempts = pastAttempts(j)
	for i := range j.Tasks {
		t := taskView(v, &j.Tasks[i])
		out.Tasks = append(out.Tasks, t)
		out.Nodes = append(out.Nodes, t.NodeId)
		out.Gpus = append(out.Gpus, t.Gpus...)
	}
	return out
}

func statusOf(v *fsm.View, j *fsm.Job) v1.JobStatus_Value {
	return status.Of(j.State, phaseOf(j), considered(v, j))
}

// considered says whether a scheduler pass has looked at the job.
func considered(v *fsm.View, j *fsm.Job) bool {
	return j.Attempt > 0 || j.Created <= v.Considered()
}

// reasonOf is a sentence on why the job is where it is.
func reasonOf(v *fsm.View, j *fsm.Job) string {
	silent := silentReason(v, j)
	switch {
	case j.Stop != v1.StopReason_UNSPECIFIED:
		return "being stopped (" + j.Stop.String() + ")" + suffix(j.Reason) + suffix(silent)
	case silent != "":
		return silent
	case j.Live() && j.Reason == "":
		return transferReason(j)
	case j.HeldBack():
		return heldReason(v, j)
	case j.State != v1.JobState_QUEUED:
		return j.Reason
	case !considered(v, j):
		return "not yet considered by the scheduler"
	}
	why := j.Reason
	if said := v.ClassReason(v.ClassOf(j)); said != "" {
		why = said
	}
	if awaits := awaitReason(v, j); awaits != "" {
		why += suffix(awaits)
	}
	return why
}

// heldReason says until when a job is held back, and why.
func heldReason(v *fsm.View, j *fsm.Job) string {
	if j.Held&fsm.HoldRecovery != 0 {
		return recoveryReason(v, j)
	}
	var until []string
	if j.Held&fsm.HoldNotBefore != 0 {
		until = append(until, clock(j.NotBefore)+" (not_before)")
	}
	if j.Held&fsm.HoldDependency != 0 {
		until = append(until, "the jobs that it depends on have ended")
	}
	if j.Held&fsm.HoldBackoff != 0 {
		until = append(until, clock(j.Streak.After)+" (a pause before its next restart)")
	}
	why := "held until " + strings.Join(until, ", and until ")
	if j.Held == fsm.HoldBackoff {
		why += "; it " + j.Reason
	}
	return why
}

func suffix(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

func taskView(v *fsm.View, t *fsm.Task) *v1.Task {
	return &v1.Task{
		Rank:       int32(t.Rank),
		NodeId:     t.Node,
		Gpus:       gpuUUIDs(v, t.Node, t.GPUs),
		State:      t.State,
		ExitCode:   t.ExitCode,
		StartedAt:  timestamp(t.StartedAt),
		FinishedAt: timestamp(t.EndedAt),
	}
}

// gpuUUIDs names the GPUs of a set of indices; a GPU that the node does not report any more keeps its index.
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

func timestamp(unixNanos int64) *timestamppb.Timestamp {
	if unixNanos == 0 {
		return nil
	}
	return timestamppb.New(time.Unix(0, unixNanos))
}

func checkpointView(c *fsm.Checkpoint) *v1.Checkpoint {
	out := &v1.Checkpoint{
		CheckpointId:   c.ID.String(),
		JobId:          c.Job.String(),
		Attempt:        int32(c.Attempt),
		Step:           c.Step,
		Path:           c.Path,
		NodeId:         c.Node,
		ManifestDigest: c.Digest,
		SizeBytes:      c.SizeBytes,
		CreatedAt:      timestamp(c.CreatedAt),
	}
	out.Metrics = metricsStruct(c.Metrics)
	return out
}
