package syntax

import (
	"math"
)

// Op is an operator of the tree. The comments say what the arguments of its nodes are.
type Op uint8

const (
	OpConst    Op = iota // value
	OpGet                // name
	OpVariable           // name, slot
	OpSelect             // args[0].name
	OpHas                // has(args[0].name)
	OpIndex              // args[0][args[1]]
	OpList               // args
	OpObject             // args: keys and values in turn
	OpNot
	OpNegate
	OpAnd // two or more args
	OpOr  // two or more args
	OpChoose
	OpCall  // function of args
	OpMacro // name of args[0] with the variable in slot; the other args are evaluated for each element
	OpAdd
	OpSubtract
	OpMultiply
	OpDivide
	OpModulo
	OpEqual
	OpUnequal
	OpLess
	OpLessEqual
	OpGreater
	OpGreaterEqual
	OpIn
)

// String returns the name of an operator in texts, trees and messages; empty: it has none.
func (o Op) String() string { return symbols[o] }

// Precedence returns how tight a binary operator binds: a larger one binds tighter; 0: it is none.
func (o Op) Precedence() int { return operators[symbols[o]].precedence }

// symbols are the names of operators.
var symbols = map[Op]string{
	OpSelect: ".", OpHas: "has", OpIndex: "[]", OpList: "list", OpObject: "object", OpNot: "!", OpNegate: "-",
	OpAnd: "&&", OpOr: "||", OpChoose: "?:",
	OpAdd: "+", OpSubtract: "-", OpMultiply: "*", OpDivide: "/", OpModulo: "%",
	OpEqual: "==", OpUnequal: "!=", OpLess: "<", OpLessEqual: "<=", OpGreater: ">", OpGreaterEqual: ">=", OpIn: "in",
}

// Node is a part of an expression. It does not change after Parse.
type Node struct {
	Op       Op
	At       int // offset of the operator, or of the first word
	depth    int // of the tree below and including the node
	Name     string
	Slot     int // of a variable, counted from the outermost macro
	Value    any // of a literal; the name of the variable of a macro
	Function *Function
	Args     []*Node
}

// Expr is a parsed expression. It does not change, so any number of goroutines may use it.
type Expr struct {
	text  string
	Root  *Node
	roots []string
}

// Text returns the expression as it was written.
func (e *Expr) Text() string { return e.text }

// Roots returns the names that an evaluation may look up, sorted, each once. The variables of macros are none.
func (e *Expr) Roots() []string { return append([]string{}, e.roots...) }

// Tree returns the expression as a value that can be written as JSON. The package comment describes it.
func (e *Expr) Tree() any { return e.Root.tree() }

func (n *Node) tree() any {
	var out []any
	switch n.Op {
	case OpConst:
		if f, ok := n.Value.(float64); ok && f == math.Trunc(f) {
			return []any{"double", f}
		}
		return n.Value
	case OpGet, OpVariable:
		return []any{"get", n.Name}
	case OpSelect, OpHas:
		return []any{symbols[n.Op], n.Args[0].tree(), n.Name}
	case OpCall:
		out = []any{n.Function.Name}
	case OpMacro:
		out = []any{n.Name, n.Args[0].tree(), n.Value}
		for _, arg := range n.Args[1:] {
			out = append(out, arg.tree())
		}
		return out
	default:
		out = []any{symbols[n.Op]}
	}
	for _, arg := range n.Args {
		out = append(out, arg.tree())
	}
	return out
}
