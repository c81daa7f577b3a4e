package expr

import (
	"math"
	"testing"
)

const benchmarked = `a.b > 0.7 && size(list) > 3`

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := Parse(benchmarked); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEval(b *testing.B) {
	e, err := Parse(benchmarked)
	if err != nil {
		b.Fatal(err)
	}
	n := Map{"a": map[string]any{"b": 0.9}, "list": list(int64(1), int64(2), int64(3), int64(4))}
	left := Budget{Ops: math.MaxInt64, Bytes: math.MaxInt64}
	for b.Loop() {
		if v, err := e.Eval(n, &left); v != true {
			b.Fatal(v, err)
		}
	}
}
