package syntax

type operator struct {
	op         Op
	precedence int // a larger one binds tighter
}

var operators = map[string]operator{
	"||": {OpOr, 1},
	"&&": {OpAnd, 2},
	"==": {OpEqual, 3}, "!=": {OpUnequal, 3}, "<": {OpLess, 3}, "<=": {OpLessEqual, 3},
	">": {OpGreater, 3}, ">=": {OpGreaterEqual, 3}, "in": {OpIn, 3},
	"+": {OpAdd, 4}, "-": {OpSubtract, 4},
	"*": {OpMultiply, 5}, "/": {OpDivide, 5}, "%": {OpModulo, 5},
}

// binary parses operators of at least a precedence and their operands. All associate to the left.
func (p *parser) binary(least int) (*Node, error) {
	left, err := p.unary()
	var chain *Node // the last && or || that was made here, which further operands join
	for err == nil && p.token.kind == kindSymbol {
		o, known := operators[p.token.text]
		if !known || o.precedence < least {
			break
		}
		at := p.token.at
		p.next()
		right, err := p.binary(o.precedence + 1)
		if err != nil {
			return nil, err
		}
		args := []*Node{left, right}
		if chain != nil && chain == left && chain.Op == o.op {
			at, args = chain.At, append(chain.Args, right)
		}
		if left, err = p.made(Node{Op: o.op, At: at, Args: args}); err != nil {
			return nil, err
		}
		if o.op == OpAnd || o.op == OpOr {
			chain = left
		}
	}
	return left, err
}

func (p *parser) unary() (*Node, error) {
	at := p.token.at
	if !p.token.is("!") && !p.token.is("-") {
		return p.member()
	}
	symbol, op := p.token.text, OpNot
	p.next()
	if symbol == "-" {
		if op = OpNegate; p.token.kind == kindInt || p.token.kind == kindDouble {
			return p.negativeMember(at)
		}
	}
	var operand *Node
	var err error
	if p.token.is(symbol) {
		operand, err = p.unary()
	} else {
		operand, err = p.member()
	}
	if err != nil {
		return nil, err
	}
	return p.made(Node{Op: op, At: at, Args: []*Node{operand}})
}

// negativeMember parses a number after its sign, which is at at, and what is selected of it.
func (p *parser) negativeMember(at int) (*Node, error) {
	n, err := p.number(at, "-")
	if err != nil {
		return nil, err
	}
	return p.postfix(n)
}

func (p *parser) member() (*Node, error) {
	if p.token.is("-") { // after !, where only a literal may have a sign
		at := p.token.at
		p.next()
		if p.token.kind != kindInt && p.token.kind != kindDouble {
			return nil, p.expected("a number after -")
		}
		return p.negativeMember(at)
	}
	n, err := p.primary()
	if err != nil {
		return nil, err
	}
	return p.postfix(n)
}
