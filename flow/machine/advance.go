package machine

import (
	"fmt"
	"maps"
	"slices"

	"github.com/mindcoordinator/mind/flow/expr"
	"github.com/mindcoordinator/mind/flow/ir"
)

// Limits bound an execution.
type Limits struct {
	// Fuel is how many operations an Advance may take, and how many the expressions of one block may: it may end with a block that
	// goes beyond. A started block is an operation too.
	Fuel int64
	// Blocks is how many blocks an execution may start.
	Blocks int64
	// Effects is how many effects an Advance may have.
	Effects int
}

// DefaultLimits are used where nothing else is said.
var DefaultLimits = Limits{Fuel: 100_000, Blocks: 10_000, Effects: 1_000}

const (
	// MaxWidth is how many branches or iterations run beside each other.
	MaxWidth = 256
	// MaxWaits is how many effects of an execution have no result yet.
	MaxWaits = 4_000
	// maxItems is how many items a foreach takes.
	maxItems = 10_000
	// maxBytes is how many bytes the expressions of a block may make.
	maxBytes = 1 << 20
	// maxEffects is how many bytes the effects of an Advance have before it stops between two blocks.
	maxEffects = 256 << 10
)

// Program is a module and the flow of it that an execution runs.
type Program struct {
	Module *ir.Module
	Flow   *ir.Flow
	blocks map[string]*ir.Block
	// alias has the result binding of each block that has one, by its id.
	alias map[string]string
}

// NewProgram finds a flow of a module; the empty name is the first one.
func NewProgram(m *ir.Module, flow string) (*Program, error) {
	f, ok := m.Flow(flow)
	if !ok {
		return nil, fmt.Errorf("the program has no flow %q", flow)
	}
	p := &Program{Module: m, Flow: f, blocks: map[string]*ir.Block{}, alias: map[string]string{}}
	f.Walk("", func(_ string, b *ir.Block) {
		p.blocks[b.ID] = b
		if b.ResultBinding != "" && b.ResultBinding != b.ID {
			p.alias[b.ID] = b.ResultBinding
		}
	})
	return p, nil
}

// Start returns the frame of a new execution.
func (p *Program) Start(input, trigger any) ([]byte, error) {
	vars := map[string]any{"input": input, "trigger": trigger}
	for _, v := range p.Module.Variables {
		value, err := expr.Normalize(v.Default)
		if err != nil {
			return nil, fmt.Errorf("the variable %s: %w", v.Name, err)
		}
		vars[v.Name] = value
	}
	return encodeFrame(&Frame{Vars: vars, Main: &body{}})
}

// Input has the results and requests since the last Advance.
type Input struct {
	Results map[uint32]Result
	// Cancel ends the execution: on_cancel runs, then the compensations.
	Cancel bool
}

// Output is the result of an Advance.
type Output struct {
	Status  Status
	Frame   []byte
	Effects []Effect
	Records []Record
	// Value is the return value of the flow.
	Value any
	Err   *Error
}

// Advance goes on until everything waits, the execution ends, or fuel runs out. An error says that the frame cannot be read, or
// that the execution is over.
func (p *Program) Advance(stored []byte, in Input, limits Limits) (*Output, error) {
	f, err := decodeFrame(stored)
	if err != nil {
		return nil, err
	}
	if f.Phase == ended || f.Phase == running && f.Error != nil && !in.Cancel {
		return nil, ErrOver
	}
	r := &run{program: p, frame: f, limits: limits, fuel: limits.Fuel, results: map[uint32]Result{}, out: &Output{}}
	maps.Copy(r.results, in.Results)
	for wait, pending := range f.Pending {
		r.results[wait] = Result(pending)
	}
	f.Pending = nil
	r.begin()
	if in.Cancel && f.Phase == running {
		r.startCancel()
	}
	r.out.Status = r.step()
	return r.finish(stored, in)
}

// run is one Advance.
type run struct {
	program *Program
	frame   *Frame
	limits  Limits
	fuel    int64
	results map[uint32]Result
	out     *Output
	// budget limits the expressions of the block; effects counts the bytes of the effects.
	budget  *expr.Budget
	effects int
	// err is the error of the block that has just failed, value the last value of a body, or that of a return.
	err   *Error
	value any
}

