package apply

import (
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

func putPolicy(tx *tx, c *work.PutPolicy) any {
	if err := c.Policy.Validate(); err != nil {
		return work.PolicyResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadPolicy, err.Error())}
	}
	if len(c.Policy.UpdatedBy) > work.MaxQuotaText {
		return work.PolicyResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadQuotaTenant, work.MaxQuotaText)}
	}
	old := tx.Policy()
	if old.Revision != c.Base {
		return work.PolicyResult{Refusal: kernel.Refuse(kernel.CodeAborted, reason.PolicyOutdated, old.Revision, c.Base)}
	}
	p := c.Policy
	p.UpdatedAt, p.Revision = tx.now, tx.index
	tx.SetPolicy(&p, tx.now)
	tx.allowPromises()
	tx.emit(event.Event{Topic: event.TopicPolicy})
	return work.PolicyResult{Policy: &p, Changed: old.Changes(&p)}
}
