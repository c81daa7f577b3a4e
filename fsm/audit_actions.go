package fsm

import "strings"

// Actor is on whose behalf a command was proposed. A command without one is the cluster's own doing, and is not audited.
type Actor struct {
	Tenant string `cbor:"1,keyasint,omitempty"`
	User   string `cbor:"2,keyasint,omitempty"`
	// Token is the API token that he came with; 0: he came another way.
	Token TokenID `cbor:"3,keyasint,omitempty"`
	// Request is the id of the request, as the gateway's log has it.
	Request string `cbor:"4,keyasint,omitempty"`
}

// AuditAction is what somebody did.
type AuditAction uint8

// The actions. Append only: they are in logs and snapshots.
const (
	AuditJobSubmit AuditAction = iota + 1
	AuditJobCancel
	AuditJobPause
	AuditJobResume
	AuditJobRetry
	AuditCheckpointDelete
	AuditNodeDrain
	AuditNodeEnable
	AuditNodeForget
	AuditQueuePut
	AuditQueueDelete
	AuditTokenCreate
	AuditTokenRevoke
	AuditQuotaPut
	AuditQuotaDelete
	AuditCoordinatorJoin
	AuditCoordinatorRemove
	AuditLauncherPut
	AuditLauncherDelete
	// AuditAccessDeny are calls that came to nothing before they reached the state; one record stands for many.
	AuditAccessDeny
	AuditClusterRecover
	AuditSnapshotSave
)

var auditActions = [...]string{
	AuditJobSubmit: "job.submit", AuditJobCancel: "job.cancel", AuditJobPause: "job.pause", AuditJobResume: "job.resume",
	AuditJobRetry: "job.retry", AuditCheckpointDelete: "checkpoint.delete",
	AuditNodeDrain: "node.drain", AuditNodeEnable: "node.enable", AuditNodeForget: "node.forget",
	AuditQueuePut: "queue.put", AuditQueueDelete: "queue.delete", AuditTokenCreate: "token.create", AuditTokenRevoke: "token.revoke",
	AuditQuotaPut: "quota.put", AuditQuotaDelete: "quota.delete",
	AuditCoordinatorJoin: "coordinator.join", AuditCoordinatorRemove: "coordinator.remove",
	AuditLauncherPut: "launcher.put", AuditLauncherDelete: "launcher.delete",
	AuditAccessDeny: "access.deny", AuditClusterRecover: "cluster.recover", AuditSnapshotSave: "snapshot.save",
}

// String is the action as users see it: what it is about, a dot, and what was done.
func (a AuditAction) String() string {
	if int(a) < len(auditActions) && auditActions[a] != "" {
		return auditActions[a]
	}
	return "unknown"
}

// AuditActions lists the actions in words.
func AuditActions() []string { return append([]string(nil), auditActions[1:]...) }

// ParseAuditActions reads an action, or the name of what some actions are about; nil: there is no such.
func ParseAuditActions(text string) []AuditAction {
	var found []AuditAction
	for a, name := range auditActions {
		about, _, _ := strings.Cut(name, ".")
		if name != "" && (text == name || text == about) {
			found = append(found, AuditAction(a))
		}
	}
	return found
}

// kind says in which log an action is kept: what every user does all day is in one of its own, and so is what strangers do.
func (a AuditAction) kind() auditKind {
	switch {
	case a >= AuditJobSubmit && a <= AuditCheckpointDelete:
		return auditJobs
	case a == AuditAccessDeny:
		return auditDenials
	}
	return auditOthers
}

var (
	auditOfControl = map[Action]AuditAction{
		ActionCancel: AuditJobCancel, ActionPause: AuditJobPause, ActionResume: AuditJobResume, ActionRetry: AuditJobRetry,
	}
	auditOfNode = map[NodeAction]AuditAction{NodeDrain: AuditNodeDrain, NodeEnable: AuditNodeEnable, NodeForget: AuditNodeForget}
)

// audited is a command that somebody may answer for.
type audited interface {
	// actor is who; nil: nobody.
	actor() *Actor
	// audit records what came of it.
	audit(tx *tx, who *Actor, result any)
}

func (c SubmitJobs) actor() *Actor { return c.Actor }

func (c SubmitJobs) audit(tx *tx, who *Actor, result any) {
	results := result.(SubmitJobsResult).Results
	for i := range results {
		if results[i].Duplicate {
			continue // The first one did it, and is recorded.
		}
		n := &c.Jobs[i]
		r := AuditRecord{Tenant: n.Tenant, User: n.User, Action: AuditJobSubmit, Job: results[i].Job}
		if results[i].Refusal != nil {
			r.Object = n.Name
		}
		as := who
		if n.Request != "" {
			own := *who
			own.Request = n.Request
			as = &own
		}
		tx.record(as, r, results[i].Refusal)
	}
}

func (c ControlJob) actor() *Actor { return c.Actor }

