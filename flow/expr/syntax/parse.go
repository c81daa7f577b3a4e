package syntax

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// MaxText is the number of bytes that an expression may have.
	MaxText = 4 << 10
	// MaxDepth is how deep an expression may be nested.
	MaxDepth = 64
)

// Parse parses an expression. An error is a *Error.
func Parse(text string) (*Expr, error) {
	if len(text) > MaxText {
		return nil, syntax(MaxText, "expected the end: an expression has at most %d bytes", MaxText)
	}
	if at := invalidAt(text); at >= 0 {
		return nil, syntax(at, "expected UTF-8")
	}
	p := parser{lexer: lexer{text: text, limit: len(text)}}
	root, err := p.whole()
	if err != nil {
		return nil, err
	}
	if p.token.kind != kindEnd {
		return nil, p.expected("an operator or the end")
	}
	return &Expr{text: text, Root: root, roots: p.sortedRoots()}, nil
}

// invalidAt returns where a text is not UTF-8, or -1.
func invalidAt(text string) int {
	for i, n := 0, 0; i < len(text); i += n {
		var r rune
		if r, n = utf8.DecodeRuneInString(text[i:]); r == utf8.RuneError && n == 1 {
			return i
		}
	}
	return -1
}

type parser struct {
	lexer lexer
	token token // the next one
	err   error // of reading it
	depth int
	scope []string // the variables of the macros around the token
	roots []string
}

// whole parses an expression and leaves the token after it in p.token.
func (p *parser) whole() (*Node, error) {
	p.next()
	n, err := p.expression()
	if err == nil {
		err = p.err
	}
	return n, err
}

func (p *parser) sortedRoots() []string {
	slices.Sort(p.roots)
	return slices.Compact(p.roots)
}

// next reads the next token. Its error is that of the next expected or of the end.
func (p *parser) next() {
	if p.err != nil {
		return
	}
	if p.token, p.err = p.lexer.next(); p.err != nil {
		p.token = token{kind: kindEnd, at: len(p.lexer.text)}
		p.lexer.pos = len(p.lexer.text)
	}
}

func (p *parser) expected(what string) error {
	if p.err != nil {
		return p.err
	}
	return syntax(p.token.at, "expected %s, found %s", what, p.token)
}

// skip reads a symbol that has to be there.
func (p *parser) skip(symbol string) error {
	if !p.token.is(symbol) {
		return p.expected(symbol)
	}
	p.next()
	return nil
}

// made returns a node, or an error if it is nested too deep.
func (p *parser) made(n Node) (*Node, error) {
	for _, arg := range n.Args {
		n.depth = max(n.depth, arg.depth)
	}
	if n.depth++; n.depth > MaxDepth {
		return nil, tooDeep(n.At)
	}
	return &n, nil
}

func tooDeep(at int) error {
	return syntax(at, "expected an expression that is nested at most %d deep", MaxDepth)
}

func (p *parser) expression() (*Node, error) {
	if p.depth == MaxDepth {
		return nil, tooDeep(p.token.at)
	}
	p.depth++
	defer func() { p.depth-- }()
	condition, err := p.binary(1)
	if err != nil || !p.token.is("?") {
		return condition, err
	}
	at := p.token.at
	p.next()
	yes, err := p.binary(1)
	if err != nil {
		return nil, err
	}
	if err := p.skip(":"); err != nil {
		return nil, err
	}
	no, err := p.expression()
	if err != nil {
		return nil, err
	}
	return p.made(Node{Op: OpChoose, At: at, Args: []*Node{condition, yes, no}})
}

