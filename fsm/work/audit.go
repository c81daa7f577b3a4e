package work

import "github.com/mindcoordinator/mind/fsm/access"

// What the audit log calls the commands of this package.
var (
	AuditJobSubmit        = access.DefineAction(1, "job.submit", access.AboutJobs)
	AuditJobCancel        = access.DefineAction(2, "job.cancel", access.AboutJobs)
	AuditJobPause         = access.DefineAction(3, "job.pause", access.AboutJobs)
	AuditJobResume        = access.DefineAction(4, "job.resume", access.AboutJobs)
	AuditJobRetry         = access.DefineAction(5, "job.retry", access.AboutJobs)
	AuditCheckpointDelete = access.DefineAction(6, "checkpoint.delete", access.AboutJobs)
	AuditNodeDrain        = access.DefineAction(7, "node.drain", access.AboutOperation)
	AuditNodeEnable       = access.DefineAction(8, "node.enable", access.AboutOperation)
	AuditNodeForget       = access.DefineAction(9, "node.forget", access.AboutOperation)
	AuditQueuePut         = access.DefineAction(10, "queue.put", access.AboutOperation)
	AuditQueueDelete      = access.DefineAction(11, "queue.delete", access.AboutOperation)
	AuditQuotaPut         = access.DefineAction(14, "quota.put", access.AboutOperation)
	AuditQuotaDelete      = access.DefineAction(15, "quota.delete", access.AboutOperation)
	AuditClusterRecover   = access.DefineAction(21, "cluster.recover", access.AboutOperation)
	AuditSnapshotSave     = access.DefineAction(22, "snapshot.save", access.AboutOperation)
	AuditCheckpointPin    = access.DefineAction(24, "checkpoint.pin", access.AboutJobs)
	AuditCheckpointUnpin  = access.DefineAction(25, "checkpoint.unpin", access.AboutJobs)
	AuditPolicyPut        = access.DefineAction(26, "policy.put", access.AboutOperation)
)
