package expr

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Names finds the values of the names in an expression. It has to be safe for as many goroutines as evaluate with it.
type Names interface {
	// Lookup returns the value of a name, and whether there is such a name.
	Lookup(name string) (value any, ok bool)
}

// NamesFunc is a function as Names.
type NamesFunc func(name string) (any, bool)

// Lookup calls the function.
func (f NamesFunc) Lookup(name string) (any, bool) { return f(name) }

// Map is a map as Names.
type Map map[string]any

// Lookup returns the entry of the map.
func (m Map) Lookup(name string) (any, bool) {
	v, ok := m[name]
	return v, ok
}

// Check returns an error that says where v has something other than a value, or is nested more than MaxDepth deep.
func Check(v any) error {
	if path, problem := check(v, 0); problem != "" {
		return fmt.Errorf("the value%s %s", path, problem)
	}
	return nil
}

// check returns the first problem of a value and the path to it, or no problem.
func check(v any, depth int) (path, problem string) {
	switch v := v.(type) {
	case nil, bool, int64:
	case float64:
		if !finite(v) {
			return "", fmt.Sprintf("is %v, but a double has to be finite", v)
		}
	case string:
		if !utf8.ValidString(v) {
			return "", "is a string that is not UTF-8"
		}
	case []any:
		if depth == MaxDepth {
			return "", tooDeepValue
		}
		for i, element := range v {
			if path, problem := check(element, depth+1); problem != "" {
				return fmt.Sprintf("[%d]%s", i, path), problem
			}
		}
	case map[string]any:
		if depth == MaxDepth {
			return "", tooDeepValue
		}
		for _, key := range sortedKeys(v) {
			if !utf8.ValidString(key) {
				return "", "has a key that is not UTF-8"
			}
			if path, problem := check(v[key], depth+1); problem != "" {
				return fmt.Sprintf("[%q]%s", key, path), problem
			}
		}
	default:
		return "", fmt.Sprintf("is %v, a Go %T, which no expression can use", v, v)
	}
	return "", ""
}

var tooDeepValue = fmt.Sprintf("is nested more than %d deep", MaxDepth)

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// Normalize returns v as a value, in new lists and maps. It takes values, the integers and floats of Go, and
// json.Number, which becomes an int64 if it is written as an integer that fits, and a float64 otherwise.
func Normalize(v any) (any, error) {
	out := normalized(v, 0)
	return out, Check(out)
}

// normalized converts the numbers that it can, and leaves the rest to Check.
func normalized(v any, depth int) any {
	switch v := v.(type) {
	case []any:
		if depth == MaxDepth {
			return v
		}
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = normalized(element, depth+1)
		}
		return out
	case map[string]any:
		if depth == MaxDepth {
			return v
		}
		out := make(map[string]any, len(v))
		for key, element := range v {
			out[key] = normalized(element, depth+1)
		}
		return out
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return n
		}
		if f, err := strconv.ParseFloat(v.String(), 64); err == nil {
			return f
		}
	case int, int8, int16, int32:
		return reflect.ValueOf(v).Int()
	case uint, uint8, uint16, uint32, uint64:
		if u := reflect.ValueOf(v).Uint(); u <= math.MaxInt64 {
			return int64(u)
		}
	case float32:
		return float64(v)
	}
	return v
}

// Equal says whether two values are equal. Numbers are compared by what they are worth, so 1 equals 1.0.
func Equal(a, b any) bool {
	equal, _ := equalWithin(a, b, func(int64) error { return nil })
	return equal
}

// equalWithin is Equal, and charges for each comparison. An error is that of charge.
func equalWithin(a, b any, charge func(ops int64) error) (bool, error) {
	if err := charge(1); err != nil {
		return false, err
	}
	switch a := a.(type) {
	case nil:
		return b == nil, nil
	case bool:
		b, ok := b.(bool)
		return ok && a == b, nil
	case string:
		b, ok := b.(string)
		if !ok || len(a) != len(b) {
			return false, nil
		}
		return a == b, charge(chunks(len(a)))
	case int64, float64:
		order, ok := compareNumbers(a, b)
		return ok && order == 0, nil
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false, nil
		}
		for i := range a {
			if equal, err := equalWithin(a[i], b[i], charge); err != nil || !equal {
				return false, err
			}
		}
		return true, nil
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false, nil
		}
		if err := charge(int64(len(a))); err != nil { // for the sorting, even if the first entry decides
			return false, err
		}
		for _, key := range sortedKeys(a) {
			other, ok := b[key]
			if !ok {
				return false, nil
			}
			if equal, err := equalWithin(a[key], other, charge); err != nil || !equal {
				return false, err
			}
		}
		return true, nil
	}
	return false, nil
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

// typeName returns the name that type() gives to the type of a value.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "double"
	case string:
		return "string"
	case []any:
		return "list"
	case map[string]any:
		return "map"
	}
	return fmt.Sprintf("Go %T", v)
}

// described returns the type of a value with its article.
func described(v any) string {
	switch name := typeName(v); name {
	case "null":
		return name
	case "int":
		return "an int"
	default:
		return "a " + name
	}
}
