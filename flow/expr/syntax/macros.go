package syntax

// Macros evaluate arguments once for each element of a list, or for each key of a map, which their first argument names.
// The table has how many arguments may follow it.
var Macros = map[string]int{"all": 1, "exists": 1, "exists_one": 1, "filter": 1, "map": 2}

// macro parses the arguments of a macro of target. The token is the opening parenthesis.
func (p *parser) macro(name token, target *Node) (*Node, error) {
	p.next()
	variable := p.token
	if variable.kind != kindName || isKeyword(variable.text) || reserved[variable.text] {
		return nil, p.expected("the name of a variable")
	}
	p.next()
	n := Node{Op: OpMacro, At: name.at, Name: name.text, Value: variable.text, Slot: len(p.scope), Args: []*Node{target}}
	p.scope = append(p.scope, variable.text)
	for range Macros[name.text] {
		if len(n.Args) > 1 && p.token.is(")") {
			break
		}
		if err := p.skip(","); err != nil {
			return nil, err
		}
		arg, err := p.expression()
		if err != nil {
			return nil, err
		}
		n.Args = append(n.Args, arg)
	}
	p.scope = p.scope[:n.Slot]
	if err := p.skip(")"); err != nil {
		return nil, err
	}
	return p.made(n)
}

// has parses the arguments of has. The token is the opening parenthesis.
func (p *parser) has(name token) (*Node, error) {
	p.next()
	at := p.token.at
	n, err := p.expression()
	if err != nil {
		return nil, err
	}
	if n.Op != OpSelect {
		return nil, syntax(at, "expected a field in has, such as has(a.b)")
	}
	if err := p.skip(")"); err != nil {
		return nil, err
	}
	return p.made(Node{Op: OpHas, At: name.at, Name: n.Name, Args: n.Args})
}
