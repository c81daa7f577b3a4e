package machine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/flow/expr"
	"github.com/mindcoordinator/mind/flow/ir"
)

func duration(d ir.Duration) time.Duration { return time.Duration(d) }

// body runs a body from where it stands. Its value is in r.value when it is done, its error in r.err when it has failed.
func (r *run) body(b *body, blocks []ir.Block, names *scope) outcome {
	for b.PC < len(blocks) {
		block := &blocks[b.PC]
		if o := r.block(b, block, names); o != done {
			return o
		}
		b.Last, b.Cur = r.value, nil
		b.PC++
	}
	r.value = b.Last
	r.refresh()
	return done
}

// block runs the block at which a body stands.
func (r *run) block(in *body, b *ir.Block, names *scope) outcome {
	for {
		if in.Cur == nil {
			if r.fuel <= 0 || len(r.out.Effects) >= r.limits.Effects || r.effects >= maxEffects {
				return yielded
			}
			in.Cur = &act{}
			if !r.enter(b, in.Cur, names) {
				in.Cur.Failed = true
				return failed
			}
		}
		a := in.Cur
		o := r.attempt(b, a, names)
		switch o {
		case done:
			r.leave(b, a, names)
			return done
		case failed:
			again, o := r.failed(b, a, names)
			if again {
				continue
			}
			if o == done {
				r.leave(b, a, names)
			}
			return o
		case returned:
			r.giveUpAct(a)
			exit := Record{Kind: Exited, Attempt: a.Attempt}
			if b.Kind == ir.Rigid {
				exit.Value = r.value
			}
			r.record(exit, b, names)
		}
		return o
	}
}

// enter starts a block, or an attempt of it.
func (r *run) enter(b *ir.Block, a *act, names *scope) bool {
	r.fuel--
	if r.frame.Blocks++; r.frame.Blocks > r.limits.Blocks {
		r.err = &Error{Code: CodeBlockLimit, Step: names.path(b.ID), Message: fmt.Sprintf("the execution has run %d blocks, and no more are allowed", r.limits.Blocks)}
		return false
	}
	r.record(Record{Kind: Entered, Attempt: a.Attempt}, b, names)
	return true
}

// leave binds the result of a block.
func (r *run) leave(b *ir.Block, a *act, names *scope) {
	r.cancelWait(&a.Timer)
	bind(b, r.value, names)
	// A block whose failure was handled has done nothing to undo.
	if len(b.Compensate) > 0 && a.Mode == plain {
		r.frame.Undo = append(r.frame.Undo, undo{Block: b.ID, Result: r.value, Vars: names.inner()})
	}
	r.record(Record{Kind: Exited, Attempt: a.Attempt, Name: b.ResultBinding, Value: r.value}, b, names)
}

func bind(b *ir.Block, v any, names *scope) {
	if b.ResultBinding != "" {
		names.assign(b.ResultBinding, v)
		return
	}
	names.assign(b.ID, v)
}

