package machine

import (
	"fmt"
	"maps"
	"slices"

	"github.com/mindcoordinator/mind/flow/ir"
)

// rigid runs the statements of a block, all in one Advance. The assignments of statements before a failing one stay.
func (r *run) rigid(b *ir.Block, names *scope) outcome {
	inner, ok := r.inputs(b, names)
	if !ok {
		return failed
	}
	var last any
	for i := range b.Statements {
		s := &b.Statements[i]
		switch s.Kind {
		case ir.StatementExpression:
			if s.Template != nil {
				last, ok = r.evaluate(s.Template.Eval, inner)
			} else {
				last, ok = r.eval(s.Expression, inner)
			}
		case ir.StatementAssign:
			if last, ok = r.eval(s.Value, inner); ok {
				names.assign(s.Name, last)
			}
		case ir.StatementEmit:
			var data any
			if data, ok = r.evaluate(s.Data.Eval, inner); ok {
				r.record(Record{Kind: Emitted, Name: s.Event, Value: data}, b, names)
			}
		case ir.StatementReturn:
			if r.value, ok = r.eval(s.Value, inner); ok {
				return returned
			}
		case ir.StatementFail:
			message, fine := r.text(s.Message, inner)
			if ok = fine; ok {
				r.err = &Error{Code: s.Code, Message: message, Retryable: s.Retryable}
				if s.Code == "" {
					r.err.Code = CodeFailed
				}
				return failed
			}
		default:
			r.err = &Error{Code: CodeNotSupported, Message: fmt.Sprintf("this version of Mind does not run statements of kind %s", s.Kind)}
			return failed
		}
		if !ok {
			return failed
		}
	}
	r.value = last
	return done
}

// inputs are the names of a block with its input bindings, which are evaluated at once.
func (r *run) inputs(b *ir.Block, names *scope) (*scope, bool) {
	if len(b.InputBindings) == 0 {
		return names, true
	}
	values, ok := r.inputValues(b, names)
	return over(names, values), ok
}

func (r *run) inputValues(b *ir.Block, names *scope) (map[string]any, bool) {
	values := make(map[string]any, len(b.InputBindings))
	for _, name := range slices.Sorted(maps.Keys(b.InputBindings)) {
		v, ok := r.eval(b.InputBindings[name], names)
		if !ok {
			r.err.Message = fmt.Sprintf("the input %s: %s", name, r.err.Message)
			return nil, false
		}
		values[name] = v
	}
	return values, true
}

// debug records values.
func (r *run) debug(b *ir.Block, names *scope) outcome {
	inner, ok := r.inputs(b, names)
	if !ok {
		return failed
	}
	v, ok := r.evaluate(b.Values.Eval, inner)
	if !ok {
		return failed
	}
	r.record(Record{Kind: Emitted, Name: "debug." + b.Label, Value: v}, b, names)
	r.value = v
	return done
}
