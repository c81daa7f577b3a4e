package rehearse

import (
	"time"

	"github.com/mindcoordinator/mind/flow/ir"
	"github.com/mindcoordinator/mind/flow/machine"
)

// Step is a block that ran.
type Step struct {
	// Step is its path: the id of the block with the iterations that it is in, behind the path of the call that it is in.
	Step    string `json:"step"`
	Kind    string `json:"kind"`
	Node    string `json:"node_id,omitempty"`
	Attempt int    `json:"attempt"`
	// Status is "completed", "failed" or "canceled"; "running" when the rehearsal stopped.
	Status string         `json:"status"`
	Began  ir.Duration    `json:"began"`
	Ended  ir.Duration    `json:"ended"`
	Result any            `json:"result,omitempty"`
	Error  *machine.Error `json:"error,omitempty"`
}

// Event is one that the flow emitted, or the values of a debug block.
type Event struct {
	Event string      `json:"event"`
	Step  string      `json:"step"`
	At    ir.Duration `json:"at"`
	Data  any         `json:"data"`
}

// HappeningKind says what happened.
type HappeningKind uint8

// The kinds.
const (
	Began HappeningKind = iota + 1
	Ended
	Failed
	Retried
	Emitted
	// Escalated: a decision was not answered in time, and somebody else is asked.
	Escalated
)

// Happening is one thing that happens in a rehearsal.
type Happening struct {
	What HappeningKind
	// At is the virtual time since the begin.
	At   time.Duration
	Step string
	Kind string
	// Level is how deep the block is.
	Level   int
	Attempt int
	// Name is that of an event, or the new assignee.
	Name  string
	Value any
	Err   *machine.Error
}

// note keeps a record of the machine.
func (e *execution) note(rec *machine.Record) {
	path := e.prefix + rec.Path
	now := ir.Duration(e.r.clock)
	h := Happening{At: e.r.clock, Step: path, Kind: rec.BlockKind, Level: e.levelOf(rec.Block), Attempt: rec.Attempt + 1, Value: rec.Value, Err: rec.Err}
	switch rec.Kind {
	case machine.Entered:
		s := &Step{Step: path, Kind: rec.BlockKind, Node: rec.Node, Attempt: rec.Attempt + 1, Status: "running", Began: now, Ended: now}
		e.r.outcome.Steps = append(e.r.outcome.Steps, s)
		e.steps[path] = append(e.steps[path], s)
		h.What = Began
	case machine.Exited:
		h.What = Ended
		e.endStep(path, "completed", rec.Value, nil)
	case machine.BlockFailed:
		h.What = Failed
		e.endStep(path, "failed", nil, rec.Err)
	case machine.Retrying:
		h.What = Retried
		e.endStep(path, "failed", nil, rec.Err)
	case machine.Emitted:
		h.What, h.Name = Emitted, rec.Name
		e.r.outcome.Events = append(e.r.outcome.Events, Event{Event: rec.Name, Step: path, At: now, Data: rec.Value})
	}
	e.r.watch(h)
}

// endStep ends the newest step of a path.
func (e *execution) endStep(path, status string, result any, err *machine.Error) {
	open := e.steps[path]
	if len(open) == 0 {
		return
	}
	s := open[len(open)-1]
	e.steps[path] = open[:len(open)-1]
	s.Status, s.Ended, s.Result, s.Error = status, ir.Duration(e.r.clock), result, err
}

// endSteps ends the steps that were given up.
func (e *execution) endSteps() {
	for path := range e.steps {
		for len(e.steps[path]) > 0 {
			e.endStep(path, "canceled", nil, nil)
		}
	}
}
