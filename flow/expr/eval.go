package expr

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mindcoordinator/mind/flow/expr/syntax"
)

// The codes of EvalError.
const (
	codeType           = "TYPE"
	codeRange          = "RANGE"
	codeDivisionByZero = "DIVISION_BY_ZERO"
	codeNoName         = "NO_NAME"
	codeIndex          = "INDEX"
	codeOverflow       = "OVERFLOW"
	codeBudget         = "BUDGET"
)

// EvalError says why an expression has no value.
type EvalError struct {
	Offset  int    // of the operator or the name, in bytes from the begin of the text
	Code    string // TYPE, RANGE, DIVISION_BY_ZERO, NO_NAME, INDEX, OVERFLOW or BUDGET
	Message string
}

func (e *EvalError) Error() string {
	return fmt.Sprintf("%s at offset %d: %s", e.Code, e.Offset, e.Message)
}

// Unwrap returns ErrBudget if the budget was used up.
func (e *EvalError) Unwrap() error {
	if e.Code == codeBudget {
		return ErrBudget
	}
	return nil
}

func failed(at int, code, format string, args ...any) error {
	return &EvalError{Offset: at, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Eval returns the value of the expression, and takes from the budget; a nil budget is an empty one. An error is an
// *EvalError.
func (e *Expr) Eval(n Names, b *Budget) (any, error) {
	return newMachine(n, b).result(e.Root)
}

// Truth returns a condition's value, which has to be a bool. An error is an *EvalError.
func Truth(v any) (bool, error) {
	if v, ok := v.(bool); ok {
		return v, nil
	}
	return false, failed(0, codeType, "a condition has to be a bool, not %s", described(v))
}

func (m *machine) eval(n *syntax.Node) (any, error) {
	if err := m.work(n.At, 1); err != nil {
		return nil, err
	}
	switch n.Op {
	case syntax.OpConst:
		return n.Value, nil
	case syntax.OpGet:
		if m.names != nil {
			if v, ok := m.names.Lookup(n.Name); ok {
				return v, nil
			}
		}
		return nil, failed(n.At, codeNoName, "there is no name %s", n.Name)
	case syntax.OpVariable:
		return m.variables[n.Slot], nil
	case syntax.OpAnd, syntax.OpOr:
		return m.logic(n)
	case syntax.OpChoose:
		return m.choose(n)
	case syntax.OpList:
		return m.list(n)
	case syntax.OpObject:
		return m.object(n)
	case syntax.OpMacro:
		return m.macro(n)
	case syntax.OpCall:
		args := make([]any, len(n.Args))
		for i, arg := range n.Args {
			var err error
			if args[i], err = m.eval(arg); err != nil {
				return nil, err
			}
		}
		return calls[n.Function.Index](m, n.At, args)
	}
	a, err := m.eval(n.Args[0])
	if err != nil {
		return nil, err
	}
	switch n.Op {
	case syntax.OpSelect:
		return m.selected(n, a)
	case syntax.OpHas:
		return has(n, a)
	case syntax.OpNegate:
		return negated(n, a)
	case syntax.OpNot:
		if a, ok := a.(bool); ok {
			return !a, nil
		}
		return nil, failed(n.At, codeType, "! takes a bool, not %s", described(a))
	}
	b, err := m.eval(n.Args[1])
	if err != nil {
		return nil, err
	}
	return m.binary(n, a, b)
}

func (m *machine) binary(n *syntax.Node, a, b any) (any, error) {
	switch n.Op {
	case syntax.OpIndex:
		return indexed(n, a, b)
	case syntax.OpIn:
		return m.in(n, a, b)
	case syntax.OpEqual, syntax.OpUnequal:
		equal, err := m.equal(n.At, a, b)
		return equal == (n.Op == syntax.OpEqual), err
	case syntax.OpLess, syntax.OpLessEqual, syntax.OpGreater, syntax.OpGreaterEqual:
		return m.compare(n, a, b)
	case syntax.OpAdd:
		switch a := a.(type) {
		case string:
			if b, ok := b.(string); ok {
				if err := m.takeString(n.At, len(a)+len(b)); err != nil {
					return nil, err
				}
				return a + b, nil
			}
		case []any:
			if b, ok := b.([]any); ok {
				if err := m.takeList(n.At, int64(len(a)+len(b))); err != nil {
					return nil, err
				}
				return append(append(make([]any, 0, len(a)+len(b)), a...), b...), nil
			}
		}
	}
	return arithmetic(n, a, b)
}

func (m *machine) equal(at int, a, b any) (bool, error) {
	return equalWithin(a, b, func(ops int64) error { return m.work(at, ops) })
}

func (m *machine) compare(n *syntax.Node, a, b any) (any, error) {
	order, ok := compareNumbers(a, b)
	if !ok {
		switch x := a.(type) {
		case string:
			var y string
			if y, ok = b.(string); ok {
				if err := m.work(n.At, chunks(min(len(x), len(y)))); err != nil {
					return nil, err
				}
				order = strings.Compare(x, y)
			}
		case bool:
			var y bool
			if y, ok = b.(bool); ok && x {
				order = 1
			}
			if y {
				order--
			}
		}
	}
	if !ok {
		return nil, failed(n.At, codeType, "%s takes two numbers, two strings or two bools, not %s and %s", n.Op, described(a), described(b))
	}
	switch n.Op {
	case syntax.OpLess:
		return order < 0, nil
	case syntax.OpLessEqual:
		return order <= 0, nil
	case syntax.OpGreater:
		return order > 0, nil
	}
	return order >= 0, nil
}

// logic evaluates && and ||. An operand that decides makes the result, whatever errors the others have, except that
// nothing makes up for a used up budget.
func (m *machine) logic(n *syntax.Node) (any, error) {
	decides := n.Op == syntax.OpOr
	var first error
	for _, arg := range n.Args {
		v, err := m.eval(arg)
		if err == nil {
			b, ok := v.(bool)
			if ok && b == decides {
				return decides, nil
			}
			if !ok {
				err = failed(n.At, codeType, "%s takes bools, not %s", n.Op, described(v))
			}
		}
		if errors.Is(err, ErrBudget) {
			return nil, err
		}
		if first == nil {
			first = err
		}
	}
	if first != nil {
		return nil, first
	}
	return !decides, nil
}

func (m *machine) choose(n *syntax.Node) (any, error) {
	condition, err := m.eval(n.Args[0])
	if err != nil {
		return nil, err
	}
	switch condition {
	case true:
		return m.eval(n.Args[1])
	case false:
		return m.eval(n.Args[2])
	}
	return nil, failed(n.At, codeType, "?: takes a bool before the question mark, not %s", described(condition))
}
