package rehearse

import (
	"fmt"
	"slices"
	"time"

	"github.com/mindcoordinator/mind/flow/ir"
	"github.com/mindcoordinator/mind/flow/machine"
)

// execution is one flow that runs.
type execution struct {
	r       *rehearsal
	program *machine.Program
	frame   []byte
	// call is the wait of the caller, nil: nobody called it. prefix is the path of the call, and level how deep its blocks
	// are shown.
	call   *pending
	prefix string
	depth  int
	level  int
	levels map[string]int

	open     map[uint32]*pending
	inbox    map[uint32]machine.Result
	canceled bool

	// steps are those that have begun and not ended, by their paths.
	steps   map[string][]*Step
	over    bool
	ended   machine.Status
	output  any
	failure *machine.Error
}

// pending is an effect without a result.
type pending struct {
	e      *execution
	effect machine.Effect
	path   string
	// child is the execution that a call started.
	child *execution
	// closed: it has its result, or was given up.
	closed    bool
	escalated bool
}

// start begins an execution of a flow of the module.
func (r *rehearsal) start(flow string, input any, call *pending) (*execution, error) {
	program, err := r.program(flow)
	if err != nil {
		return nil, err
	}
	e := &execution{
		r: r, program: program, call: call, open: map[uint32]*pending{}, inbox: map[uint32]machine.Result{},
		steps: map[string][]*Step{}, levels: map[string]int{},
	}
	if call != nil {
		e.prefix, e.depth = call.path+"/", call.e.depth+1
		e.level = call.e.levelOf(call.effect.Block) + 1
	}
	e.measure(program.Flow.Body, 0)
	e.measure(program.Flow.OnCancel, 0)
	var trigger any = map[string]any{}
	if e.frame, err = program.Start(input, trigger); err != nil {
		return nil, fmt.Errorf("starting the flow %s: %w", program.Flow.Name, err)
	}
	r.started++
	r.wake(e)
	return e, nil
}

// measure notes how deep each block is.
func (e *execution) measure(blocks []ir.Block, level int) {
	for i := range blocks {
		e.levels[blocks[i].ID] = level
		for _, below := range blocks[i].Bodies() {
			e.measure(below, level+1)
		}
	}
}

func (e *execution) levelOf(block string) int { return e.level + e.levels[block] }

func (e *execution) cancel() {
	e.canceled = true
	e.r.wake(e)
}

// advance goes on until the execution waits or is over.
func (e *execution) advance() error {
	if e.over {
		return nil
	}
	in := machine.Input{Results: e.inbox, Cancel: e.canceled}
	e.inbox = map[uint32]machine.Result{}
	for {
		out, err := e.program.Advance(e.frame, in, e.r.o.Limits)
		if err != nil {
			return fmt.Errorf("advancing the flow %s: %w", e.program.Flow.Name, err)
		}
		e.frame, in = out.Frame, machine.Input{}
		for i := range out.Records {
			e.note(&out.Records[i])
		}
		for i := range out.Effects {
			if err := e.carryOut(&out.Effects[i]); err != nil {
				return err
			}
		}
		if out.Status == machine.Completed || out.Status == machine.Failed || out.Status == machine.Canceled {
			return e.end(out)
		}
		if out.Status == machine.Waiting {
			return nil
		}
	}
}

// carryOut begins an effect.
func (e *execution) carryOut(effect *machine.Effect) error {
	if effect.Kind == machine.Cancel {
		if p := e.open[effect.Wait]; p != nil {
			e.giveUp(p)
		}
		return nil
	}
	p := &pending{e: e, effect: *effect, path: e.prefix + effect.Path}
	e.open[effect.Wait] = p
	switch {
	case effect.Kind == machine.Timer:
		e.r.after(e.r.untilTimer(effect), &arrival{to: p})
	case effect.Kind == machine.Call && effect.Target == "self":
		return e.startCall(p)
	default:
		if effect.Kind == machine.Ask && effect.Question.Type == "failure" {
			p.path += failureMark
		}
		return e.r.answer(p)
	}
	return nil
}

func (e *execution) giveUp(p *pending) {
	p.closed = true
	delete(e.open, p.effect.Wait)
	e.r.asking = slices.DeleteFunc(e.r.asking, func(q *pending) bool { return q == p })
	if p.child != nil && !p.child.over {
		p.child.cancel()
	}
}

// untilTimer is how long a timer takes. One whose time has passed fires at once.
func (r *rehearsal) untilTimer(effect *machine.Effect) time.Duration {
	if effect.At == 0 {
		return effect.After
	}
	return max(0, time.Unix(0, effect.At).Sub(r.o.Now.Add(r.clock)))
}

// startCall runs another flow of the module.
func (e *execution) startCall(p *pending) error {
	if e.depth >= maxDepth {
		p.e.r.after(0, &arrival{to: p, result: machine.Result{Err: &machine.Error{
			Code: CodeCallDepth, Message: fmt.Sprintf("flows call each other more than %d deep", maxDepth),
		}}})
		return nil
	}
	child, err := e.r.start(p.effect.Flow, p.effect.Input, p)
	if err != nil {
		return err
	}
	if p.effect.Async {
		child.call = nil
		id := fmt.Sprintf("exec_%d", e.r.started)
		e.r.after(0, &arrival{to: p, result: machine.Result{Value: map[string]any{"execution_id": id}}})
		return nil
	}
	p.child = child
	e.r.after(timeoutOf(&p.effect), e.r.late(p))
	return nil
}

// end ends an execution, and gives its caller the result.
func (e *execution) end(out *machine.Output) error {
	e.over, e.ended, e.output, e.failure = true, out.Status, out.Value, out.Err
	if len(e.open) > 0 {
		return fmt.Errorf("the flow %s ended and left %d waits open", e.program.Flow.Name, len(e.open))
	}
	e.endSteps()
	if e.call == nil || e.call.closed {
		return nil
	}
	result := machine.Result{Value: e.output}
	switch e.ended {
	case machine.Failed:
		failure := *e.failure
		failure.Step = e.prefix + failure.Step
		result = machine.Result{Err: &failure}
	case machine.Canceled:
		result = machine.Result{Err: &machine.Error{Code: machine.CodeCanceled, Message: "the flow was canceled"}}
	}
	e.r.after(0, &arrival{to: e.call, result: result})
	return nil
}

func (e *execution) status() string {
	switch e.ended {
	case machine.Completed:
		return "completed"
	case machine.Canceled:
		return "canceled"
	}
	return "failed"
}