// postfix parses the fields, indexes and calls that follow a value.
func (p *parser) postfix(n *Node) (*Node, error) {
	for {
		var err error
		switch {
		case p.token.is("."):
			n, err = p.selection(n)
		case p.token.is("["):
			at := p.token.at
			p.next()
			var index *Node
			if index, err = p.expression(); err != nil {
				return nil, err
			}
			if err = p.skip("]"); err != nil {
				return nil, err
			}
			n, err = p.made(Node{Op: OpIndex, At: at, Args: []*Node{n, index}})
		default:
			return n, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// selection parses .field, .function() or .macro() of a value.
func (p *parser) selection(n *Node) (*Node, error) {
	p.next()
	name := p.token
	if name.kind != kindName || isKeyword(name.text) {
		return nil, p.expected("the name of a field or a function after .")
	}
	p.next()
	if !p.token.is("(") {
		return p.made(Node{Op: OpSelect, At: name.at, Name: name.text, Args: []*Node{n}})
	}
	if _, ok := Macros[name.text]; ok {
		return p.macro(name, n)
	}
	return p.call(name, n)
}

func isKeyword(name string) bool { return name == "true" || name == "false" || name == "null" }

func (p *parser) primary() (*Node, error) {
	t := p.token
	switch {
	case t.kind == kindInt || t.kind == kindDouble:
		return p.number(t.at, "")
	case t.kind == kindString:
		return p.literal(t.text)
	case t.kind == kindName:
		return p.named()
	case t.is("("):
		p.next()
		n, err := p.expression()
		if err != nil {
			return nil, err
		}
		return n, p.skip(")")
	case t.is("["):
		args, err := p.elements("]")
		if err != nil {
			return nil, err
		}
		return p.made(Node{Op: OpList, At: t.at, Args: args})
	case t.is("{"):
		args, err := p.elements("}")
		if err != nil {
			return nil, err
		}
		return p.made(Node{Op: OpObject, At: t.at, Args: args})
	}
	return nil, p.expected("a value")
}

func (p *parser) literal(value any) (*Node, error) {
	at := p.token.at
	p.next()
	return p.made(Node{Op: OpConst, At: at, Value: value})
}

// number makes a literal of the token, which is a number.
func (p *parser) number(at int, sign string) (*Node, error) {
	var value any
	var err error
	if p.token.kind == kindDouble {
		value, err = strconv.ParseFloat(sign+p.token.text, 64)
	} else if digits := strings.ToLower(p.token.text); strings.HasPrefix(digits, "0x") {
		value, err = strconv.ParseInt(sign+digits[2:], 16, 64)
	} else {
		value, err = strconv.ParseInt(sign+digits, 10, 64)
	}
	if err != nil {
		return nil, syntax(at, "expected a number of 64 bits, found a larger one")
	}
	n, err := p.literal(value)
	if err == nil {
		n.At = at
	}
	return n, err
}

// named parses a keyword, a name or a call.
func (p *parser) named() (*Node, error) {
	name := p.token
	switch name.text {
	case "true":
		return p.literal(true)
	case "false":
		return p.literal(false)
	case "null":
		return p.literal(nil)
	}
	if reserved[name.text] {
		return nil, syntax(name.at, "expected a value, found %s, which is a reserved word", name.text)
	}
	p.next()
	if p.token.is("(") {
		if name.text == "has" {
			return p.has(name)
		}
		return p.call(name, nil)
	}
	for slot := len(p.scope) - 1; slot >= 0; slot-- {
		if p.scope[slot] == name.text {
			return p.made(Node{Op: OpVariable, At: name.at, Name: name.text, Slot: slot})
		}
	}
	p.roots = append(p.roots, name.text)
	return p.made(Node{Op: OpGet, At: name.at, Name: name.text})
}

// elements parses the elements of a list, the entries of a map, or the arguments of a function, up to the closing
// bracket. The token is the opening one. A comma may follow the last, except of arguments.
func (p *parser) elements(closing string) (args []*Node, err error) {
	p.next()
	for !p.token.is(closing) {
		n, err := p.expression()
		if err != nil {
			return nil, err
		}
		args = append(args, n)
		if closing == "}" {
			if err := p.skip(":"); err != nil {
				return nil, err
			}
			value, err := p.expression()
			if err != nil {
				return nil, err
			}
			args = append(args, value)
		}
		if p.token.is(closing) {
			break
		}
		if !p.token.is(",") {
			return nil, p.expected(", or " + closing)
		}
		p.next()
		if closing == ")" && p.token.is(closing) {
			return nil, p.expected("an argument after the comma")
		}
	}
	p.next()
	return args, nil
}
