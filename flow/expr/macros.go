package expr

import "errors"

// macros evaluate arguments once for each element of a list, or for each key of a map, which their first argument names.
// The table has how many arguments may follow it.
var macros = map[string]int{"all": 1, "exists": 1, "exists_one": 1, "filter": 1, "map": 2}

// macro parses the arguments of a macro of target. The token is the opening parenthesis.
func (p *parser) macro(name token, target *node) (*node, error) {
	p.next()
	variable := p.token
	if variable.kind != kindName || isKeyword(variable.text) || reserved[variable.text] {
		return nil, p.expected("the name of a variable")
	}
	p.next()
	n := node{op: opMacro, at: name.at, name: name.text, value: variable.text, slot: len(p.scope), args: []*node{target}}
	p.scope = append(p.scope, variable.text)
	for range macros[name.text] {
		if len(n.args) > 1 && p.token.is(")") {
			break
		}
		if err := p.skip(","); err != nil {
			return nil, err
		}
		arg, err := p.expression()
		if err != nil {
			return nil, err
		}
		n.args = append(n.args, arg)
	}
	p.scope = p.scope[:n.slot]
	if err := p.skip(")"); err != nil {
		return nil, err
	}
	return p.made(n)
}

// has parses the arguments of has. The token is the opening parenthesis.
func (p *parser) has(name token) (*node, error) {
	p.next()
	at := p.token.at
	n, err := p.expression()
	if err != nil {
		return nil, err
	}
	if n.op != opSelect {
		return nil, syntax(at, "expected a field in has, such as has(a.b)")
	}
	if err := p.skip(")"); err != nil {
		return nil, err
	}
	return p.made(node{op: opHas, at: name.at, name: n.name, args: n.args})
}

func (m *machine) macro(n *node) (any, error) {
	v, err := m.eval(n.args[0])
	if err != nil {
		return nil, err
	}
	if _, ok := v.(map[string]any); ok {
		if v, err = functions["keys"].call(m, n.at, []any{v}); err != nil {
			return nil, err
		}
	}
	elements, ok := v.([]any)
	if !ok {
		return nil, failed(n.at, codeType, "%s takes a list or a map, not %s", n.name, described(v))
	}
	m.variables = append(m.variables[:n.slot], nil) // without those of macros that ended
	switch n.name {
	case "all":
		return m.until(n, elements, false)
	case "exists":
		return m.until(n, elements, true)
	case "exists_one":
		return m.existsOne(n, elements)
	case "filter":
		return m.collect(n, elements, n.args[1], nil)
	}
	if len(n.args) == 2 {
		return m.collect(n, elements, nil, n.args[1])
	}
	return m.collect(n, elements, n.args[1], n.args[2])
}

// holds evaluates the condition of a macro for an element.
func (m *machine) holds(n *node, element any) (bool, error) {
	m.variables[n.slot] = element
	v, err := m.eval(n.args[1])
	if err != nil {
		return false, err
	}
	if v, ok := v.(bool); ok {
		return v, nil
	}
	return false, failed(n.at, codeType, "the condition of %s has to be a bool, not %s", n.name, described(v))
}

// until evaluates the condition for the elements until one decides, as && and || do.
func (m *machine) until(n *node, elements []any, decides bool) (any, error) {
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

func (m *machine) existsOne(n *node, elements []any) (any, error) {
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
func (m *machine) collect(n *node, elements []any, condition, value *node) (any, error) {
	if err := m.takeList(n.at, 0); err != nil {
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
			m.variables[n.slot] = element
			var err error
			if element, err = m.eval(value); err != nil {
				return nil, err
			}
		}
		// Twice the memory of an element: the list grows by doubling.
		if err := m.take(n.at, 2*elementBytes); err != nil {
			return nil, err
		}
		out = append(out, element)
	}
	return out, nil
}
