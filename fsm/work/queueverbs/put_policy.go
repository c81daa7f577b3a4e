package queueverbs

import (
	"cmp"
	"slices"

	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/bounds"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/fsm/work/promises"
)

// PutPolicy replaces the policy of the scheduler.
type PutPolicy struct {
	Policy policy.Policy `cbor:"1,keyasint,omitempty"`
	// Base is the revision of the policy that it was made from, 0 for the default one. Another one meanwhile refuses it, so
	// that two operators who change different values do not undo each other's change.
	Base  uint64        `cbor:"2,keyasint,omitempty"`
	Actor *access.Actor `cbor:"3,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (PutPolicy) CommandNumber() uint16 { return 30 }

// AtLevel implements kernel.Leveled.
func (c PutPolicy) AtLevel(at level.Level) (kernel.Command, error) {
	p := &c.Policy
	for _, later := range []struct {
		gate level.Gate
		set  bool
	}{
		{bounds.Gate, p.KeepFinished != 0 || p.KeepSpecs != 0},
		{policy.Gate, p.Preemption.ProtectFromPriority != 0},
		{policy.HoursGate, p.HoursGrace != nil},
	} {
		if err := later.gate.Check(at); later.set && err != nil {
			return c, err
		}
	}
	return c, nil
}

func init() { verbs.Add(lifecycle.Verb("PutPolicy", putPolicy, auditPutPolicy)) }

// PolicyResult is the policy as it is after the command, with what it changed; or why nothing was done.
type PolicyResult struct {
	Policy *policy.Policy
	// Changed names the changes, for people: "order FIFO -> SHORTEST".
	Changed string
	Refusal *kernel.Refusal
}

func putPolicy(tx *lifecycle.Tx, c *PutPolicy) PolicyResult {
	if err := c.Policy.Validate(); err != nil {
		return PolicyResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadPolicy, err.Error())}
	}
	if len(c.Policy.UpdatedBy) > work.MaxQuotaText {
		return PolicyResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadQuotaTenant, work.MaxQuotaText)}
	}
	old := tx.Policy()
	if old.Revision != c.Base {
		return PolicyResult{Refusal: kernel.Refuse(kernel.CodeAborted, reason.PolicyOutdated, old.Revision, c.Base)}
	}
	p := c.Policy
	p.UpdatedAt, p.Revision = tx.Now, tx.Index
	tx.SetPolicy(&p, tx.Now)
	allowPromises(tx)
	tx.Emit(event.Event{Topic: event.TopicPolicy})
	return PolicyResult{Policy: &p, Changed: old.Changes(&p)}
}

// allowPromises ends the promises beyond what the policy allows, those with the latest start first.
func allowPromises(tx *lifecycle.Tx) {
	over := tx.PromiseCount() - int(tx.Policy().Backfill.Reservations)
	if over <= 0 {
		return
	}
	all := slices.SortedFunc(tx.Promises(), func(a, b *promises.Promise) int {
		return cmp.Or(cmp.Compare(b.StartAt, a.StartAt), cmp.Compare(b.Job, a.Job))
	})
	for _, p := range all[:over] {
		tx.EndPromise(p)
	}
}

func auditPutPolicy(tx *kernel.Tx, c *PutPolicy, result PolicyResult) {
	res := result
	access.Record(tx, c.Actor, access.AuditRecord{Action: AuditPolicyPut, Message: reason.New(reason.PolicySetTo, res.Changed)}, res.Refusal)
}

// AuditPolicyPut is the action in the audit log.
var AuditPolicyPut = access.DefineAction(26, "policy.put", access.AboutOperation)
