package request

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Object is a JSON object under construction.
type Object map[string]any

// In returns the object in a field, and creates it if it is missing.
func (o Object) In(field string) map[string]any {
	inner := AsObject(o[field])
	if inner == nil {
		inner = map[string]any{}
		o[field] = inner
	}
	return inner
}

// AsObject returns v as an object, or nil if it is not one.
func AsObject(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// Just returns a function that returns a flag's value unchanged.
func Just(v any) func() (any, error) { return func() (any, error) { return v, nil } }

// Seconds returns a function that returns a flag's duration in whole seconds.
func Seconds(d time.Duration) func() (any, error) {
	return func() (any, error) {
		if d < 0 {
			return nil, fmt.Errorf("%s: it must not be negative", d)
		}
		if d%time.Second != 0 {
			return nil, fmt.Errorf("%s: it must be whole seconds", d)
		}
		return int(d / time.Second), nil
	}
}

// Mebibytes parses a size such as 64Gi, 512Mi, 64G or 2048 (MiB).
func Mebibytes(text string) (int, error) {
	units := []struct {
		suffix string
		bytes  float64
	}{
		{"Ti", 1 << 40}, {"Gi", 1 << 30}, {"Mi", 1 << 20}, {"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"", 1 << 20},
	}
	plain := strings.TrimSuffix(text, "B")
	for _, u := range units {
		figure, ok := strings.CutSuffix(plain, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(figure, 64)
		if err != nil || !(n >= 0) || n*u.bytes >= 1<<50 {
			break
		}
		return int(n * u.bytes / (1 << 20)), nil
	}
	return 0, fmt.Errorf("%q is not a size such as 64Gi or 512Mi", text)
}
