package session

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/results"
)

// Conversion of agents' messages into values of the state.

// Registration returns the command that registers a node which says hello.
func Registration(hello *v1.Hello) nodeverbs.RegisterNode {
	return nodeverbs.RegisterNode{Node: nodeOf(hello), Tasks: taskRefs(hello.GetTasks())}
}

// Reports returns the command for a batch of reports, and the number of the newest. A report that names no job can
// change nothing: it is left out, and is acknowledged all the same, so that the agent does not send it for ever.
func Reports(node string, batch []*v1.Report) (command jobverbs.ReportTasks, last uint64) {
	command.Node = node
	for _, r := range batch {
		last = max(last, r.GetSeq())
		if report, ok := reportOf(r); ok {
			command.Reports = append(command.Reports, report)
		}
	}
	return command, last
}

func nodeOf(h *v1.Hello) work.Node {
	return work.Node{
		ID: h.GetNodeId(), Hostname: h.GetHostname(), BootID: h.GetBootId(), AgentVersion: h.GetAgentVersion(),
		GRPCAddr: h.GetGrpcAddr(), HTTPAddr: h.GetHttpAddr(), GPUs: gpusOf(h.GetGpus()), Unfit: unfitOf(h.GetUnfit()),
		CPUs: uint32(max(0, h.GetCpuCount())), MemMB: uint32(max(0, h.GetMemoryMb())), Labels: h.GetLabels(),
		Incarnation: h.GetIncarnation(), RosterAcked: h.GetRosterVersion(),
		Archive: h.GetArchivesCheckpoints(),
	}
}

// taskRefs drops invalid references.
func taskRefs(refs []*v1.TaskRef) []work.TaskRef {
	var out []work.TaskRef
	for _, r := range refs {
		if id, ok := ident.ParseJob(r.GetJobId()); ok && r.GetAttempt() >= 0 && r.GetRank() >= 0 && r.GetRank() <= 0xffff {
			out = append(out, work.TaskRef{Job: id, Attempt: uint32(r.GetAttempt()), Rank: uint16(r.GetRank()), Token: r.GetToken()})
		}
	}
	return out
}

func gpusOf(gpus []*v1.Gpu) []work.GPU {
	out := make([]work.GPU, len(gpus))
	for i, g := range gpus {
		out[i] = work.GPU{
			UUID: g.GetUuid(), Index: uint8(max(0, min(255, g.GetIndex()))), Model: g.GetModel(), Type: g.GetGpuType(),
			MemMB: uint32(max(0, g.GetMemoryMb())), PCI: g.GetPciBusId(), NUMA: int8(max(-1, min(127, g.GetNumaNode()))),
			Health: g.GetHealth(), HealthReason: reason.Text(g.GetHealthReason()), Simulated: g.GetSimulated(),
			MIG: g.GetMigProfile(), Instance: g.GetMigInstance(),
		}
		if out[i].Health == v1.GpuHealth_UNSPECIFIED {
			out[i].Health = v1.GpuHealth_HEALTHY
		}
		for _, peer := range g.GetNvlinkPeers() {
			if peer >= 0 && peer < work.MaxGPUs {
				out[i].NVLink |= 1 << peer
			}
		}
	}
	return out
}

// sameNode reports whether the state has the node exactly as the node describes itself now, as far as the level knows it.
func sameNode(row, n *work.Node, at level.Level) bool {
	if row.Hostname != n.Hostname || row.BootID != n.BootID || row.AgentVersion != n.AgentVersion || row.GRPCAddr != n.GRPCAddr ||
		row.HTTPAddr != n.HTTPAddr || row.CPUs != n.CPUs || row.Archive != n.Archive || row.MemMB != n.MemMB || !maps.Equal(row.Labels, n.Labels) {
		return false
	}
	// A GPU that vanished stays in the row, but not in the agent's inventory.
	present := slices.DeleteFunc(slices.Clone(row.GPUs), func(g work.GPU) bool { return g.Health == v1.GpuHealth_VANISHED })
	return slices.Equal(present, nodeverbs.Known(n.GPUs, at))
}

