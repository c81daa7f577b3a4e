// Package executionverbs has what is done to the executions of Cores and to decisions, one file a verb.
//
// Guarantees. An Advance is the frame, the effects and the events of one step, in one entry: jobs, decisions and executions that it
// starts are started exactly once, whichever leader proposes it and however often. The wait of an effect is ended once.
package executionverbs

import (
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// verbs are the commands of this package; each file adds its own.
var verbs kernel.Verbs

// Verbs lists the commands.
func Verbs() []kernel.CommandDef { return verbs }

// Result is the execution after the command, or why nothing was done.
type Result struct {
	Execution *executions.Execution
	Refusal   *kernel.Refusal
	// Duplicate: an earlier command with the same key did it.
	Duplicate bool
}

func bookOf(tx *lifecycle.Tx) *executions.Book { return executions.Of(tx.Entry.State) }

// find returns an execution of a tenant.
func find(tx *lifecycle.Tx, id ident.Execution, tenant string) (*executions.Execution, *kernel.Refusal) {
	e, ok := bookOf(tx).Execution(id)
	if !ok || tenant != "" && e.Tenant != tenant {
		return nil, kernel.Refuse(kernel.CodeNotFound, reason.NoExecution, id)
	}
	return e, nil
}

func clip(text string) string { return executions.Clip(text) }

func clipFailure(f *executions.Failure) *executions.Failure {
	if f == nil {
		return nil
	}
	c := *f
	c.Code, c.Message, c.Step, c.Reason = clip(c.Code), clip(c.Message), clip(c.Step), c.Reason.Clip(executions.MaxText)
	return &c
}
