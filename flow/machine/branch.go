package machine

import (
	"fmt"

	"github.com/mindcoordinator/mind/flow/expr"
	"github.com/mindcoordinator/mind/flow/ir"
)

// otherwise is the index of an else.
const otherwise = -1

// branch runs the first case whose condition holds.
func (r *run) branch(b *ir.Block, a *act, names *scope) outcome {
	if len(a.Kids) == 0 {
		inner, ok := r.inputs(b, names)
		if !ok {
			return failed
		}
		chosen := otherwise
		for i := range b.Cases {
			is, ok := r.truth(b.Cases[i].When, inner)
			if !ok {
				return failed
			}
			if is {
				chosen = i
				break
			}
		}
		a.Kids = []kid{{Index: chosen, Body: &body{}}}
	}
	if i := a.Kids[0].Index; i != otherwise {
		return r.body(a.Kids[0].Body, b.Cases[i].Body, names)
	}
	return r.body(a.Kids[0].Body, b.Else, names)
}

// match runs the first arm that has the value.
func (r *run) match(b *ir.Block, a *act, names *scope) outcome {
	if len(a.Kids) == 0 {
		inner, ok := r.inputs(b, names)
		if !ok {
			return failed
		}
		v, ok := r.eval(b.Subject, inner)
		if !ok {
			return failed
		}
		a.Kids = []kid{{Index: armOf(b.Arms, v), Body: &body{}}}
	}
	if i := a.Kids[0].Index; i != otherwise {
		return r.body(a.Kids[0].Body, b.Arms[i].Body, names)
	}
	return r.body(a.Kids[0].Body, b.Else, names)
}

func armOf(arms []ir.Arm, v any) int {
	for i := range arms {
		for _, candidate := range arms[i].Values {
			if plain, err := expr.Normalize(candidate); err == nil && expr.Equal(plain, v) {
				return i
			}
		}
	}
	return otherwise
}

// The stages of a try. No other kind of block has the last two.
const (
	trying    = 0
	catching  = 11
	finishing = 12
)

// try runs a body; its catch if that fails; and its finally in any case.
func (r *run) try(b *ir.Block, a *act, names *scope) outcome {
	for {
		if len(a.Kids) == 0 {
			a.Kids = []kid{{Body: &body{}}}
		}
		at := a.Kids[0].Body
		switch a.Stage {
		case trying, catching:
			blocks, inner := b.Body, names
			if a.Stage == catching {
				blocks = b.Catch
				inner = over(names, map[string]any{"error": errorValue(a.Err)})
			}
			switch o := r.body(at, blocks, inner); o {
			case waiting, yielded:
				return o
			case failed:
				caught := r.err
				r.giveUp(at)
				a.Err = caught
				if a.Stage == trying && b.Catch != nil {
					a.Stage, a.Kids = catching, nil
					continue
				}
			case done:
				a.Err, a.Value = nil, r.value
			case returned:
				r.giveUp(at)
				a.Err, a.Value, a.Returned = nil, r.value, true
			}
			a.Stage, a.Kids = finishing, nil
		case finishing:
			switch o := r.body(at, b.Finally, names); o {
			case waiting, yielded, failed, returned:
				return o
			}
			r.value = a.Value
			if a.Err != nil {
				r.err = a.Err
				return failed
			}
			if a.Returned {
				return returned
			}
			return done
		}
	}
}

// while runs a body as long as a condition holds.
func (r *run) while(b *ir.Block, a *act, names *scope) outcome {
	for {
		if len(a.Kids) == 0 {
			if r.fuel <= 0 {
				return yielded
			}
			r.fuel--
			inner, ok := r.inputs(b, names)
			if !ok {
				return failed
			}
			is, ok := r.truth(b.When, inner)
			if !ok {
				return failed
			}
			if !is {
				r.value = a.Value
				return done
			}
			if a.Next >= b.MaxIterations {
				r.err = &Error{Code: CodeIterationLimit, Message: fmt.Sprintf("the condition still holds after %d iterations, which is its max_iterations", b.MaxIterations)}
				return failed
			}
			a.Kids = []kid{{Body: &body{}}}
		}
		if o := r.body(a.Kids[0].Body, b.Body, names); o != done {
			return o
		}
		a.Value, a.Kids = r.value, nil
		a.Next++
	}
}