// outcome says how a body or a block stands.
type outcome uint8

const (
	waiting outcome = iota
	done
	failed
	returned
	// yielded: fuel has run out.
	yielded
)

// begin arms the flow's timeout.
func (r *run) begin() {
	if t := r.program.Flow.Timeout; t > 0 && r.frame.Deadline == 0 && r.frame.Phase == running {
		r.frame.Deadline = r.effect(Effect{Kind: Timer, After: duration(t)})
	}
}

func (r *run) step() Status {
	f := r.frame
	if f.Phase == running {
		if _, late := r.results[f.Deadline]; late && f.Deadline != 0 {
			f.Deadline = 0
			return r.fail(&Error{Code: CodeTimeout, Message: fmt.Sprintf("the flow took longer than its timeout of %s", duration(r.program.Flow.Timeout))})
		}
		switch r.body(f.Main, r.program.Flow.Body, r.root()) {
		case done, returned:
			r.giveUp(f.Main)
			r.cancelWait(&f.Deadline)
			f.Phase = ended
			r.out.Value = r.value
			return Completed
		case failed:
			return r.fail(r.err)
		case yielded:
			return More
		}
		return Waiting
	}
	return r.cleanUp()
}

// fail ends the execution and keeps the frame where it stands, for a retry.
func (r *run) fail(err *Error) Status {
	f := r.frame
	r.giveUp(f.Main)
	r.cancelWait(&f.Deadline)
	f.Error, r.out.Err = err, err
	return Failed
}

// startCancel gives up what runs.
func (r *run) startCancel() {
	f := r.frame
	r.giveUp(f.Main)
	r.cancelWait(&f.Deadline)
	f.Main, f.Phase, f.After = nil, onCancel, &body{}
}

// cleanUp runs on_cancel and then the compensations. Failures there are recorded and passed over.
func (r *run) cleanUp() Status {
	f := r.frame
	for {
		blocks, names := r.program.Flow.OnCancel, r.root()
		if f.Phase == undoing {
			if len(f.Undo) == 0 {
				f.Phase, f.After = ended, nil
				return Canceled
			}
			last := f.Undo[len(f.Undo)-1]
			blocks = nil
			if b := r.program.blocks[last.Block]; b != nil {
				blocks = b.Compensate
			}
			names = over(over(names, last.Vars), map[string]any{"result": last.Result})
		}
		switch r.body(f.After, blocks, names) {
		case yielded:
			return More
		case waiting:
			return Waiting
		case failed:
			r.giveUp(f.After)
		}
		if f.Phase == undoing {
			f.Undo = f.Undo[:len(f.Undo)-1]
		}
		f.Phase, f.After = undoing, &body{}
	}
}

// finish stores the frame. One that is too large fails the execution where it stood before.
func (r *run) finish(before []byte, in Input) (*Output, error) {
	if r.out.Status == More && len(r.results) > 0 {
		r.frame.Pending = map[uint32]storedResult{}
		for wait, result := range r.results {
			r.frame.Pending[wait] = storedResult(result)
		}
	}
	if n := r.frame.waits(); n > MaxWaits && len(r.out.Effects) > 0 {
		return r.undoneBy(&Error{Code: CodeWaitLimit, Message: fmt.Sprintf(
			"the execution would wait for %d things at the same time, and at most %d are allowed: lower max_concurrent", n, MaxWaits)}, before, in)
	}
	if r.frame.fits() {
		data, err := encodeFrame(r.frame)
		if err != nil {
			return nil, fmt.Errorf("storing the frame of an execution: %w", err)
		}
		if len(data) <= MaxFrame {
			r.out.Frame = data
			return r.out, nil
		}
	}
	late := &Error{Code: CodeTooLarge, Message: fmt.Sprintf(
		"the names and results of the execution take more than the %d bytes that are kept: bind less, or keep large values in files", MaxFrame)}
	return r.undoneBy(late, before, in)
}

