// Package rehearse runs a flow without a cluster: on recorded answers and in virtual time. Expressions, branches, loops, retries and
// calls of other flows of the program are those of package machine; jobs, decisions, events and calls of other Cores take
// their results from the answers.
//
// Guarantees: it is pure, so the same program, input, answers and time give the same steps. Timers fire in the order of
// their times, and those of the same time in the order in which they were set. Time does not go on while a step waits for
// an answer that is missing.
//
// Not guaranteed: that a cluster takes the bodies of the jobs, which are not looked at.
package rehearse

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/mindcoordinator/mind/flow/ir"
	"github.com/mindcoordinator/mind/flow/machine"
)

const (
	// maxDepth is how deep flows call each other.
	maxDepth = 8
	// CodeCallDepth is the error of a call that is too deep.
	CodeCallDepth = "CALL_DEPTH"
	// The timeouts of waits whose blocks have none.
	callTimeout, longTimeout = 24 * time.Hour, 30 * 24 * time.Hour
)

// Options say how a flow is rehearsed.
type Options struct {
	// Flow is the name of the flow; "": the first one.
	Flow  string
	Input any
	// Answers have the results of steps. They count what was taken, so they are for one rehearsal.
	Answers *Answers
	// Now is when it begins. Only waits until a time depend on it.
	Now time.Time
	// CancelAfter is when the execution is canceled; 0: never.
	CancelAfter time.Duration
	// Ask returns the answer of a step that has none, as JSON. Without it, or if it returns nil, the rehearsal ends with a
	// *Missing.
	Ask func(m *Missing) ([]byte, error)
	// Watch gets what happens, in order; it may be nil.
	Watch func(h Happening)
	// Stop ends the rehearsal with its error, if it has one; it is asked before each advance and may be nil.
	Stop func() error
	// Limits are those of a cluster if they are zero.
	Limits machine.Limits
}

// Outcome is how a rehearsal ended.
type Outcome struct {
	// Status is "completed", "failed" or "canceled".
	Status string         `json:"status"`
	Output any            `json:"output"`
	Error  *machine.Error `json:"error"`
	// Steps are the blocks that ran, in the order in which they began.
	Steps []*Step `json:"steps"`
	// Events are those that the flow emitted.
	Events []Event `json:"events"`
}

// rehearsal is one of them.
type rehearsal struct {
	o        Options
	module   *ir.Module
	programs map[string]*machine.Program
	outcome  *Outcome
	main     *execution

	clock time.Duration
	// ready are the executions to advance, due the results to come, in the order of their times, and asking the waits
	// without an answer.
	ready  []*execution
	due    []*arrival
	asking []*pending
	// count numbers the arrivals, started the executions.
	count   uint64
	started int
}

// arrival is a result that comes at a time.
type arrival struct {
	at     time.Duration
	number uint64
	// to is nil for the cancellation of the execution.
	to     *pending
	result machine.Result
	// escalate: nobody has answered, and somebody else is asked.
	escalate bool
}

// Flow rehearses a flow of a program without errors. An error says that the rehearsal could not go on, and not that the
// flow failed.
func Flow(m *ir.Module, o Options) (*Outcome, error) {
	if err := o.Answers.Check(m); err != nil {
		return nil, err
	}
	if o.Limits == (machine.Limits{}) {
		o.Limits = machine.DefaultLimits
	}
	r := &rehearsal{o: o, module: m, programs: map[string]*machine.Program{}, outcome: &Outcome{Steps: []*Step{}, Events: []Event{}}}
	main, err := r.start(o.Flow, o.Input, nil)
	if err != nil {
		return nil, err
	}
	if r.main = main; o.CancelAfter > 0 {
		r.after(o.CancelAfter, &arrival{})
	}
	if err := r.run(); err != nil {
		return r.outcome, err
	}
	r.outcome.Status = main.status()
	r.outcome.Output, r.outcome.Error = main.output, main.failure
	return r.outcome, nil
}

// program returns a flow of the module.
func (r *rehearsal) program(flow string) (*machine.Program, error) {
	if p := r.programs[flow]; p != nil {
		return p, nil
	}
	p, err := machine.NewProgram(r.module, flow)
	if err == nil {
		r.programs[flow] = p
	}
	return p, err
}

// run goes on until all executions are over.
func (r *rehearsal) run() error {
	for {
		if r.o.Stop != nil {
			if err := r.o.Stop(); err != nil {
				return err
			}
		}
		switch {
		case len(r.ready) > 0:
			e := r.ready[0]
			r.ready = r.ready[1:]
			if err := e.advance(); err != nil {
				return err
			}
		case len(r.due) > 0 && r.due[0].at <= r.clock:
			if err := r.arrive(); err != nil {
				return err
			}
		case len(r.asking) > 0:
			if err := r.ask(r.asking[0]); err != nil {
				return err
			}
		case len(r.due) > 0:
			r.clock = r.due[0].at
		default:
			return nil
		}
	}
}

// after arranges that a result comes.
func (r *rehearsal) after(d time.Duration, a *arrival) {
	r.count++
	a.at, a.number = r.clock+d, r.count
	i, _ := slices.BinarySearchFunc(r.due, a, func(x, y *arrival) int {
		if x.at != y.at {
			return cmp.Compare(x.at, y.at)
		}
		return cmp.Compare(x.number, y.number)
	})
	r.due = slices.Insert(r.due, i, a)
}

// arrive delivers the next result.
func (r *rehearsal) arrive() error {
	a := r.due[0]
	r.due = r.due[1:]
	if a.to == nil {
		r.main.cancel()
		return nil
	}
	p := a.to
	if p.closed {
		return nil
	}
	if a.escalate {
		r.watch(Happening{
			What: Escalated, At: r.clock, Step: p.path, Kind: string(ir.Checkpoint), Level: p.e.levelOf(p.effect.Block), Name: p.effect.Question.EscalationTarget,
		})
		p.escalated = true
		return r.answer(p)
	}
	if p.child != nil && !p.child.over {
		p.child.cancel()
	}
	p.closed = true
	delete(p.e.open, p.effect.Wait)
	p.e.inbox[p.effect.Wait] = a.result
	r.wake(p.e)
	return nil
}

func (r *rehearsal) wake(e *execution) {
	if !slices.Contains(r.ready, e) {
		r.ready = append(r.ready, e)
	}
}

func (r *rehearsal) watch(h Happening) {
	if r.o.Watch != nil {
		r.o.Watch(h)
	}
}

// ask gets the answer of a wait that has none.
func (r *rehearsal) ask(p *pending) error {
	m := r.missing(p)
	for r.o.Ask != nil {
		text, err := r.o.Ask(m)
		if err != nil {
			return fmt.Errorf("asking for the answer of the step %s: %w", p.path, err)
		}
		if text == nil {
			break
		}
		a, err := p.read(text)
		if err != nil {
			m.Problem = err.Error()
			continue
		}
		r.asking = r.asking[1:]
		r.schedule(p, a)
		return nil
	}
	return m
}
