package oracle

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// generator draws texts that mean the same to both. Operands have the right types mostly, so that most have a value.
//
// It leaves out what differs by intent: missing fields, which are null here; int and double in one operation; doubles
// that are not finite, and those near to large ints, which cel-go rounds to compare; string() of what CEL does not write or writes otherwise; keys that a map has
// twice; and !!x, of which cel-go drops both signs before it looks at x.
type generator struct {
	*rapid.T
	variables []string // ints
}

func (g *generator) pick(from ...func() string) string {
	return from[rapid.IntRange(0, len(from)-1).Draw(g.T, "pick")]()
}

func (g *generator) of(texts ...string) string { return rapid.SampledFrom(texts).Draw(g.T, "of") }

// failing draws a text without a value.
func (g *generator) failing() string {
	return g.of(`missing`, `1 / 0`, `l[9]`, `int("x")`, `(big + big)`, `-"a"`, `null.all(x, x)`, `i.x`)
}

// operation draws operands and an operator between them, in parentheses mostly.
func (g *generator) operation(operand func(int) string, depth int, operators ...string) string {
	text := operand(depth-1) + " " + g.of(operators...) + " " + operand(depth-1)
	if rapid.IntRange(0, 3).Draw(g.T, "bare") == 0 {
		return text
	}
	return "(" + text + ")"
}

func (g *generator) any(depth int) string {
	return g.pick(
		func() string { return g.int(depth) }, func() string { return g.double(depth) }, func() string { return g.string(depth) },
		func() string { return g.bool(depth) }, func() string { return g.bool(depth) }, func() string { return g.list(depth) },
		func() string { return g.object(depth) },
		func() string { return g.of(`null`, `n`, `m.nil`, `l[3]`, `l[4]`, `m`, `m.c`) },
		func() string {
			if depth == 0 {
				return g.failing()
			}
			return g.choose(g.any, depth)
		},
	)
}

func (g *generator) choose(of func(int) string, depth int) string {
	return "(" + g.bool(depth-1) + " ? " + of(depth-1) + " : " + of(depth-1) + ")"
}

func (g *generator) int(depth int) string {
	if depth <= 0 {
		if len(g.variables) > 0 && rapid.Bool().Draw(g.T, "variable") {
			return g.of(g.variables...)
		}
		return g.of(`0`, `1`, `2`, `-1`, `7`, `0x1f`, `9223372036854775807`, `-9223372036854775808`, `i`, `j`, `i`, `j`, `big`, `m.a`, `m["a"]`, `ints[1]`, `ints[whole]`, `l[0]`)
	}
	return g.pick(
		func() string { return g.int(0) },
		func() string { return g.operation(g.int, depth, "+", "-", "*", "/", "%") },
		func() string { return g.operation(g.int, depth, "+", "-", "*", "/", "%") },
		func() string { return "-(" + g.int(depth-1) + ")" },
		func() string { return "size(" + g.list(depth-1) + ")" },
		func() string { return g.string(depth-1) + ".size()" },
		func() string { return g.object(depth-1) + ".size()" },
		func() string { return g.string(depth-1) + ".indexOf(" + g.string(depth-1) + ")" },
		func() string { return "int(" + g.double(depth-1) + ")" },
		func() string { return "int(string(" + g.int(depth-1) + "))" },
		func() string { return g.choose(g.int, depth) },
		func() string { return "ints[" + g.int(depth-1) + "]" },
		func() string { return "size(numbers.filter(k, numbers[k] > " + g.int(depth-1) + "))" },
	)
}

func (g *generator) double(depth int) string {
	if depth <= 0 {
		return g.of(`0.5`, `-1.5`, `2.0`, `1e3`, `.25`, `0.0`, `d`, `f`, `whole`, `doubles[0]`, `m.c.d`, `m["c"].d`)
	}
	return g.pick(
		func() string { return g.double(0) },
		func() string { return g.operation(g.double, depth, "+", "-", "*") },
		func() string { return "(" + g.double(depth-1) + " / " + g.of(`2.0`, `-0.5`, `d`) + ")" },
		func() string { return "-(" + g.double(depth-1) + ")" },
		func() string { return "double((" + g.int(depth-1) + ") % 1000)" },
		func() string { return g.choose(g.double, depth) },
	)
}

func (g *generator) string(depth int) string {
	if depth <= 0 {
		return g.of(`""`, `"a"`, `'b'`, `","`, `s`, `u`, `"\u00e9\n"`, `r"\x"`, `"""q"q"""`, `m.b`, `strings[0]`, `"7"`, `" x "`)
	}
	return g.pick(
		func() string { return g.string(0) },
		func() string { return g.operation(g.string, depth, "+") },
		func() string { return "string(" + g.int(depth-1) + ")" },
		func() string { return "string(" + g.bool(depth-1) + ")" },
		func() string { return g.string(depth-1) + ".trim()" },
		func() string { return g.string(depth-1) + ".replace(" + g.string(0) + ", " + g.string(depth-1) + ")" },
		func() string { return g.string(depth-1) + ".substring(" + g.of("0", "1", "2", g.int(0)) + ")" },
		func() string {
			return g.string(depth-1) + ".substring(" + g.of("0", "1") + ", " + g.of("1", "3", g.int(0)) + ")"
		},
		func() string {
			return g.string(depth-1) + ".split(" + g.string(0) + ").join(" + g.string(depth-1) + ")"
		},
		func() string { return g.choose(g.string, depth) },
	)
}

