package expr

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func nested(depth int) any {
	var v any = "x"
	for i := range depth {
		if i%2 == 0 {
			v = list(v)
		} else {
			v = map[string]any{"k": v}
		}
	}
	return v
}

func TestCheck(t *testing.T) {
	for _, v := range []any{
		nil, true, int64(1), 1.5, "ä", list(), list(nil, list(int64(1))), map[string]any{"a": map[string]any{}}, nested(64),
	} {
		require.NoError(t, Check(v))
	}
	for says, v := range map[string]any{
		`the value is 1, a Go int, which`:                 1,
		`the value["a"][1] is 1, a Go int32`:              map[string]any{"a": list(nil, int32(1))},
		`a Go json.Number`:                                json.Number("1"),
		`a Go []string`:                                   []string{},
		`the value is NaN, but a double has to be finite`: math.NaN(),
		`the value[0] is +Inf`:                            list(math.Inf(1)),
		`the value is a string that is not UTF-8`:         "\xff",
		`the value["a"] has a key that is not UTF-8`:      map[string]any{"a": map[string]any{"\xff": nil}},
		`is nested more than 64 deep`:                     nested(65),
		`the value["k"][0]["k"][0]`:                       nested(66),
	} {
		require.ErrorContains(t, Check(v), says)
	}
}

func TestNormalize(t *testing.T) {
	for _, test := range []struct{ in, want any }{
		{int(1), int64(1)},
		{int8(-1), int64(-1)},
		{int16(1), int64(1)},
		{int32(1), int64(1)},
		{int64(1), int64(1)},
		{uint(1), int64(1)},
		{uint8(1), int64(1)},
		{uint16(1), int64(1)},
		{uint32(1), int64(1)},
		{uint64(1), int64(1)},
		{float32(0.5), 0.5},
		{2.0, 2.0},
		{json.Number("3"), int64(3)},
		{json.Number("3.0"), 3.0},
		{json.Number("1e2"), 100.0},
		{json.Number("9223372036854775808"), 9223372036854775808.0},
		{nil, nil},
		{"a", "a"},
		{true, true},
		{list(1, map[string]any{"a": json.Number("-1")}), list(int64(1), map[string]any{"a": int64(-1)})},
		{nested(64), nested(64)},
	} {
		got, err := Normalize(test.in)
		require.NoError(t, err)
		require.Equal(t, test.want, got)
	}
	for says, v := range map[string]any{
		`the value is 1e999, a Go json.Number`: json.Number("1e999"),
		`the value is 18446744073709551615`:    uint64(math.MaxUint64),
		`the value[0] is {}, a Go struct {}`:   list(struct{}{}),
		`nested more than 64 deep`:             nested(65),
		`has to be finite`:                     math.NaN(),
	} {
		_, err := Normalize(v)
		require.ErrorContains(t, err, says)
	}
}

func TestNormalize_copies(t *testing.T) {
	inner := map[string]any{"a": int64(1)}
	v := list(inner)
	got, err := Normalize(v)
	require.NoError(t, err)
	inner["a"] = int64(2)
	v[0] = nil
	require.Equal(t, list(map[string]any{"a": int64(1)}), got)
}

func TestNormalize_ofJSON(t *testing.T) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(`{"a": [1, 2.0, 9007199254740993, "x", null, true]}`)))
	decoder.UseNumber()
	var v any
	require.NoError(t, decoder.Decode(&v))
	got, err := Normalize(v)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"a": list(int64(1), 2.0, int64(9007199254740993), "x", nil, true)}, got)
}

func TestEqual(t *testing.T) {
	values := []any{
		nil, true, false, int64(0), int64(1), 0.5, int64(math.MaxInt64), math.MaxFloat64, "", "0", "a", list(), list(int64(1)), list(list()),
		map[string]any{},
		map[string]any{"a": int64(1)},
		map[string]any{"a": nil},
		map[string]any{"b": nil},
	}
	for i, a := range values {
		for j, b := range values {
			require.Equal(t, i == j, Equal(a, b), "%v and %v", a, b)
		}
	}
	require.True(t, Equal(int64(1), 1.0))
	require.True(t, Equal(0.0, math.Copysign(0, -1)))
	require.False(t, Equal(int64(1<<53+1), float64(1<<53)))
	require.True(t, Equal(map[string]any{"a": list(int64(1))}, map[string]any{"a": list(1.0)}))
	require.False(t, Equal(1, 1), "an int of Go is no value")
}
