package executionverbs

import (
	"cmp"
	"slices"

	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// ResolveDecision is the answer of one person to a decision.
type ResolveDecision struct {
	Decision ident.Decision `cbor:"1,keyasint,omitempty"`
	Tenant   string         `cbor:"2,keyasint,omitempty"`
	User     string         `cbor:"3,keyasint,omitempty"`
	// As are the groups and roles of the user: "group:ID", "role:NAME". Any says that the user may answer all decisions.
	As         []string `cbor:"4,keyasint,omitempty"`
	Any        bool     `cbor:"5,keyasint,omitempty"`
	Resolution string   `cbor:"6,keyasint,omitempty"`
	Comment    string   `cbor:"7,keyasint,omitempty"`
	// Data answers a schema; the proposer has checked it.
	Data []byte `cbor:"8,keyasint,omitempty"`
	// Subject is the digest of what the user has seen; empty: not said.
	Subject string        `cbor:"9,keyasint,omitempty"`
	Actor   *access.Actor `cbor:"10,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (ResolveDecision) CommandNumber() uint16 { return 67 }

// AtLevel implements kernel.Leveled.
func (c ResolveDecision) AtLevel(at level.Level) (kernel.Command, error) {
	return c, cores.Gate.Check(at)
}

func init() { verbs.Add(lifecycle.Verb("ResolveDecision", resolveDecision, auditResolveDecision)) }

// DecisionResult is the decision after the command, or why nothing was done.
type DecisionResult struct {
	Decision *executions.Decision
	Refusal  *kernel.Refusal
}

// pending returns a decision of a tenant that has no answer yet.
func pending(tx *lifecycle.Tx, id ident.Decision, tenant string) (*executions.Decision, *kernel.Refusal) {
	d, ok := bookOf(tx).Decision(id)
	if !ok || d.Tenant != tenant {
		return nil, kernel.Refuse(kernel.CodeNotFound, reason.NoDecision, id)
	}
	if d.Status != executions.Pending {
		return nil, kernel.Refuse(kernel.CodeFailedPrecondition, reason.DecisionOver, id, d.Status.String())
	}
	return d, nil
}

// resolveDecision counts the vote of a person. The last vote that is needed resolves the decision, once (I21), and wakes its execution.
func resolveDecision(tx *lifecycle.Tx, c *ResolveDecision) DecisionResult {
	old, r := pending(tx, c.Decision, c.Tenant)
	switch {
	case r != nil:
		return DecisionResult{Refusal: r}
	case !mayDecide(old, c.User, c.As, c.Any):
		return DecisionResult{Refusal: kernel.Refuse(kernel.CodePermissionDenied, reason.NotAssignee, old.ID, old.Assignee)}
	case c.Subject != "" && c.Subject != old.Subject:
		return DecisionResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.StaleSubject, old.ID, c.Subject, cmp.Or(old.Subject, "nothing with a digest"))}
	case len(old.Schema) == 0 && (c.Resolution == "" || !old.Offers(c.Resolution)):
		return DecisionResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadAnswer, offered(old))}
	case len(c.Resolution) > executions.MaxText || len(c.Comment) > executions.MaxText || len(c.Data) > executions.MaxContext:
		return DecisionResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadAnswer, "it is too long")}
	case slices.ContainsFunc(old.Votes, func(v executions.Vote) bool { return v.User == c.User }):
		return DecisionResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.AlreadyVoted, c.User, old.ID)}
	}
	d := *old
	d.Votes = append(slices.Clone(old.Votes), executions.Vote{User: c.User, Resolution: c.Resolution, Comment: c.Comment, Data: c.Data, At: tx.Now})
	count(tx, &d)
	executions.SaveDecision(tx.Entry, &d)
	if d.Status == executions.Pending {
		return DecisionResult{Decision: &d}
	}
	if r := answer(tx, &d); r != nil {
		asked := *old
		executions.SaveDecision(tx.Entry, &asked) // It stays to be answered.
		return DecisionResult{Refusal: r}
	}
	if now, ok := bookOf(tx).Decision(d.ID); ok {
		return DecisionResult{Decision: now}
	}
	return DecisionResult{Decision: &d} // It went with its job.
}

// mayDecide says whether a user is the assignee of a decision, or belongs to it, or decides about all of them (any).
func mayDecide(d *executions.Decision, user string, as []string, any bool) bool {
	kind, value := executions.ParseAssignee(d.Assignee)
	switch {
	case any || kind == executions.Unrouted:
		return true
	case kind == executions.User:
		return value == user
	}
	return slices.Contains(as, kind.String()+":"+value)
}

func offered(d *executions.Decision) string {
	if len(d.Options) == 0 {
		return "it is empty"
	}
	text := "it has to be one of"
	for i, o := range d.Options {
		if i > 0 {
			text += ","
		}
		text += " " + o.ID
	}
	return text
}

// count resolves a decision when enough votes agree, and when they cannot agree any more.
func count(tx *lifecycle.Tx, d *executions.Decision) {
	last := d.Votes[len(d.Votes)-1]
	agree, most := uint32(0), map[string]uint32{}
	best := uint32(0)
	for _, v := range d.Votes {
		key := v.Resolution
		if len(d.Schema) > 0 {
			key = string(v.Data)
		}
		most[key]++
		best = max(best, most[key])
		if v.Resolution == last.Resolution && (len(d.Schema) == 0 || string(v.Data) == string(last.Data)) {
			agree++
		}
	}
	left := d.Of - min(d.Of, uint32(len(d.Votes)))
	switch {
	case agree >= d.Needed:
		d.Status, d.Resolution, d.ResolvedBy, d.ResolvedAt = executions.Resolved, last.Resolution, last.User, tx.Now
	case best+left < d.Needed:
		d.Status, d.Split = executions.Expired, true // Nobody can bring it about any more.
	}
}

// answer has what asked go on. The leader makes the value for an execution from the row of the decision. An answer to a gate is refused
// if the job cannot go on.
func answer(tx *lifecycle.Tx, d *executions.Decision) *kernel.Refusal {
	if d.Job != 0 {
		return openGate(tx, d)
	}
	executions.Wake(tx.Entry, d.Execution, d.Wait, func(w *executions.Wait) {
		if d.Status == executions.Expired && (d.Split || d.OnExpiry != executions.ExpireContinue) {
			w.Err = &executions.Failure{Code: "EXPIRED", Message: "nobody answered the decision " + d.ID.String() + " in time, or those who did could not agree"}
		}
	})
	return nil
}

var auditDecisionResolve = access.DefineAction(83, "decision.resolve", access.AboutJobs)

func auditResolveDecision(tx *kernel.Tx, c *ResolveDecision, result DecisionResult) {
	access.Record(tx, c.Actor, access.AuditRecord{Action: auditDecisionResolve, Object: c.Decision.String(), Message: reason.Text(c.Resolution)}, result.Refusal)
}