// undoneBy fails an execution where it stood before this Advance: the waits of that frame are given up.
func (r *run) undoneBy(err *Error, before []byte, in Input) (*Output, error) {
	f, wrong := decodeFrame(before)
	if wrong != nil {
		return nil, wrong
	}
	then := &run{program: r.program, frame: f, results: map[uint32]Result{}, out: &Output{Records: r.out.Records}}
	maps.Copy(then.results, in.Results)
	for wait := range f.Pending {
		then.results[wait] = Result{}
	}
	f.Pending = nil
	then.fail(err)
	then.out.Status = Failed
	if then.out.Frame, wrong = encodeFrame(f); wrong != nil {
		return nil, fmt.Errorf("storing the frame of an execution: %w", wrong)
	}
	return then.out, nil
}

// take returns the result of a wait, once.
func (r *run) take(wait uint32) (Result, bool) {
	result, ok := r.results[wait]
	if ok && wait != 0 {
		delete(r.results, wait)
		return result, true
	}
	return Result{}, false
}

// effect orders an effect and returns its wait.
func (r *run) effect(e Effect) uint32 {
	r.frame.LastWait++
	e.Wait = r.frame.LastWait
	for _, v := range []any{e.Spec, e.Input} {
		left := maxEffects - r.effects
		measure(v, &left)
		r.effects = maxEffects - left
	}
	if e.Question != nil {
		left := maxEffects - r.effects - len(e.Question.Prompt) - len(e.Question.Schema)
		measure(e.Question.Context, &left)
		r.effects = maxEffects - left
	}
	r.out.Effects = append(r.out.Effects, e)
	return e.Wait
}

// cancelWait gives up a wait, if there is one.
func (r *run) cancelWait(wait *uint32) {
	if *wait == 0 {
		return
	}
	if _, answered := r.results[*wait]; answered {
		delete(r.results, *wait)
		*wait = 0
		return
	}
	// An effect of this very Advance was never carried out.
	if i := slices.IndexFunc(r.out.Effects, func(e Effect) bool { return e.Wait == *wait && e.Kind != Cancel }); i >= 0 {
		r.out.Effects = slices.Delete(r.out.Effects, i, i+1)
	} else {
		r.out.Effects = append(r.out.Effects, Effect{Kind: Cancel, Wait: *wait})
	}
	*wait = 0
}

// scope finds names, the innermost first.
type scope struct {
	vars  map[string]any
	outer *scope
	// fixed says that the names are given: what is bound here goes to the scope around it.
	fixed bool
	// label says in which iteration: "[2]".
	label string
	// alias is of the outermost scope: the bindings of blocks by their ids.
	alias map[string]string
}

func (r *run) root() *scope { return &scope{vars: r.frame.Vars, alias: r.program.alias} }

// over returns a scope with given names over another.
func over(outer *scope, vars map[string]any) *scope {
	return &scope{vars: vars, outer: outer, fixed: true, label: outer.label}
}

// Lookup implements expr.Names.
func (s *scope) Lookup(name string) (any, bool) {
	for at := s; ; at = at.outer {
		if v, ok := at.vars[name]; ok {
			return v, true
		}
		if at.outer == nil {
			if binding, ok := at.alias[name]; ok {
				return s.Lookup(binding)
			}
			return nil, false
		}
	}
}

// assign changes a name where it is bound, or binds it in the innermost scope that takes names.
func (s *scope) assign(name string, v any) {
	into := (*scope)(nil)
	for at := s; at != nil; at = at.outer {
		if at.fixed {
			continue
		}
		if into == nil {
			into = at
		}
		if _, ok := at.vars[name]; ok {
			into = at
			break
		}
	}
	into.vars[name] = v
}

// inner are the names of all scopes but the outermost, for a compensation that runs when they are gone.
func (s *scope) inner() map[string]any {
	var all map[string]any
	for at := s; at.outer != nil; at = at.outer {
		for name, v := range at.vars {
			if all == nil {
				all = map[string]any{}
			}
			if _, ok := all[name]; !ok {
				all[name] = v
			}
		}
	}
	return all
}

func (s *scope) path(id string) string { return id + s.label }
