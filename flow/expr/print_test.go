package expr

import (
	"strconv"
	"strings"
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

func level(n *node) int {
	switch n.op {
	case opChoose:
		return levelChoose
	case opNot, opNegate:
		return levelUnary
	}
	if o, ok := operators[symbols[n.op]]; ok {
		return o.precedence
	}
	return levelMember
}

// print writes a node with as few parentheses as its place in a text allows.
func print(n *node, least int) string {
	if level(n) < least {
		return "(" + print(n, 0) + ")"
	}
	arg := func(i int) string { return print(n.args[i], 0) }
	switch n.op {
	case opConst:
		return printLiteral(n.value)
	case opGet, opVariable:
		return n.name
	case opSelect:
		return print(n.args[0], levelMember) + "." + n.name
	case opHas:
		return "has(" + print(n.args[0], levelMember) + "." + n.name + ")"
	case opIndex:
		return print(n.args[0], levelMember) + "[" + arg(1) + "]"
	case opList:
		return "[" + printAll(n.args) + "]"
	case opObject:
		var entries []string
		for i := 0; i < len(n.args); i += 2 {
			entries = append(entries, arg(i)+": "+arg(i+1))
		}
		return "{" + strings.Join(entries, ", ") + "}"
	case opChoose:
		return print(n.args[0], levelOr) + " ? " + print(n.args[1], levelOr) + " : " + arg(2)
	case opNot, opNegate:
		least := levelMember
		if n.args[0].op == n.op {
			least = levelUnary
		}
		operand := print(n.args[0], least)
		if n.op == opNegate && isDigit(operand[0]) { // the sign would be that of the number
			operand = "(" + operand + ")"
		}
		return symbols[n.op] + operand
	case opCall:
		if n.function.name > "m" { // some functions in one way, others in the other
			return print(n.args[0], levelMember) + "." + n.function.name + "(" + printAll(n.args[1:]) + ")"
		}
		return n.function.name + "(" + printAll(n.args) + ")"
	case opMacro:
		return print(n.args[0], levelMember) + "." + n.name + "(" + n.value.(string) + ", " + printAll(n.args[1:]) + ")"
	}
	first := level(n) // operators associate to the left
	if n.op == opAnd || n.op == opOr {
		first++ // and a chain is one node
	}
	out := print(n.args[0], first)
	for _, operand := range n.args[1:] {
		out += " " + symbols[n.op] + " " + print(operand, level(n)+1)
	}
	return out
}

func printAll(args []*node) string {
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
