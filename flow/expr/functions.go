package expr

import (
	"math"
	"strconv"
	"strings"
)

// function is a function of the language. Called as x.f(y) it is the same as f(x, y).
type function struct {
	name        string
	least, most int // arguments
	call        func(m *machine, at int, args []any) (any, error)
}

// maxArgs is how many arguments min and max take.
const maxArgs = 64

var functions = byName(
	function{"size", 1, 1, func(m *machine, at int, args []any) (any, error) { return m.size(at, args[0]) }},
	function{"int", 1, 1, toIntFunction},
	function{"double", 1, 1, toDouble},
	function{"string", 1, 1, func(m *machine, at int, args []any) (any, error) { return m.text(at, args[0]) }},
	function{"bool", 1, 1, toBool},
	function{"type", 1, 1, func(_ *machine, _ int, args []any) (any, error) { return typeName(args[0]), nil }},
	function{"abs", 1, 1, abs},
	function{"min", 1, maxArgs, extreme("min", -1)},
	function{"max", 1, maxArgs, extreme("max", 1)},
	function{"round", 1, 1, rounding("round", math.Round)},
	function{"floor", 1, 1, rounding("floor", math.Floor)},
	function{"ceil", 1, 1, rounding("ceil", math.Ceil)},
	function{"sum", 1, 1, sum},
	function{"range", 1, 2, rangeOf},
	function{"keys", 1, 1, listed("keys", func(_ map[string]any, key string) any { return key })},
	function{"values", 1, 1, listed("values", func(entries map[string]any, key string) any { return entries[key] })},
	function{"contains", 2, 2, ofStrings("contains", contains)},
	function{"startsWith", 2, 2, ofStrings("startsWith", startsWith)},
	function{"endsWith", 2, 2, ofStrings("endsWith", endsWith)},
	function{"indexOf", 2, 2, ofStrings("indexOf", indexOf)},
	function{"lower", 1, 1, ofStrings("lower", cased(strings.ToLower))},
	function{"upper", 1, 1, ofStrings("upper", cased(strings.ToUpper))},
	function{"trim", 1, 1, ofStrings("trim", trim)},
	function{"split", 2, 2, ofStrings("split", split)},
	function{"replace", 3, 3, ofStrings("replace", replace)},
	function{"join", 1, 2, join},
	function{"substring", 2, 3, substring},
)

func byName(all ...function) map[string]*function {
	m := make(map[string]*function, len(all))
	for _, f := range all {
		m[f.name] = &f
	}
	return m
}

// call parses the arguments of a function. target is the first of them if it is called as target.name(), and nil
// otherwise. The token is the opening parenthesis.
func (p *parser) call(name token, target *node) (*node, error) {
	f := functions[name.text]
	if f == nil {
		what := "a function"
		if _, ok := macros[name.text]; ok {
			what = "a list before ." + name.text
		}
		return nil, syntax(name.at, "expected %s, but %s is none", what, name.text)
	}
	args, err := p.elements(")")
	if err != nil {
		return nil, err
	}
	if target != nil {
		args = append([]*node{target}, args...)
	}
	if len(args) < f.least || len(args) > f.most {
		count := strconv.Itoa(f.least)
		if f.most > f.least {
			count += " to " + strconv.Itoa(f.most)
		}
		return nil, syntax(name.at, "expected %s arguments of %s, counting a value before its dot, found %d", count, f.name, len(args))
	}
	return p.made(node{op: opCall, at: name.at, function: f, args: args})
}

func toIntFunction(m *machine, at int, args []any) (any, error) {
	switch v := args[0].(type) {
	case int64:
		return v, nil
	case float64:
		return toInt(at, math.Trunc(v))
	case string:
		if err := m.work(at, chunks(len(v))); err != nil {
			return nil, err
		}
		i, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return nil, failed(at, codeRange, "int takes a string that is a decimal number of 64 bits, not %s", shortened(v))
		}
		return i, nil
	}
	return nil, failed(at, codeType, "int takes a number or a string, not %s", described(args[0]))
}

func toDouble(m *machine, at int, args []any) (any, error) {
	switch v := args[0].(type) {
	case int64:
		return float64(v), nil
	case float64:
		return v, nil
	case string:
		if err := m.work(at, chunks(len(v))); err != nil {
			return nil, err
		}
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || strings.Trim(v, "0123456789+-.eE") != "" {
			return nil, failed(at, codeRange, "double takes a string that is a decimal number, not %s", shortened(v))
		}
		return f, nil
	}
	return nil, failed(at, codeType, "double takes a number or a string, not %s", described(args[0]))
}

func toBool(_ *machine, at int, args []any) (any, error) {
	switch v := args[0].(type) {
	case bool:
		return v, nil
	case string:
		b, err := strconv.ParseBool(v)
		if err != nil {
			return nil, failed(at, codeRange, `bool takes "true" or "false", not %s`, shortened(v))
		}
		return b, nil
	}
	return nil, failed(at, codeType, "bool takes a bool or a string, not %s", described(args[0]))
}

// shortened quotes the begin of a text for a message.
func shortened(text string) string {
	const most = 40
	if len(text) <= most {
		return strconv.Quote(text)
	}
	return strconv.Quote(strings.ToValidUTF8(text[:most], "")) + "..."
}

func abs(_ *machine, at int, args []any) (any, error) {
	switch v := args[0].(type) {
	case int64:
		if v == math.MinInt64 {
			return nil, failed(at, codeOverflow, "abs(%d) is more than an int can be", v)
		}
		return max(v, -v), nil
	case float64:
		return math.Abs(v), nil
	}
	return nil, failed(at, codeType, "abs takes a number, not %s", described(args[0]))
}

// extreme makes a function that returns the first of the numbers that no other is beyond.
func extreme(name string, beyond int) func(*machine, int, []any) (any, error) {
	return func(m *machine, at int, args []any) (any, error) {
		if list, ok := args[0].([]any); ok && len(args) == 1 {
			args = list
		}
		if len(args) == 0 {
			return nil, failed(at, codeRange, "%s takes at least one number, not an empty list", name)
		}
		if err := m.work(at, int64(len(args))); err != nil {
			return nil, err
		}
		found := args[0]
		for _, v := range args {
			order, ok := compareNumbers(v, found)
			if !ok {
				return nil, failed(at, codeType, "%s takes numbers or a list of numbers, not %s", name, described(v))
			}
			if order == beyond {
				found = v
			}
		}
		return found, nil
	}
}

func rounding(name string, round func(float64) float64) func(*machine, int, []any) (any, error) {
	return func(_ *machine, at int, args []any) (any, error) {
		switch v := args[0].(type) {
		case int64:
			return v, nil
		case float64:
			return toInt(at, round(v))
		}
		return nil, failed(at, codeType, "%s takes a number, not %s", name, described(args[0]))
	}
}

func sum(m *machine, at int, args []any) (any, error) {
	list, ok := args[0].([]any)
	if !ok {
		return nil, failed(at, codeType, "sum takes a list, not %s", described(args[0]))
	}
	if err := m.work(at, int64(len(list))); err != nil {
		return nil, err
	}
	add := node{op: opAdd, at: at}
	total := any(int64(0))
	for _, v := range list {
		if _, ok := asDouble(v); !ok {
			return nil, failed(at, codeType, "sum takes a list of numbers, but %s is in it", described(v))
		}
		var err error
		if total, err = arithmetic(&add, total, v); err != nil {
			return nil, err
		}
	}
	return total, nil
}