func (g *generator) bool(depth int) string {
	if depth <= 0 {
		return g.of(`true`, `false`, `t`, `o`, `t`, `o`, `has(m.a)`, `has(m.zz)`, `has(m.c.d)`, g.failing())
	}
	relations := []string{"==", "!=", "<", "<=", ">", ">="}
	return g.pick(
		func() string { return g.bool(0) },
		func() string { return g.operation(g.bool, depth, "&&", "||") },
		func() string { return g.operation(g.bool, depth, "&&", "||") },
		func() string {
			return "(" + g.bool(depth-1) + " && " + g.bool(depth-1) + " || " + g.bool(depth-1) + ")"
		},
		func() string { return "!(" + g.bool(depth-1) + ")" },
		func() string { return "(" + g.int(depth-1) + " " + g.of(relations...) + " " + g.int(depth-1) + ")" },
		func() string { return "(" + g.int(depth-1) + " " + g.of(relations...) + " " + g.double(depth-1) + ")" },
		func() string { return "(" + g.double(depth-1) + " " + g.of(relations...) + " " + g.int(depth-1) + ")" },
		func() string {
			return "(" + g.string(depth-1) + " " + g.of(relations...) + " " + g.string(depth-1) + ")"
		},
		func() string { return "(" + g.bool(depth-1) + " " + g.of(relations...) + " " + g.bool(depth-1) + ")" },
		func() string { return "(" + g.any(depth-1) + " " + g.of("==", "!=") + " " + g.any(depth-1) + ")" },
		func() string { return "(" + g.any(depth-1) + " in " + g.list(depth-1) + ")" },
		func() string { return "(" + g.string(depth-1) + " in " + g.object(depth-1) + ")" },
		func() string {
			return g.string(depth-1) + g.of(".contains(", ".startsWith(", ".endsWith(") + g.string(depth-1) + ")"
		},
		func() string { return g.macro(g.of("all", "exists", "exists_one"), depth, g.bool) },
		func() string { return g.macro(g.of("all", "exists", "exists_one"), depth, g.bool) },
		func() string {
			return "numbers." + g.of("all", "exists") + "(k, numbers[k] " + g.of(relations...) + " " + g.int(depth-1) + ")"
		},
		func() string { return g.choose(g.bool, depth) },
	)
}

// macro draws a macro over a list of ints.
func (g *generator) macro(name string, depth int, bodies ...func(int) string) string {
	variable := g.of("x", "y", "i")
	text := fmt.Sprintf("%s.%s(%s", g.ints(depth-1), name, variable)
	g.variables = append(g.variables, variable)
	for _, body := range bodies {
		text += ", " + body(depth-1)
	}
	g.variables = g.variables[:len(g.variables)-1]
	return text + ")"
}

func (g *generator) ints(depth int) string {
	if depth <= 0 {
		return g.of(`ints`, `[]`, `[1, 2]`, `[0, 1, -1]`, `empty`)
	}
	return g.pick(
		func() string { return "[" + g.int(depth-1) + ", " + g.int(depth-1) + "]" },
		func() string { return "(" + g.ints(depth-1) + " + " + g.ints(depth-1) + ")" },
		func() string { return g.macro("map", depth, g.int) },
		func() string { return g.macro("map", depth, g.bool, g.int) },
		func() string { return g.macro("filter", depth, g.bool) },
	)
}

func (g *generator) list(depth int) string {
	if depth <= 0 {
		return g.of(`l`, `ints`, `doubles`, `strings`, `empty`, `[]`)
	}
	return g.pick(
		func() string { return g.ints(depth) },
		func() string { return "[" + g.any(depth-1) + ", " + g.any(depth-1) + ",]" },
		func() string { return g.operation(g.list, depth, "+") },
		func() string { return g.string(depth-1) + ".split(" + g.string(0) + ")" },
		func() string { return g.macro("map", depth, g.any) },
	)
}

func (g *generator) object(depth int) string {
	if depth <= 0 {
		return g.of(`m`, `numbers`, `m.c`, `{}`, `{"k": 1}`)
	}
	var entries []string
	for i := range rapid.IntRange(0, 3).Draw(g.T, "entries") {
		key := fmt.Sprintf("%q", "abc"[i:i+1])
		if i == 2 {
			key = `"c" + ` + g.string(depth-1)
		}
		entries = append(entries, key+": "+g.any(depth-1))
	}
	return "{" + strings.Join(entries, ", ") + "}"
}
