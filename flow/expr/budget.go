package expr

import (
	"errors"

	"github.com/mindcoordinator/mind/flow/expr/syntax"
)

// Budget limits what evaluations may still do. Each takes from it, so one budget can be for many expressions.
type Budget struct {
	// Ops counts steps: one for each operator, name, literal and call, one for each element that an operation visits,
	// and one for each 256 bytes of a string that it reads.
	Ops int64
	// Bytes counts the memory of the strings, lists and maps that are made, those that are dropped again included.
	Bytes int64
}

// ErrBudget is wrapped by errors of evaluations that used up their budget.
var ErrBudget = errors.New("the budget is used up")

// machine is one evaluation.
type machine struct {
	names     Names
	budget    *Budget
	variables []any // of the macros around the node that is evaluated
	built     bool  // a list or a map was made
}

func newMachine(n Names, b *Budget) *machine {
	if b == nil {
		b = &Budget{}
	}
	return &machine{names: n, budget: b}
}

// chunk is how many bytes of a string are read for one op.
const chunk = 256

func chunks(bytes int) int64 { return int64(bytes / chunk) }

// work charges ops.
func (m *machine) work(at int, ops int64) error {
	if m.budget.Ops -= ops; m.budget.Ops < 0 {
		m.budget.Ops = 0
		return failed(at, codeBudget, "the expression takes more steps than are left")
	}
	return nil
}

// take charges memory before it is made.
func (m *machine) take(at int, bytes int64) error {
	if m.budget.Bytes -= bytes; m.budget.Bytes < 0 {
		m.budget.Bytes = 0
		return failed(at, codeBudget, "the expression makes larger values than the budget allows")
	}
	return nil
}

// The memory of a list and of a map: a part for itself, and one for each element, with its number or string header.
const (
	listBytes, elementBytes = 48, 32
	mapBytes, entryBytes    = 96, 96
	stringBytes             = 16
)

func (m *machine) takeList(at int, length int64) error {
	m.built = true
	if err := m.work(at, length); err != nil {
		return err
	}
	return m.take(at, listBytes+elementBytes*length)
}

// takeString charges for a string that is made by reading as much.
func (m *machine) takeString(at, length int) error {
	if err := m.work(at, chunks(length)); err != nil {
		return err
	}
	return m.take(at, stringBytes+int64(length))
}

// result evaluates a whole expression. It charges for the result as what it is when it is written out, where each part
// counts as often as it occurs: ten steps can make a list that has 1,024 times the same element. A result that is a part
// of the names is free.
func (m *machine) result(root *syntax.Node) (any, error) {
	v, err := m.eval(root)
	if err == nil && m.built {
		err = m.walk(root.At, v, 0)
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

func (m *machine) walk(at int, v any, depth int) error {
	if depth > MaxDepth {
		return failed(at, codeRange, "the result %s", tooDeepValue)
	}
	if err := m.work(at, 1); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		return m.work(at, chunks(len(v)))
	case []any:
		for _, element := range v {
			if err := m.walk(at, element, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, key := range sortedKeys(v) {
			if err := m.work(at, 1+chunks(len(key))); err != nil {
				return err
			}
			if err := m.walk(at, v[key], depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