// attempt goes on with one attempt of a block.
func (r *run) attempt(b *ir.Block, a *act, names *scope) outcome {
	switch a.Mode {
	case backingOff:
		if _, over := r.take(a.Wait); !over {
			return waiting
		}
		*a = act{Attempt: a.Attempt}
		if !r.enter(b, a, names) {
			return failed
		}
	case handling:
		return r.handle(b, a, names)
	case asking:
		return r.answered(b, a, names)
	}
	r.refresh()
	if b.Timeout > 0 && !hasDeadline(b) {
		if a.Timer == 0 {
			a.Timer = r.effect(Effect{Kind: Timer, After: duration(b.Timeout), Block: b.ID, Path: names.path(b.ID), Node: b.Node()})
		} else if _, late := r.take(a.Timer); late {
			a.Timer = 0
			r.err = &Error{Code: CodeTimeout, Message: fmt.Sprintf("it took longer than its timeout of %s", duration(b.Timeout)), Retryable: true}
			return failed
		}
	}
	switch b.Kind {
	case ir.Rigid:
		return r.rigid(b, names)
	case ir.If:
		return r.branch(b, a, names)
	case ir.Match:
		return r.match(b, a, names)
	case ir.Foreach:
		return r.foreach(b, a, names)
	case ir.While:
		return r.while(b, a, names)
	case ir.Parallel:
		return r.parallel(b, a, names)
	case ir.Try:
		return r.try(b, a, names)
	case ir.Wait:
		return r.wait(b, a, names)
	case ir.Checkpoint:
		return r.ask(b, a, names)
	case ir.CoreCall:
		return r.call(b, a, names)
	case ir.Compute:
		return r.compute(b, a, names)
	case ir.Debug:
		return r.debug(b, names)
	}
	r.err = &Error{Code: CodeNotSupported, Message: fmt.Sprintf("this version of Mind does not run blocks of kind %s", b.Kind)}
	return failed
}

// hasDeadline says that the effect of a block has the timeout itself.
func hasDeadline(b *ir.Block) bool {
	return b.Kind == ir.Wait && b.Event != "" || b.Kind == ir.Checkpoint || b.Kind == ir.CoreCall || b.Kind == ir.Compute
}

// failed decides what a failure of a block leads to: another attempt, a handler, or the failure of the body. again: run the block again.
func (r *run) failed(b *ir.Block, a *act, names *scope) (again bool, _ outcome) {
	err := r.err
	if err.Step == "" {
		err.Step = names.path(b.ID)
	}
	if a.Mode == handling || a.Mode == asking {
		a.Failed = true
		return false, failed
	}
	if retry := b.Retry; retry != nil && a.Attempt < retry.Max && worthAnother(retry, err) {
		r.giveUpAct(a)
		r.record(Record{Kind: Retrying, Attempt: a.Attempt, Err: err}, b, names)
		*a = act{Attempt: a.Attempt + 1, Mode: backingOff}
		a.Wait = r.effect(Effect{Kind: Timer, After: backoff(retry, a.Attempt), Block: b.ID, Path: names.path(b.ID), Node: b.Node()})
		return true, waiting
	}
	r.record(Record{Kind: BlockFailed, Attempt: a.Attempt, Err: err}, b, names)
	for i := range b.OnFailure {
		h := &b.OnFailure[i]
		if len(h.Match) > 0 && !slices.Contains(h.Match, err.Code) && !slices.Contains(h.Match, "*") {
			continue
		}
		r.giveUpAct(a)
		*a = act{Attempt: a.Attempt, Mode: handling, Handler: i, Err: err, Kids: []kid{{Body: &body{}}}}
		if h.Action == "checkpoint" {
			a.Mode, a.Kids = asking, nil
			a.Wait = r.effect(failureQuestion(b, err, names))
		}
		return true, waiting
	}
	a.Failed = true
	return false, failed
}

func worthAnother(retry *ir.Retry, err *Error) bool {
	if len(retry.On) == 0 {
		return err.Retryable
	}
	return slices.Contains(retry.On, err.Code) || slices.Contains(retry.On, "*")
}

// backoff doubles from attempt to attempt.
func backoff(retry *ir.Retry, attempt int) time.Duration {
	first, most := duration(retry.Backoff), duration(retry.Cap)
	if first == 0 {
		first = time.Second
	}
	if most == 0 {
		most = max(first, 5*time.Minute)
	}
	return time.Duration(min(float64(first)*math.Pow(2, float64(attempt-1)), float64(most)))
}

// handle runs the body of a failure handler.
func (r *run) handle(b *ir.Block, a *act, names *scope) outcome {
	h := &b.OnFailure[a.Handler]
	o := r.body(a.Kids[0].Body, h.Body, over(names, map[string]any{"error": errorValue(a.Err)}))
	if o != done {
		return o
	}
	if h.Action == "fail" {
		r.err = a.Err
		return failed
	}
	r.value = nil
	return done
}

