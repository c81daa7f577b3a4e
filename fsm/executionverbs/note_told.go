package executionverbs

import (
	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// NoteTold says how far the assignees of decisions have been told.
type NoteTold struct {
	Told []Told `cbor:"1,keyasint,omitempty"`
}

// Told is the notice of a decision that was delivered.
type Told struct {
	Decision ident.Decision `cbor:"1,keyasint,omitempty"`
	Notice   uint32         `cbor:"2,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (NoteTold) CommandNumber() uint16 { return 70 }

// AtLevel implements kernel.Leveled.
func (c NoteTold) AtLevel(at level.Level) (kernel.Command, error) { return c, cores.Gate.Check(at) }

func init() { verbs.Add(lifecycle.Verb("NoteTold", noteTold, nil)) }

// NotedResult counts the decisions that were noted.
type NotedResult struct{ Noted int }

func noteTold(tx *lifecycle.Tx, c *NoteTold) NotedResult {
	var res NotedResult
	for _, t := range c.Told {
		old, ok := bookOf(tx).Decision(t.Decision)
		if !ok || t.Notice <= old.Told || t.Notice > old.Notice {
			continue
		}
		d := *old
		d.Told = t.Notice
		d.Revision = tx.Index
		executions.PutDecision(bookOf(tx), &d)
		res.Noted++
	}
	return res
}
