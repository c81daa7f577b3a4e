package session

import (
	"slices"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
	"github.com/mindcoordinator/mind/fsm/work/checkpointverbs"
)

// Orders to agents about checkpoints, and the agents' reports.

// checkpointOrder identifies an order to the agent.
type checkpointOrder struct {
	id     ident.Checkpoint
	action v1.CheckpointAction_Value
}

// checkpointOrders returns the orders of a node, the most urgent first, and their identities.
func checkpointOrders(v *fsm.View, node string) ([]*v1.CheckpointOrder, []checkpointOrder) {
	var orders []*v1.CheckpointOrder
	var names []checkpointOrder
	for _, o := range v.CheckpointOrders(node) {
		order := &v1.CheckpointOrder{CheckpointId: o.ID.String(), Action: o.Action, ArchiveKey: o.Key}
		if c := o.Checkpoint; c != nil {
			order.TenantId, order.JobId, order.Path = c.Tenant, c.Job.String(), c.Path
			order.ManifestDigest, order.SizeBytes = c.Digest, c.SizeBytes
		}
		orders, names = append(orders, order), append(names, checkpointOrder{o.ID, o.Action})
	}
	return orders, names
}

// resumePoint returns a checkpoint as an agent needs it to resume.
func resumePoint(v *fsm.View, c *checkpoints.Checkpoint) *v1.ResumePoint {
	p := &v1.ResumePoint{
		Path: c.Path, ManifestDigest: c.Digest, NodeId: c.Node, Step: c.Step, CheckpointId: c.ID.String(), SizeBytes: c.SizeBytes,
		Rank: int32(c.Rank), Attempt: int32(c.Attempt),
	}
	if c.Durable() {
		p.ArchiveKey, p.ContentDigest = c.ArchiveKey(), c.ContentDigest
	}
	if n, ok := v.Node(c.Node); ok && n.LostSince == 0 {
		p.NodeAddr = n.GRPCAddr
	}
	return p
}

// resumePoints returns the checkpoints from which a task may resume, best first. For each step among them they include
// the checkpoint of the task's own rank, because ranks may save their own parts. Checkpoints of the current attempt are
// not included: its ranks may get their orders at different times, and must all get the same list.
func resumePoints(v *fsm.View, j *work.Job, lease *work.Lease) []*v1.ResumePoint {
	var points []*v1.ResumePoint
	type step struct {
		attempt uint32
		number  int64
	}
	listed, steps := map[ident.Checkpoint]bool{}, map[step]bool{}
	for _, c := range v.ResumePoints(j) {
		if c.Job == j.ID && c.Attempt >= lease.Attempt {
			continue
		}
		points = append(points, resumePoint(v, c))
		listed[c.ID] = true
		if c.Job == j.ID && c.Step > 0 {
			steps[step{c.Attempt, c.Step}] = true
		}
	}
	if len(j.Tasks) == 1 || len(points) == 0 {
		return points
	}
	for c := range v.CheckpointsOf(j.ID) {
		if c.Rank == lease.Rank && steps[step{c.Attempt, c.Step}] && !listed[c.ID] && c.Digest != "" && c.Resumable() {
			points = append(points, resumePoint(v, c))
		}
	}
	return points
}

// CheckpointReports returns the command for the reports of a batch that are about checkpoints.
func CheckpointReports(node string, batch []*v1.Report) checkpointverbs.ReportCheckpoints {
	command := checkpointverbs.ReportCheckpoints{Node: node}
	for _, r := range batch {
		if report, ok := checkpointReportOf(r); ok {
			command.Reports = append(command.Reports, report)
		}
	}
	return command
}

// checkpointReportOf converts a report about a checkpoint; ok is false for other reports.
func checkpointReportOf(r *v1.Report) (out checkpointverbs.Report, ok bool) {
	id := ""
	switch body := r.GetBody().(type) {
	case *v1.Report_CheckpointUpload:
		u := body.CheckpointUpload
		id, out.Kind, out.Bytes, out.Gone = u.GetCheckpointId(), checkpointverbs.ReportUpload, u.GetDoneBytes(), u.GetGone()
		out.Error = reason.Text(call.Clip(u.GetError(), maxErrorMessage))
	case *v1.Report_CheckpointStored:
		s := body.CheckpointStored
		id, out.Kind, out.Bytes = s.GetCheckpointId(), checkpointverbs.ReportStored, s.GetStoredBytes()
		out.Key, out.Digest = s.GetArchiveKey(), s.GetContentDigest()
	case *v1.Report_CheckpointRemoved:
		id = body.CheckpointRemoved.GetCheckpointId()
		switch body.CheckpointRemoved.GetAction() {
		case v1.CheckpointAction_REMOVE_FILES:
			out.Kind = checkpointverbs.ReportFilesRemoved
		case v1.CheckpointAction_REMOVE_ARCHIVED:
			out.Kind = checkpointverbs.ReportArchivedRemoved
		default:
			return out, false
		}
	default:
		return out, false
	}
	out.ID, ok = ident.ParseCheckpoint(id)
	return out, ok
}

const (
	// progressPause is the least time between two reports of an upload's progress in the log.
	progressPause = 3 * time.Second
	// maxPaced bounds the uploads that a session paces. Further ones are written without pauses.
	maxPaced = 1024
)

// pace drops reports of an upload's progress that follow each other closely, to spare the log.
type pace struct {
	last map[ident.Checkpoint]paced
}

type paced struct {
	at    time.Time
	error reason.Reason
}

// thin removes the reports that need not be written now.
func (p *pace) thin(reports []checkpointverbs.Report, now time.Time) []checkpointverbs.Report {
	return slices.DeleteFunc(reports, func(r checkpointverbs.Report) bool {
		if r.Kind != checkpointverbs.ReportUpload || r.Gone {
			delete(p.last, r.ID)
			return false
		}
		before, known := p.last[r.ID]
		if known && before.error == r.Error && now.Sub(before.at) < progressPause {
			return true
		}
		if p.last == nil || len(p.last) >= maxPaced {
			p.last = map[ident.Checkpoint]paced{}
		}
		p.last[r.ID] = paced{now, r.Error}
		return false
	})
}
