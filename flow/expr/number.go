package expr

import (
	"cmp"
	"math"

	"github.com/mindcoordinator/mind/flow/expr/syntax"
)

// compareNumbers compares two numbers exactly, and says whether both are numbers.
func compareNumbers(a, b any) (order int, ok bool) {
	switch a := a.(type) {
	case int64:
		switch b := b.(type) {
		case int64:
			return cmp.Compare(a, b), true
		case float64:
			return compareMixed(a, b), true
		}
	case float64:
		switch b := b.(type) {
		case int64:
			return -compareMixed(b, a), true
		case float64:
			return cmp.Compare(a, b), true
		}
	}
	return 0, false
}

// compareMixed compares without rounding the int to a double.
func compareMixed(i int64, f float64) int {
	switch {
	case f >= math.MaxInt64: // 1<<63, to which the constant is rounded
		return -1
	case f < math.MinInt64:
		return 1
	}
	whole := math.Trunc(f)
	if order := cmp.Compare(i, int64(whole)); order != 0 {
		return order
	}
	return cmp.Compare(0, f-whole)
}

// asDouble returns a number as a double.
func asDouble(v any) (f float64, ok bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// arithmetic applies + - * / or % to two numbers.
func arithmetic(n *syntax.Node, a, b any) (any, error) {
	if a, ok := a.(int64); ok {
		if b, ok := b.(int64); ok {
			return integers(n, a, b)
		}
	}
	x, ok := asDouble(a)
	y, alsoOK := asDouble(b)
	if !ok || !alsoOK {
		takes := "two numbers"
		if n.Op == syntax.OpAdd {
			takes = "two numbers, two strings or two lists"
		}
		return nil, failed(n.At, codeType, "%s takes %s, not %s and %s", n.Op, takes, described(a), described(b))
	}
	return doubles(n, x, y)
}

func doubles(n *syntax.Node, x, y float64) (any, error) {
	var z float64
	switch n.Op {
	case syntax.OpAdd:
		z = x + y
	case syntax.OpSubtract:
		z = x - y
	case syntax.OpMultiply:
		z = x * y
	default:
		if y == 0 {
			return nil, failed(n.At, codeDivisionByZero, "%v %s 0", x, n.Op)
		}
		if n.Op == syntax.OpDivide {
			z = x / y
		} else {
			z = math.Mod(x, y)
		}
	}
	if !finite(z) {
		return nil, failed(n.At, codeOverflow, "%v %s %v is more than a double can be", x, n.Op, y)
	}
	return z, nil
}

func integers(n *syntax.Node, x, y int64) (any, error) {
	var z int64
	ok := true
	switch n.Op {
	case syntax.OpAdd:
		z = x + y
		ok = (z > x) == (y > 0)
	case syntax.OpSubtract:
		z = x - y
		ok = (z < x) == (y > 0)
	case syntax.OpMultiply:
		z = x * y
		ok = x == 0 || z/x == y && !(x == -1 && y == math.MinInt64)
	default:
		if y == 0 {
			return nil, failed(n.At, codeDivisionByZero, "%d %s 0", x, n.Op)
		}
		ok = x != math.MinInt64 || y != -1
		if n.Op == syntax.OpDivide {
			z = x / y
		} else {
			z = x % y
		}
	}
	if !ok {
		return nil, failed(n.At, codeOverflow, "%d %s %d is more than an int can be", x, n.Op, y)
	}
	return z, nil
}

func negated(n *syntax.Node, v any) (any, error) {
	switch v := v.(type) {
	case int64:
		if v == math.MinInt64 {
			return nil, failed(n.At, codeOverflow, "-(%d) is more than an int can be", v)
		}
		return -v, nil
	case float64:
		return -v, nil
	}
	return nil, failed(n.At, codeType, "- takes a number, not %s", described(v))
}

// toInt converts a double without a fraction to an int.
func toInt(at int, f float64) (any, error) {
	if f >= math.MaxInt64 || f < math.MinInt64 {
		return nil, failed(at, codeRange, "%v is more than an int can be", f)
	}
	return int64(f), nil
}

// wholeNumber returns an int, or a double that is one, as in JSON that was read.
func wholeNumber(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		if v == math.Trunc(v) && math.MinInt64 <= v && v < math.MaxInt64 {
			return int64(v), true
		}
	}
	return 0, false
}
