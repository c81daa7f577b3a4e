package executionverbs

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// SendEvent sends an event to a Core, or to one execution of it: it wakes the executions that wait for it, and starts those that it
// triggers.
type SendEvent struct {
	Core   ident.Core `cbor:"1,keyasint,omitempty"`
	Tenant string     `cbor:"2,keyasint,omitempty"`
	// Execution gets the event alone; 0: all of the Core that wait for it.
	Execution ident.Execution `cbor:"3,keyasint,omitempty"`
	Name      string          `cbor:"4,keyasint,omitempty"`
	// Data is a value, opaque here.
	Data   []byte        `cbor:"5,keyasint,omitempty"`
	Starts []Start       `cbor:"6,keyasint,omitempty"`
	Actor  *access.Actor `cbor:"7,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (SendEvent) CommandNumber() uint16 { return 66 }

// AtLevel implements kernel.Leveled.
func (c SendEvent) AtLevel(at level.Level) (kernel.Command, error) { return c, cores.Gate.Check(at) }

func init() { verbs.Add(lifecycle.Verb("SendEvent", sendEvent, auditSendEvent)) }

// SentResult counts the executions that an event has woken, and lists those that it has started; or it says why it was refused.
type SentResult struct {
	Woken   int
	Started []ident.Execution
	Refusal *kernel.Refusal
	// Duplicate: the same event came before and has started its executions; nothing was woken again.
	Duplicate bool
}

// maxWoken bounds the executions that one event wakes.
const maxWoken = 10_000

func sendEvent(tx *lifecycle.Tx, c *SendEvent) SentResult {
	core, ok := cores.Of(tx.Entry.State).Core(c.Core)
	if !ok || core.Tenant != c.Tenant {
		return SentResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoCore, c.Core)}
	}
	if core.Status != cores.Running {
		return SentResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.CoreNotRunning, core.Slug, core.Status.String())}
	}
	if c.Name == "" || len(c.Name) > 256 || len(c.Data) > executions.MaxValue {
		return SentResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadExecution, "the event has no name, or too much data")}
	}
	ids, waits := executions.EventWaits(bookOf(tx), core.ID, c.Name, c.Execution)
	if c.Execution != 0 && len(ids) == 0 {
		return SentResult{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.NotWaitingForSignal, c.Execution, c.Name)}
	}
	// The starts come first: one that is refused, or that was made by the same event before, keeps the rest from being done.
	var res SentResult
	for i := range c.Starts {
		s := c.Starts[i]
		s.Core, s.Tenant = core.ID, core.Tenant
		made := start(tx, &s, nil)
		if made.Refusal != nil {
			return SentResult{Refusal: made.Refusal, Started: res.Started}
		}
		res.Started = append(res.Started, made.Execution.ID)
		res.Duplicate = res.Duplicate || made.Duplicate
	}
	if res.Duplicate {
		return res
	}
	recordOf(tx, core.Tenant, core.ID, c.Execution, []executions.Happening{{Type: c.Name, Value: c.Data}})
	for i := range ids[:min(len(ids), maxWoken)] {
		executions.Wake(tx.Entry, ids[i], waits[i], func(w *executions.Wait) { w.Result = c.Data })
		res.Woken++
	}
	return res
}

var auditCoreEvent = access.DefineAction(82, "core.event", access.AboutJobs)

func auditSendEvent(tx *kernel.Tx, c *SendEvent, result SentResult) {
	if result.Duplicate {
		return
	}
	access.Record(tx, c.Actor, access.AuditRecord{Action: auditCoreEvent, Object: c.Core.String(), Message: reason.Text(c.Name)}, result.Refusal)
}