func (c ControlJob) audit(tx *tx, who *Actor, result any) {
	res := result.(ControlResult)
	if action, ok := auditOfControl[c.Action]; ok && !res.Duplicate {
		message := c.Reason
		if c.Vouch {
			message = strings.TrimSpace("vouched for " + message)
		}
		tx.record(who, AuditRecord{Action: action, Job: c.Job, Message: message}, res.Refusal)
	}
}

func (c DeleteCheckpoint) actor() *Actor { return c.Actor }

func (c DeleteCheckpoint) audit(tx *tx, who *Actor, result any) {
	tx.record(who, AuditRecord{Action: AuditCheckpointDelete, Object: c.ID.String()}, result.(CheckpointResult).Refusal)
}

func (c SetNode) actor() *Actor { return c.Actor }

func (c SetNode) audit(tx *tx, who *Actor, result any) {
	action, ok := auditOfNode[c.Action]
	if !ok {
		return
	}
	message := c.Reason
	if c.Force {
		message = strings.TrimSpace("force " + message)
	}
	tx.record(who, AuditRecord{Action: action, Object: c.ID, Message: message}, result.(NodeResult).Refusal)
}

func (c PutQueue) actor() *Actor { return c.Actor }

func (c PutQueue) audit(tx *tx, who *Actor, result any) {
	tx.record(who, AuditRecord{Action: AuditQueuePut, Object: c.Queue.Name, Message: c.Queue.said()}, result.(QueueResult).Refusal)
}

func (c DeleteQueue) actor() *Actor { return c.Actor }

func (c DeleteQueue) audit(tx *tx, who *Actor, result any) {
	tx.record(who, AuditRecord{Action: AuditQueueDelete, Object: c.Name}, result.(QueueResult).Refusal)
}

func (c PutToken) actor() *Actor { return c.Actor }

func (c PutToken) audit(tx *tx, who *Actor, result any) {
	res := result.(TokenResult)
	r := AuditRecord{Action: AuditTokenCreate, Object: c.Name, Message: "for " + c.User + ": " + strings.Join(c.Permissions, ", ")}
	if res.Token != nil {
		r.Object = res.Token.ID.String()
	}
	tx.record(who, r, res.Refusal)
}

func (c RevokeToken) actor() *Actor { return c.Actor }

func (c RevokeToken) audit(tx *tx, who *Actor, result any) {
	tx.record(who, AuditRecord{Action: AuditTokenRevoke, Object: c.ID.String()}, result.(TokenResult).Refusal)
}

func (c PutQuota) actor() *Actor { return c.Actor }

func (c PutQuota) audit(tx *tx, who *Actor, result any) {
	q := Quota{MaxGPUs: c.MaxGPUs, MaxRunning: c.MaxRunning, MaxJobs: c.MaxJobs}
	tx.record(who, AuditRecord{Action: AuditQuotaPut, Object: c.Tenant, Message: q.said()}, result.(QuotaResult).Refusal)
}

func (c DeleteQuota) actor() *Actor { return c.Actor }

func (c DeleteQuota) audit(tx *tx, who *Actor, result any) {
	tx.record(who, AuditRecord{Action: AuditQuotaDelete, Object: c.Tenant}, result.(QuotaResult).Refusal)
}

func (c PutCoordinator) actor() *Actor { return c.Actor }

func (c PutCoordinator) audit(tx *tx, who *Actor, result any) {
	tx.record(who, AuditRecord{Action: AuditCoordinatorJoin, Object: c.Coordinator.ID, Message: c.Coordinator.RaftAddr}, result.(CoordinatorResult).Refusal)
}

func (c DeleteCoordinator) actor() *Actor { return c.Actor }

func (c DeleteCoordinator) audit(tx *tx, who *Actor, result any) {
	tx.record(who, AuditRecord{Action: AuditCoordinatorRemove, Object: c.ID}, result.(CoordinatorResult).Refusal)
}

func (c Recover) actor() *Actor { return c.Actor }

func (c Recover) audit(tx *tx, who *Actor, result any) {
	tx.record(who, AuditRecord{Action: AuditClusterRecover, Object: strings.Join(c.Voters, ","), Message: c.From}, nil)
}

func (c NoteSnapshot) actor() *Actor { return c.Actor }

func (c NoteSnapshot) audit(tx *tx, who *Actor, _ any) {
	tx.record(who, AuditRecord{Action: AuditSnapshotSave, Object: c.By}, nil)
}

func (c PutLauncher) actor() *Actor { return c.Actor }

func (c PutLauncher) audit(tx *tx, who *Actor, result any) {
	r := AuditRecord{Action: AuditLauncherPut, Object: c.Launcher.Framework, Message: strings.Join(c.Launcher.Argv, " ")}
	tx.record(who, r, result.(LauncherResult).Refusal)
}

func (c DeleteLauncher) actor() *Actor { return c.Actor }

func (c DeleteLauncher) audit(tx *tx, who *Actor, result any) {
	tx.record(who, AuditRecord{Action: AuditLauncherDelete, Object: c.Framework}, result.(LauncherResult).Refusal)
}