// reportOf converts a report; ok is false for a report without a task.
func reportOf(r *v1.Report) (jobverbs.TaskReport, bool) {
	ref := r.GetTask()
	id, ok := ident.ParseJob(ref.GetJobId())
	if !ok || ref.GetAttempt() < 0 || ref.GetRank() < 0 || ref.GetRank() > 0xffff {
		return jobverbs.TaskReport{}, false
	}
	out := jobverbs.TaskReport{Job: id, Attempt: uint32(ref.GetAttempt()), Rank: uint16(ref.GetRank()), Token: ref.GetToken()}
	if r.GetTime().IsValid() {
		out.Time = r.GetTime().AsTime().UnixNano()
	}
	switch body := r.GetBody().(type) {
	case *v1.Report_Starting:
		out.Kind = jobverbs.ReportStarting
	case *v1.Report_Running:
		out.Kind = jobverbs.ReportRunning
	case *v1.Report_Ended:
		out.Kind, out.ExitCode = jobverbs.ReportEnded, body.Ended.ExitCode
		out.ErrorType, out.ErrorMessage = body.Ended.GetErrorType(), reason.Text(call.Clip(body.Ended.GetErrorMessage(), maxErrorMessage))
	case *v1.Report_Phase:
		out.Kind, out.Phase = jobverbs.ReportPhase, body.Phase.GetPhase()
	case *v1.Report_Progress:
		out.Kind, out.Step, out.Total = jobverbs.ReportProgress, body.Progress.GetStep(), body.Progress.GetTotalSteps()
	case *v1.Report_Checkpoint:
		c := body.Checkpoint
		out.Kind, out.Step, out.Path, out.Digest = jobverbs.ReportCheckpoint, c.GetStep(), c.GetPath(), c.GetManifestDigest()
		out.SizeBytes, out.Metrics = c.GetSizeBytes(), call.Clip(c.GetMetricsJson(), maxMetrics)
		out.Model = c.GetKind() == v1.CheckpointKind_MODEL
	case *v1.Report_Evaluation:
		out.Kind = jobverbs.ReportEvaluation
		resultOfBenchmark(&out, body.Evaluation)
	case *v1.Report_Gate:
		out.Kind, out.Gate = jobverbs.ReportGate, gateOf(body.Gate)
	case *v1.Report_Transfer:
		out.Kind, out.Transfer = jobverbs.ReportTransfer, transferText(body.Transfer)
	default:
		return out, false
	}
	return out, true
}

// resultOfBenchmark converts the result of a benchmark. It is stored permanently and shown to users, so it must be an
// object of numbers; otherwise it is stored as a failure.
func resultOfBenchmark(out *jobverbs.TaskReport, e *v1.EvaluationReport) {
	out.Benchmark, out.Samples, out.ErrorMessage = e.GetBenchmark(), int64(max(0, e.GetNumSamples())), reason.Text(call.Clip(e.GetError(), maxErrorMessage))
	if !status.ValidBenchmark(out.Benchmark, results.MaxBenchmarkName) {
		out.Benchmark = "" // The state refuses it.
	}
	if e.GetMetricsJson() == "" {
		return
	}
	var figures map[string]*float64
	if err := json.Unmarshal([]byte(e.GetMetricsJson()), &figures); err != nil || len(e.GetMetricsJson()) > maxMetrics ||
		slices.Contains(slices.Collect(maps.Values(figures)), nil) {
		out.ErrorMessage = cmp.Or(out.ErrorMessage, reason.New(reason.BadFigures, maxMetrics))
		return
	}
	out.Metrics = e.GetMetricsJson()
}

// Limits of a report.
const (
	maxErrorMessage = 1024
	maxMetrics      = 16 << 10
)

// maxUnfit limits the reason why a node cannot start tasks.
const maxUnfit = 1024

// unfitOf returns the reason why a node cannot start tasks, in the words of its agent.
func unfitOf(why string) reason.Reason {
	return reason.Text(strings.ToValidUTF8(why[:min(len(why), maxUnfit)], ""))
}
