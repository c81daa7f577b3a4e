package expr

import (
	"math"
	"strconv"
	"strings"

	"github.com/mindcoordinator/mind/flow/expr/syntax"
)

// call does what a function does.
type call func(m *machine, at int, args []any) (any, error)

// calls has what each function does, by its index.
var calls = byIndex(map[string]call{
	"size":       func(m *machine, at int, args []any) (any, error) { return m.size(at, args[0]) },
	"int":        toIntFunction,
	"double":     toDouble,
	"string":     func(m *machine, at int, args []any) (any, error) { return m.text(at, args[0]) },
	"bool":       toBool,
	"type":       func(_ *machine, _ int, args []any) (any, error) { return typeName(args[0]), nil },
	"abs":        abs,
	"min":        extreme("min", -1),
	"max":        extreme("max", 1),
	"round":      rounding("round", math.Round),
	"floor":      rounding("floor", math.Floor),
	"ceil":       rounding("ceil", math.Ceil),
	"sum":        sum,
	"range":      rangeOf,
	"keys":       keysOf,
	"values":     listed("values", func(entries map[string]any, key string) any { return entries[key] }),
	"contains":   ofStrings("contains", contains),
	"startsWith": ofStrings("startsWith", startsWith),
	"endsWith":   ofStrings("endsWith", endsWith),
	"indexOf":    ofStrings("indexOf", indexOf),
	"lower":      ofStrings("lower", cased(strings.ToLower)),
	"upper":      ofStrings("upper", cased(strings.ToUpper)),
	"trim":       ofStrings("trim", trim),
	"split":      ofStrings("split", split),
	"replace":    ofStrings("replace", replace),
	"join":       join,
	"substring":  substring,
})

// byIndex orders what the functions do as the parser has them.
func byIndex(all map[string]call) []call {
	out := make([]call, len(syntax.Functions))
	for name, does := range all {
		out[syntax.Functions[name].Index] = does
	}
	return out
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
	add := syntax.Node{Op: syntax.OpAdd, At: at}
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
