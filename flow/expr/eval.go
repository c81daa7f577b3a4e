package expr

import (
	"errors"
	"fmt"
	"strings"
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
	return newMachine(n, b).result(e.root)
}

// Truth returns a condition's value, which has to be a bool. An error is an *EvalError.
func Truth(v any) (bool, error) {
	if v, ok := v.(bool); ok {
		return v, nil
	}
	return false, failed(0, codeType, "a condition has to be a bool, not %s", described(v))
}

func (m *machine) eval(n *node) (any, error) {
	if err := m.work(n.at, 1); err != nil {
		return nil, err
	}
	switch n.op {
	case opConst:
		return n.value, nil
	case opGet:
		if m.names != nil {
			if v, ok := m.names.Lookup(n.name); ok {
				return v, nil
			}
		}
		return nil, failed(n.at, codeNoName, "there is no name %s", n.name)
	case opVariable:
		return m.variables[n.slot], nil
	case opAnd, opOr:
		return m.logic(n)
	case opChoose:
		return m.choose(n)
	case opList:
		return m.list(n)
	case opObject:
		return m.object(n)
	case opMacro:
		return m.macro(n)
	case opCall:
		args := make([]any, len(n.args))
		for i, arg := range n.args {
			var err error
			if args[i], err = m.eval(arg); err != nil {
				return nil, err
			}
		}
		return n.function.call(m, n.at, args)
	}
	a, err := m.eval(n.args[0])
	if err != nil {
		return nil, err
	}
	switch n.op {
	case opSelect:
		return m.selected(n, a)
	case opHas:
		return has(n, a)
	case opNegate:
		return negated(n, a)
	case opNot:
		if a, ok := a.(bool); ok {
			return !a, nil
		}
		return nil, failed(n.at, codeType, "! takes a bool, not %s", described(a))
	}
	b, err := m.eval(n.args[1])
	if err != nil {
		return nil, err
	}
	return m.binary(n, a, b)
}

func (m *machine) binary(n *node, a, b any) (any, error) {
	switch n.op {
	case opIndex:
		return indexed(n, a, b)
	case opIn:
		return m.in(n, a, b)
	case opEqual, opUnequal:
		equal, err := m.equal(n.at, a, b)
		return equal == (n.op == opEqual), err
	case opLess, opLessEqual, opGreater, opGreaterEqual:
		return m.compare(n, a, b)
	case opAdd:
		switch a := a.(type) {
		case string:
			if b, ok := b.(string); ok {
				if err := m.takeString(n.at, len(a)+len(b)); err != nil {
					return nil, err
				}
				return a + b, nil
			}
		case []any:
			if b, ok := b.([]any); ok {
				if err := m.takeList(n.at, int64(len(a)+len(b))); err != nil {
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

func (m *machine) compare(n *node, a, b any) (any, error) {
	order, ok := compareNumbers(a, b)
	if !ok {
		switch x := a.(type) {
		case string:
			var y string
			if y, ok = b.(string); ok {
				if err := m.work(n.at, chunks(min(len(x), len(y)))); err != nil {
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
		return nil, failed(n.at, codeType, "%s takes two numbers, two strings or two bools, not %s and %s", symbols[n.op], described(a), described(b))
	}
	switch n.op {
	case opLess:
		return order < 0, nil
	case opLessEqual:
		return order <= 0, nil
	case opGreater:
		return order > 0, nil
	}
	return order >= 0, nil
}

// logic evaluates && and ||. An operand that decides makes the result, whatever errors the others have, except that
// nothing makes up for a used up budget.
func (m *machine) logic(n *node) (any, error) {
	decides := n.op == opOr
	var first error
	for _, arg := range n.args {
		v, err := m.eval(arg)
		if err == nil {
			b, ok := v.(bool)
			if ok && b == decides {
				return decides, nil
			}
			if !ok {
				err = failed(n.at, codeType, "%s takes bools, not %s", symbols[n.op], described(v))
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

func (m *machine) choose(n *node) (any, error) {
	condition, err := m.eval(n.args[0])
	if err != nil {
		return nil, err
	}
	switch condition {
	case true:
		return m.eval(n.args[1])
	case false:
		return m.eval(n.args[2])
	}
	return nil, failed(n.at, codeType, "?: takes a bool before the question mark, not %s", described(condition))
}
