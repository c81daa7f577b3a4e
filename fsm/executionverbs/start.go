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

// StartExecutions starts executions, each for itself.
type StartExecutions struct {
	Starts []Start       `cbor:"1,keyasint,omitempty"`
	Actor  *access.Actor `cbor:"2,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (StartExecutions) CommandNumber() uint16 { return 63 }

// AtLevel implements kernel.Leveled.
func (c StartExecutions) AtLevel(at level.Level) (kernel.Command, error) {
	return c, cores.Gate.Check(at)
}

func init() { verbs.Add(lifecycle.Verb("StartExecutions", startExecutions, auditStartExecutions)) }

// Start is one execution to start.
type Start struct {
	Core    ident.Core `cbor:"1,keyasint,omitempty"`
	Tenant  string     `cbor:"2,keyasint,omitempty"`
	User    string     `cbor:"3,keyasint,omitempty"`
	Version uint32     `cbor:"4,keyasint,omitempty"`
	Flow    string     `cbor:"5,keyasint,omitempty"`
	// Frame is the continuation before its first step, Input its input; both are opaque here.
	Frame   []byte `cbor:"6,keyasint,omitempty"`
	Input   []byte `cbor:"7,keyasint,omitempty"`
	Trigger string `cbor:"8,keyasint,omitempty"`
	// Key makes it start once; empty: it does in any case. Fingerprint tells a repeat from a misuse.
	Key         string `cbor:"9,keyasint,omitempty"`
	Fingerprint uint64 `cbor:"10,keyasint,omitempty"`
	// First is the first step, if the proposer has computed it already.
	First *Advance `cbor:"11,keyasint,omitempty"`
	// Request is the id of the request.
	Request string `cbor:"12,keyasint,omitempty"`
}

// StartsResult has one result per start, in order.
type StartsResult struct{ Results []Result }

func startExecutions(tx *lifecycle.Tx, c *StartExecutions) StartsResult {
	results := make([]Result, len(c.Starts))
	for i := range c.Starts {
		results[i] = start(tx, &c.Starts[i], nil)
		tx.Flush()
	}
	return StartsResult{results}
}

const maxKey = 255

// start starts an execution, for another one if by is not nil.
func start(tx *lifecycle.Tx, s *Start, by *caller) Result {
	core, ok := cores.Of(tx.Entry.State).Core(s.Core)
	if !ok || core.Tenant != s.Tenant {
		return Result{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoCore, s.Core)}
	}
	book := bookOf(tx)
	if s.Key != "" {
		if first, there := book.StartedWith(s.Core, s.Key); there {
			if first.Fingerprint != s.Fingerprint {
				return Result{Refusal: kernel.Refuse(kernel.CodeAlreadyExists, reason.KeyOfOtherRequest, s.Key)}
			}
			return Result{Execution: first, Duplicate: true}
		}
	}
	if core.Status != cores.Running {
		return Result{Refusal: kernel.Refuse(kernel.CodeFailedPrecondition, reason.CoreNotRunning, core.Slug, core.Status.String())}
	}
	if _, there := cores.Of(tx.Entry.State).CoreVersion(s.Core, s.Version); !there {
		return Result{Refusal: kernel.Refuse(kernel.CodeAborted, reason.CoreChanged, core.Slug)}
	}
	if why := wrongStart(s); why != "" {
		return Result{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadExecution, why)}
	}
	switch {
	case book.Live() >= executions.MaxLive:
		return Result{Refusal: kernel.Refuse(kernel.CodeResourceExhausted, reason.TooManyExecutions, int64(executions.MaxLive))}
	case book.LiveOf(s.Tenant) >= executions.MaxLiveOfTenant:
		return Result{Refusal: kernel.Refuse(kernel.CodeResourceExhausted, reason.TooManyExecutions, int64(executions.MaxLiveOfTenant))}
	}
	id, ok := tx.Mint()
	if !ok {
		return Result{Refusal: kernel.Refuse(kernel.CodeResourceExhausted, reason.TooManyExecutions, int64(kernel.MaxIDsPerEntry))}
	}
	e := &executions.Execution{
		ID: ident.Execution(id), Tenant: tx.Entry.Intern(s.Tenant), User: tx.Entry.Intern(s.User), Core: s.Core, Version: s.Version, Flow: tx.Entry.Intern(s.Flow),
		Status: executions.Ready, Frame: s.Frame, Input: s.Input, Trigger: s.Trigger, Key: s.Key, Fingerprint: s.Fingerprint, CreatedAt: tx.Now,
	}
	if by != nil {
		e.Parent, e.ParentWait, e.Depth = by.id, by.wait, by.depth+1
	}
	record(tx, e, []executions.Happening{{Type: typeStarted, Value: fitting(s.Input), Truncated: fitting(s.Input) == nil && s.Input != nil}})
	if s.First != nil {
		step(tx, e, s.First)
	} else {
		executions.Save(tx.Entry, e)
	}
	now, _ := book.Execution(e.ID)
	return Result{Execution: now}
}

// caller is an execution that calls another one.
type caller struct {
	id    ident.Execution
	wait  uint32
	depth uint8
}

func wrongStart(s *Start) string {
	switch {
	case s.Tenant == "" || len(s.Frame) == 0:
		return "it has no tenant or no frame"
	case len(s.Frame) > executions.MaxFrame || len(s.Input) > executions.MaxValue:
		return "its input is too large"
	case len(s.Key) > maxKey:
		return "its key is too long"
	case len(s.Flow) > executions.MaxText || len(s.Trigger) > executions.MaxText || len(s.User) > executions.MaxText:
		return "a name is too long"
	}
	return ""
}

var auditExecutionStart = access.DefineAction(77, "execution.start", access.AboutJobs)

func auditStartExecutions(tx *kernel.Tx, c *StartExecutions, result StartsResult) {
	if c.Actor == nil {
		return
	}
	for i, r := range result.Results {
		if r.Duplicate {
			continue
		}
		s, by := &c.Starts[i], *c.Actor
		if by.Tenant == "" && by.User == "" {
			by.Tenant, by.User = s.Tenant, s.User
		}
		if s.Request != "" {
			by.Request = s.Request
		}
		object := s.Core.String()
		if r.Execution != nil {
			object = r.Execution.ID.String()
		}
		access.Record(tx, &by, access.AuditRecord{Action: auditExecutionStart, Object: object}, r.Refusal)
	}
}
