package expr

type operator struct {
	op         op
	precedence int // a larger one binds tighter
}

var operators = map[string]operator{
	"||": {opOr, 1},
	"&&": {opAnd, 2},
	"==": {opEqual, 3}, "!=": {opUnequal, 3}, "<": {opLess, 3}, "<=": {opLessEqual, 3},
	">": {opGreater, 3}, ">=": {opGreaterEqual, 3}, "in": {opIn, 3},
	"+": {opAdd, 4}, "-": {opSubtract, 4},
	"*": {opMultiply, 5}, "/": {opDivide, 5}, "%": {opModulo, 5},
}

// binary parses operators of at least a precedence and their operands. All associate to the left.
func (p *parser) binary(least int) (*node, error) {
	left, err := p.unary()
	var chain *node // the last && or || that was made here, which further operands join
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
		args := []*node{left, right}
		if chain != nil && chain == left && chain.op == o.op {
			at, args = chain.at, append(chain.args, right)
		}
		if left, err = p.made(node{op: o.op, at: at, args: args}); err != nil {
			return nil, err
		}
		if o.op == opAnd || o.op == opOr {
			chain = left
		}
	}
	return left, err
}

func (p *parser) unary() (*node, error) {
	at := p.token.at
	if !p.token.is("!") && !p.token.is("-") {
		return p.member()
	}
	symbol, op := p.token.text, opNot
	p.next()
	if symbol == "-" {
		if op = opNegate; p.token.kind == kindInt || p.token.kind == kindDouble {
			return p.negativeMember(at)
		}
	}
	var operand *node
	var err error
	if p.token.is(symbol) {
		operand, err = p.unary()
	} else {
		operand, err = p.member()
	}
	if err != nil {
		return nil, err
	}
	return p.made(node{op: op, at: at, args: []*node{operand}})
}

// negativeMember parses a number after its sign, which is at at, and what is selected of it.
func (p *parser) negativeMember(at int) (*node, error) {
	n, err := p.number(at, "-")
	if err != nil {
		return nil, err
	}
	return p.postfix(n)
}

func (p *parser) member() (*node, error) {
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
