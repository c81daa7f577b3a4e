package expr

import (
	"errors"

	"github.com/mindcoordinator/mind/flow/expr/syntax"
)

func (m *machine) macro(n *syntax.Node) (any, error) {
	v, err := m.eval(n.Args[0])
	if err != nil {
		return nil, err
	}
	if _, ok := v.(map[string]any); ok {
		if v, err = keysOf(m, n.At, []any{v}); err != nil {
			return nil, err
		}
	}
	elements, ok := v.([]any)
	if !ok {
		return nil, failed(n.At, codeType, "%s takes a list or a map, not %s", n.Name, described(v))
	}
	m.variables = append(m.variables[:n.Slot], nil) // without those of macros that ended
	switch n.Name {
	case "all":
		return m.until(n, elements, false)
	case "exists":
		return m.until(n, elements, true)
	case "exists_one":
		return m.existsOne(n, elements)
	case "filter":
		return m.collect(n, elements, n.Args[1], nil)
	}
	if len(n.Args) == 2 {
		return m.collect(n, elements, nil, n.Args[1])
	}
	return m.collect(n, elements, n.Args[1], n.Args[2])
}

// holds evaluates the condition of a macro for an element.
func (m *machine) holds(n *syntax.Node, element any) (bool, error) {
	m.variables[n.Slot] = element
	v, err := m.eval(n.Args[1])
	if err != nil {
		return false, err
	}
	if v, ok := v.(bool); ok {
		return v, nil
	}
	return false, failed(n.At, codeType, "the condition of %s has to be a bool, not %s", n.Name, described(v))
}

// until evaluates the condition for the elements until one decides, as && and || do.
func (m *machine) until(n *syntax.Node, elements []any, decides bool) (any, error) {
	var first error
	for _, element := range elements {
		b, err := m.holds(n, element)
		if errors.Is(err, ErrBudget) {
			return nil, err
		}
		if err == nil && b == decides {
			return decides, nil
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

func (m *machine) existsOne(n *syntax.Node, elements []any) (any, error) {
	count := 0
	for _, element := range elements {
		b, err := m.holds(n, element)
		if err != nil {
			return nil, err
		}
		if b {
			count++
		}
	}
	return count == 1, nil
}

// collect makes a list of those elements for which the condition holds, or of what value is for them. A nil condition
// holds always.
func (m *machine) collect(n *syntax.Node, elements []any, condition, value *syntax.Node) (any, error) {
	if err := m.takeList(n.At, 0); err != nil {
		return nil, err
	}
	out := []any{}
	for _, element := range elements {
		if condition != nil {
			if b, err := m.holds(n, element); err != nil {
				return nil, err
			} else if !b {
				continue
			}
		}
		if value != nil {
			m.variables[n.Slot] = element
			var err error
			if element, err = m.eval(value); err != nil {
				return nil, err
			}
		}
		// Twice the memory of an element: the list grows by doubling.
		if err := m.take(n.At, 2*elementBytes); err != nil {
			return nil, err
		}
		out = append(out, element)
	}
	return out, nil
}