func errorValue(e *Error) map[string]any {
	return map[string]any{"code": e.Code, "message": e.Message, "step": e.Step, "retryable": e.Retryable}
}

// failureQuestion asks people what to do about a failure.
func failureQuestion(b *ir.Block, err *Error, names *scope) Effect {
	return Effect{
		Kind: Ask, Block: b.ID, Path: names.path(b.ID), Node: b.Node(),
		Question: &Question{
			Type: "failure", Prompt: fmt.Sprintf("The step %s failed: %s. Try it again?", names.path(b.ID), err.Message),
			Options: []Option{{"retry", "Try it again"}, {"continue", "Go on without it"}, {"fail", "Let the execution fail"}},
			Context: map[string]any{"error": errorValue(err)}, Needed: 1, Of: 1,
		},
	}
}

// answered waits for the answer to failureQuestion.
func (r *run) answered(b *ir.Block, a *act, names *scope) outcome {
	result, ok := r.take(a.Wait)
	if !ok {
		return waiting
	}
	a.Wait = 0
	choice := ""
	if answer, ok := result.Value.(map[string]any); ok {
		choice, _ = answer["resolution"].(string)
	}
	switch choice {
	case "retry":
		*a = act{Attempt: a.Attempt + 1}
		if !r.enter(b, a, names) {
			return failed
		}
		return r.attempt(b, a, names)
	case "continue":
		r.value = nil
		return done
	}
	r.err = a.Err
	return failed
}

func (r *run) record(rec Record, b *ir.Block, names *scope) {
	rec.Block, rec.Path, rec.Node, rec.BlockKind = b.ID, names.path(b.ID), b.Node(), string(b.Kind)
	r.out.Records = append(r.out.Records, rec)
}

// refresh begins the budget of a block, or of what a block evaluates after a body.
func (r *run) refresh() { r.budget = &expr.Budget{Ops: r.limits.Fuel, Bytes: maxBytes} }

// eval evaluates an expression; its cost counts as fuel.
func (r *run) eval(e *ir.Expr, names *scope) (any, bool) {
	if e == nil || e.Expr == nil {
		return nil, true
	}
	return r.evaluate(e.Eval, names)
}

func (r *run) evaluate(eval func(expr.Names, *expr.Budget) (any, error), names *scope) (any, bool) {
	before := r.budget.Ops
	v, err := eval(names, r.budget)
	r.fuel -= before - r.budget.Ops
	if err == nil {
		return v, true
	}
	r.err = &Error{Code: CodeFailed, Message: err.Error()}
	if known := new(expr.EvalError); errors.As(err, &known) {
		r.err.Code, r.err.Message = known.Code, known.Message
	}
	return nil, false
}

// text evaluates a template to text.
func (r *run) text(t *ir.Template, names *scope) (string, bool) {
	if t == nil || t.Template == nil {
		return "", true
	}
	v, ok := r.evaluate(t.Eval, names)
	if !ok {
		return "", false
	}
	if v == nil {
		return "", true
	}
	if s, isText := v.(string); isText {
		return s, true
	}
	data := &bytes.Buffer{}
	e := json.NewEncoder(data)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		r.err = &Error{Code: CodeType, Message: fmt.Sprintf("the text %q: %v", t.Text(), err)}
		return "", false
	}
	return strings.TrimSuffix(data.String(), "\n"), true
}

// truth evaluates a condition.
func (r *run) truth(e *ir.Expr, names *scope) (is, ok bool) {
	v, ok := r.eval(e, names)
	if !ok {
		return false, false
	}
	is, err := expr.Truth(v)
	if err != nil {
		r.err = &Error{Code: CodeType, Message: fmt.Sprintf("the condition %q: %v", e.Text(), err)}
		return false, false
	}
	return is, true
}
