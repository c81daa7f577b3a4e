package expr

import (
	"strconv"
	"strings"

	"github.com/mindcoordinator/mind/flow/expr/syntax"
)

// The levels of the grammar: an operator of a lower level has to be between parentheses where a higher one is expected.
const (
	levelChoose = iota
	levelOr
	levelAnd
	levelRelation
	levelAdd
	levelMultiply
	levelUnary
	levelMember
)

func level(n *syntax.Node) int {
	switch n.Op {
	case syntax.OpChoose:
		return levelChoose
	case syntax.OpNot, syntax.OpNegate:
		return levelUnary
	}
	if precedence := n.Op.Precedence(); precedence > 0 && len(n.Args) > 1 {
		return precedence
	}
	return levelMember
}

// print writes a node with as few parentheses as its place in a text allows.
func print(n *syntax.Node, least int) string {
	if level(n) < least {
		return "(" + print(n, 0) + ")"
	}
	arg := func(i int) string { return print(n.Args[i], 0) }
	switch n.Op {
	case syntax.OpConst:
		return printLiteral(n.Value)
	case syntax.OpGet, syntax.OpVariable:
		return n.Name
	case syntax.OpSelect:
		return print(n.Args[0], levelMember) + "." + n.Name
	case syntax.OpHas:
		return "has(" + print(n.Args[0], levelMember) + "." + n.Name + ")"
	case syntax.OpIndex:
		return print(n.Args[0], levelMember) + "[" + arg(1) + "]"
	case syntax.OpList:
		return "[" + printAll(n.Args) + "]"
	case syntax.OpObject:
		var entries []string
		for i := 0; i < len(n.Args); i += 2 {
			entries = append(entries, arg(i)+": "+arg(i+1))
		}
		return "{" + strings.Join(entries, ", ") + "}"
	case syntax.OpChoose:
		return print(n.Args[0], levelOr) + " ? " + print(n.Args[1], levelOr) + " : " + arg(2)
	case syntax.OpNot, syntax.OpNegate:
		least := levelMember
		if n.Args[0].Op == n.Op {
			least = levelUnary
		}
		operand := print(n.Args[0], least)
		if n.Op == syntax.OpNegate && '0' <= operand[0] && operand[0] <= '9' { // the sign would be that of the number
			operand = "(" + operand + ")"
		}
		return n.Op.String() + operand
	case syntax.OpCall:
		if n.Function.Name > "m" { // some functions in one way, others in the other
			return print(n.Args[0], levelMember) + "." + n.Function.Name + "(" + printAll(n.Args[1:]) + ")"
		}
		return n.Function.Name + "(" + printAll(n.Args) + ")"
	case syntax.OpMacro:
		return print(n.Args[0], levelMember) + "." + n.Name + "(" + n.Value.(string) + ", " + printAll(n.Args[1:]) + ")"
	}
	first := level(n) // operators associate to the left
	if n.Op == syntax.OpAnd || n.Op == syntax.OpOr {
		first++ // and a chain is one node
	}
	out := print(n.Args[0], first)
	for _, operand := range n.Args[1:] {
		out += " " + n.Op.String() + " " + print(operand, level(n)+1)
	}
	return out
}

func printAll(args []*syntax.Node) string {
	var texts []string
	for _, arg := range args {
		texts = append(texts, print(arg, 0))
	}
	return strings.Join(texts, ", ")
}

func printLiteral(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		return text
	}
	return strconv.Quote(v.(string))
}
