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

// What agents do with checkpoints: their orders, and what they report of them.

// checkpointOrder is what identifies an order to the agent.
type checkpointOrder struct {
	id     ident.Checkpoint
	action v1.CheckpointAction_Value
}

// checkpointOrders are those of a node, the most urgent first, and what identifies them.
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

// resumePoint is a checkpoint as an agent goes on from it.
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

// resumePoints are the checkpoints from which a task may go on, best first. What the same rank has saved of a step that is
// among them is among them too: where each rank saves its own part, the newest ones may be those of other ranks. What the
// attempt itself has saved is not: its ranks, which may get their orders at different times, must all get the same list.
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

// CheckpointReports is how the state takes what a batch says of checkpoints.
func CheckpointReports(node string, batch []*v1.Report) checkpointverbs.ReportCheckpoints {
	command := checkpointverbs.ReportCheckpoints{Node: node}
	for _, r := range batch {
		if report, ok := checkpointReportOf(r); ok {
			command.Reports = append(command.Reports, report)
		}
	}
	return command
}

// checkpointReportOf is false for a report that is about something else.
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
	// progressPause is how long after one report of an upload's progress the next is written into the log.
	progressPause = 3 * time.Second
	// maxPaced bounds what a session remembers of uploads; beyond it, progress is written as it comes.
	maxPaced = 1024
)

// pace leaves out reports of the progress of uploads that follow each other closely: the log is not for them.
type pace struct {
	last map[ident.Checkpoint]paced
}

type paced struct {
	at    time.Time
	error reason.Reason
}

// thin takes out what need not be written now.
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
