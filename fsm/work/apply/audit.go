package apply

import (
	"strings"

	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
)

var (
	auditOfControl = map[work.Action]access.AuditAction{
		work.ActionCancel: work.AuditJobCancel, work.ActionPause: work.AuditJobPause, work.ActionResume: work.AuditJobResume, work.ActionRetry: work.AuditJobRetry,
	}
	auditOfNode = map[work.NodeAction]access.AuditAction{work.NodeDrain: work.AuditNodeDrain, work.NodeEnable: work.AuditNodeEnable, work.NodeForget: work.AuditNodeForget}
)

func auditSubmitJobs(tx *kernel.Tx, c *work.SubmitJobs, result any) {
	if c.Actor == nil {
		return
	}
	results := result.(work.SubmitJobsResult).Results
	for i := range results {
		if results[i].Duplicate {
			continue // The first one did it, and is recorded.
		}
		n := &c.Jobs[i]
		r := access.AuditRecord{Tenant: n.Tenant, User: n.User, Action: work.AuditJobSubmit, Job: results[i].Job}
		if results[i].Refusal != nil {
			r.Object = n.Name
		}
		as := c.Actor
		if n.Request != "" {
			own := *c.Actor
			own.Request = n.Request
			as = &own
		}
		access.Record(tx, as, r, results[i].Refusal)
	}
}

func auditControlJob(tx *kernel.Tx, c *work.ControlJob, result any) {
	res := result.(work.ControlResult)
	if action, ok := auditOfControl[c.Action]; ok && !res.Duplicate {
		message := reason.Text(c.Reason)
		if c.Vouch {
			message = reason.New(reason.Vouched, message)
		}
		access.Record(tx, c.Actor, access.AuditRecord{Action: action, Job: c.Job, Message: message}, res.Refusal)
	}
}

func auditDeleteCheckpoint(tx *kernel.Tx, c *checkpoints.Delete, result any) {
	access.Record(tx, c.Actor, access.AuditRecord{Action: work.AuditCheckpointDelete, Object: c.ID.String()}, result.(checkpoints.Result).Refusal)
}

func auditPinCheckpoint(tx *kernel.Tx, c *checkpoints.Pin, result any) {
	action := work.AuditCheckpointPin
	if c.Off {
		action = work.AuditCheckpointUnpin
	}
	access.Record(tx, c.Actor, access.AuditRecord{Action: action, Object: c.ID.String()}, result.(checkpoints.Result).Refusal)
}

func auditSetNode(tx *kernel.Tx, c *work.SetNode, result any) {
	action, ok := auditOfNode[c.Action]
	if !ok {
		return
	}
	message := c.Reason
	if c.Deadline > 0 {
		message = reason.New(reason.WithDeadline, c.Deadline, message)
	}
	if c.Force {
		message = reason.New(reason.Forced, message)
	}
	access.Record(tx, c.Actor, access.AuditRecord{Action: action, Object: c.ID, Message: message}, result.(work.NodeResult).Refusal)
}

func auditPutQueue(tx *kernel.Tx, c *work.PutQueue, result any) {
	access.Record(tx, c.Actor, access.AuditRecord{Action: work.AuditQueuePut, Object: c.Queue.Name, Message: c.Queue.Said()}, result.(work.QueueResult).Refusal)
}

func auditDeleteQueue(tx *kernel.Tx, c *work.DeleteQueue, result any) {
	access.Record(tx, c.Actor, access.AuditRecord{Action: work.AuditQueueDelete, Object: c.Name}, result.(work.QueueResult).Refusal)
}

func auditPutPolicy(tx *kernel.Tx, c *work.PutPolicy, result any) {
	res := result.(work.PolicyResult)
	access.Record(tx, c.Actor, access.AuditRecord{Action: work.AuditPolicyPut, Message: reason.New(reason.PolicySetTo, res.Changed)}, res.Refusal)
}

func auditPutQuota(tx *kernel.Tx, c *work.PutQuota, result any) {
	q := work.Quota{MaxGPUs: c.MaxGPUs, MaxRunning: c.MaxRunning, MaxJobs: c.MaxJobs, MaxByType: c.MaxByType, MaxGPUHours: c.MaxGPUHours}
	access.Record(tx, c.Actor, access.AuditRecord{Action: work.AuditQuotaPut, Object: c.Tenant, Message: q.Said()}, result.(work.QuotaResult).Refusal)
}

func auditDeleteQuota(tx *kernel.Tx, c *work.DeleteQuota, result any) {
	access.Record(tx, c.Actor, access.AuditRecord{Action: work.AuditQuotaDelete, Object: c.Tenant}, result.(work.QuotaResult).Refusal)
}

func auditRecover(tx *kernel.Tx, c *work.Recover, result any) {
	access.Record(tx, c.Actor, access.AuditRecord{Action: work.AuditClusterRecover, Object: strings.Join(c.Voters, ","), Message: reason.Text(c.From)}, nil)
}

func auditNoteSnapshot(tx *kernel.Tx, c *work.NoteSnapshot, _ any) {
	access.Record(tx, c.Actor, access.AuditRecord{Action: work.AuditSnapshotSave, Object: c.By}, nil)
}
