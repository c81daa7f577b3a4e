package expr

import (
	"math"
)

type op uint8

const (
	opConst    op = iota // value
	opGet                // name
	opVariable           // name, slot
	opSelect             // args[0].name
	opHas                // has(args[0].name)
	opIndex              // args[0][args[1]]
	opList               // args
	opObject             // args: keys and values in turn
	opNot
	opNegate
	opAnd // two or more args
	opOr  // two or more args
	opChoose
	opCall  // function of args
	opMacro // name of args[0] with the variable in slot; the other args are evaluated for each element
	opAdd
	opSubtract
	opMultiply
	opDivide
	opModulo
	opEqual
	opUnequal
	opLess
	opLessEqual
	opGreater
	opGreaterEqual
	opIn
)

// symbols are the names of operators in texts, trees and messages.
var symbols = map[op]string{
	opSelect: ".", opHas: "has", opIndex: "[]", opList: "list", opObject: "object", opNot: "!", opNegate: "-",
	opAnd: "&&", opOr: "||", opChoose: "?:",
	opAdd: "+", opSubtract: "-", opMultiply: "*", opDivide: "/", opModulo: "%",
	opEqual: "==", opUnequal: "!=", opLess: "<", opLessEqual: "<=", opGreater: ">", opGreaterEqual: ">=", opIn: "in",
}

// node is a part of an expression. It does not change after Parse.
type node struct {
	op       op
	at       int // offset of the operator, or of the first word
	depth    int // of the tree below and including the node
	name     string
	slot     int // of a variable, counted from the outermost macro
	value    any // of a literal; the name of the variable of a macro
	function *function
	args     []*node
}

// Expr is a parsed expression. It does not change, so any number of goroutines may use it.
type Expr struct {
	text  string
	root  *node
	roots []string
}

// Text returns the expression as it was written.
func (e *Expr) Text() string { return e.text }

// Roots returns the names that an evaluation may look up, sorted, each once. The variables of macros are none.
func (e *Expr) Roots() []string { return append([]string{}, e.roots...) }

// Tree returns the expression as a value that can be written as JSON. The package comment describes it.
func (e *Expr) Tree() any { return e.root.tree() }

func (n *node) tree() any {
	var out []any
	switch n.op {
	case opConst:
		if f, ok := n.value.(float64); ok && f == math.Trunc(f) {
			return []any{"double", f}
		}
		return n.value
	case opGet, opVariable:
		return []any{"get", n.name}
	case opSelect, opHas:
		return []any{symbols[n.op], n.args[0].tree(), n.name}
	case opCall:
		out = []any{n.function.name}
	case opMacro:
		out = []any{n.name, n.args[0].tree(), n.value}
		for _, arg := range n.args[1:] {
			out = append(out, arg.tree())
		}
		return out
	default:
		out = []any{symbols[n.op]}
	}
	for _, arg := range n.args {
		out = append(out, arg.tree())
	}
	return out
}
