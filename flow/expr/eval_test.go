package expr

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func list(v ...any) []any { return append([]any{}, v...) }

func budget() *Budget { return &Budget{Ops: 10_000, Bytes: 1 << 20} }

// names are the values that the tables use.
func names() Map {
	return Map{
		"i": int64(7), "d": 2.5, "s": "käse", "t": true, "n": nil, "whole": 2.0,
		"l": list(int64(1), 2.0, "three", nil), "empty": list(),
		"m": map[string]any{"b": int64(2), "a": map[string]any{"x": "deep"}, "nil": nil},
		"e": map[string]any{}, "kb": list("r1", "r2"), "named": map[string]any{"length": "long"},
	}
}

func TestEval(t *testing.T) {
	for text, want := range map[string]any{
		// Names, fields and indexes.
		`i`: int64(7), `n`: nil, `m.b`: int64(2), `m.a.x`: "deep", `m["a"]["x"]`: "deep",
		`m.missing`: nil, `m.missing.more`: nil, `m["missing"]`: nil, `n.x`: nil, `n["x"]`: nil, `n[0]`: nil,
		`l[0]`: int64(1), `l[whole]`: "three", `l[3].x.y`: nil,
		`kb.length > 0`: true, `s.length`: int64(4), `m.length`: int64(3), `named.length`: "long", `n.length`: nil,
		`has(m.b)`: true, `has(m.nil)`: true, `has(m.missing)`: false, `has(m.missing.more)`: false, `has(n.x)`: false, `has(m.length)`: false,
		// Lists and maps.
		`[1, 2.0, "x", null]`: list(int64(1), 2.0, "x", nil), `{"a": 1, s: [2]}`: map[string]any{"a": int64(1), "käse": list(int64(2))},
		`[1] + [2]`: list(int64(1), int64(2)), `[] + []`: list(), `[1, 2][1]`: int64(2), `{"a": 1}.a`: int64(1),
		// Arithmetic.
		`1 + 2 * 3`: int64(7), `i - 10`: int64(-3), `7 / 2`: int64(3), `-7 / 2`: int64(-3), `7 % 3`: int64(1), `-7 % 3`: int64(-1),
		`1 + 2.5`: 3.5, `2.5 - 1`: 1.5, `i / 2.0`: 3.5, `2 * d`: 5.0, `7.5 % 2`: 1.5, `-d`: -2.5, `-i`: int64(-7), `--i`: int64(7),
		`9223372036854775807 - 1`: int64(math.MaxInt64 - 1), `-9223372036854775808 + 0`: int64(math.MinInt64),
		`-9223372036854775808 % 1`: int64(0), `0 * -9223372036854775808`: int64(0), `1 * -9223372036854775808`: int64(math.MinInt64),
		`"a" + "b"`: "ab", `0.1 + 0.2 == 0.3`: false,
		// Comparison.
		`1 < 2`: true, `2 <= 2.0`: true, `2.5 > 2`: true, `2 >= 3`: false, `"a" < "b"`: true, `"b" <= "a"`: false, `"" < "a"`: true,
		`false < true`: true, `true >= true`: true, `true > false`: true, `true < false`: false,
		`9007199254740993 > 9007199254740992.0`: true, `9223372036854775807 < 9223372036854775808.0`: true,
		`-9223372036854775808 == -9223372036854775808.0`: true, `-9223372036854775808 > -1e300`: true, `1e300 > 1`: true, `-2 > -2.5`: true,
		`1 == 1.0`: true, `1 == "1"`: false, `null == null`: true, `n == false`: false, `1 != 2`: true, `true == true`: true, `"a" == "b"`: false,
		`[1, [2]] == [1.0, [2]]`: true, `[1] == [1, 2]`: false, `[1] == [2]`: false, `[1] == 1`: false,
		`{"a": 1, "b": 2} == {"b": 2.0, "a": 1}`: true, `{"a": 1} == {"b": 1}`: false, `{"a": 1} == {"a": 2}`: false, `{} == []`: false,
		`{"a": 1} == {}`: false,
		`2 in l`:         true, `"four" in l`: false, `null in l`: true, `"b" in m`: true, `"c" in m`: false, `1 in m`: false, `1 in []`: false,
		// Logic.
		`t && i == 7`: true, `t && false`: false, `false || t`: true, `false || false || false`: false, `t && t && t`: true, `!t`: false,
		`false && missing`: false, `missing && false`: false, `1 && false`: false, `1/0 > 0 || true`: true, `true || 1`: true, `"x" || t`: true,
		`missing && 1 && false`: false,
		`t ? 1 : missing`:       int64(1), `false ? missing : 2`: int64(2), `false ? 1 : t ? 2 : 3`: int64(2),
		// Macros.
		`[1, 2].all(x, x > 0)`: true, `[1, 2].all(x, x > 1)`: false, `[].all(x, missing)`: true, `[0, 2].all(x, 4 / x == 3)`: false,
		`[1, 2].exists(x, x == 2)`: true, `[1, 2].exists(x, x == 3)`: false, `[0, 2].exists(x, 4 / x == 2)`: true, `[].exists(x, true)`: false,
		`[1, 2, 2].exists_one(x, x == 1)`: true, `[1, 2, 2].exists_one(x, x == 2)`: false, `[].exists_one(x, true)`: false,
		`[1, 2, 3].filter(x, x > 1)`: list(int64(2), int64(3)), `[1, 2].map(x, x * 2)`: list(int64(2), int64(4)),
		`[1, 2, 3].map(x, x > 1, x * 2)`: list(int64(4), int64(6)), `m.map(k, k)`: list("a", "b", "nil"), `m.filter(k, m[k] == 2)`: list("b"),
		`m.exists(k, k == "b")`: true, `[].map(x, x)`: list(),
		`[1, 2].map(x, [10, 20].map(y, x + y))`:   list(list(int64(11), int64(21)), list(int64(12), int64(22))),
		`[1, 2].map(i, [i].map(i, i + 1)[0] + i)`: list(int64(3), int64(5)),
		`[1].map(x, [10].map(x, x + 1)[0] + x)`:   list(int64(12)), `[1].map(x, [10].all(x, x == 10) && x == 1)`: list(true),
		`[1, 2].map(x, [x, 0].all(y, 1 / y > 0) || t)`:                   list(true, true),
		`[[1], [2]].map(x, x.map(y, y + i).map(z, -z))`:                  list(list(int64(-8)), list(int64(-9))),
		`[3].map(x, [0].exists(y, 1 / y == 1) || [x].exists(y, y == x))`: list(true),
		// Conversions.
		`int("-12")`: int64(-12), `int(2.9)`: int64(2), `int(-2.9)`: int64(-2), `int(i)`: int64(7), `double(2)`: 2.0, `double("1e3")`: 1000.0, `double(d)`: 2.5,
		`string(1)`: "1", `string(1.0)`: "1", `string(2.5)`: "2.5", `string(true)`: "true", `string(null)`: "null", `string("a")`: "a", `string(1000000.0)`: "1000000",
		`string(m)`: `{"a":{"x":"deep"},"b":2,"nil":null}`, `string([1, "a\"\n<b>\u0001\\\t", []])`: `[1,"a\"\n<b>\u0001\\\t",[]]`, `string({})`: "{}",
		`bool("true")`: true, `bool("0")`: false, `bool(t)`: true,
		`[null, true, 1, 1.0, "", [], {}].map(x, type(x))`: list("null", "bool", "int", "double", "string", "list", "map"),
		// Strings.
		`s.contains("äs")`: true, `contains(s, "x")`: false, `s.startsWith("kä")`: true, `s.endsWith("se")`: true, `s.endsWith("k")`: false,
		`"Ä b".lower()`: "ä b", `upper("ä b")`: "Ä B", `"  a b\n".trim()`: "a b", `"a,b,,c".split(",")`: list("a", "b", "", "c"), `"".split(",")`: list(""),
		`"äb".split("")`: list("ä", "b"), `"".split("")`: list(), `["a", "b"].join("-")`: "a-b", `[].join()`: "", `["a", "b"].join()`: "ab", `["a"].join(", ")`: "a",
		`"aXbX".replace("X", "--")`: "a--b--", `"ab".replace("", "-")`: "-a-b-", `"aa".replace("a", "")`: "", `s.substring(1)`: "äse", `s.substring(1, 2)`: "ä",
		`s.substring(4)`: "", `s.substring(0, whole)`: "kä", `s.indexOf("s")`: int64(2), `s.indexOf("x")`: int64(-1), `s.indexOf("")`: int64(0),
		`size(s)`: int64(4), `size(l)`: int64(4), `m.size()`: int64(3), `"".size()`: int64(0),
		// Numbers and lists.
		`abs(-3)`: int64(3), `abs(3)`: int64(3), `abs(-2.5)`: 2.5, `min(3, 1, 2)`: int64(1), `max(3, 1.5)`: int64(3), `min([2, 1.5])`: 1.5, `max(1, 1.0)`: int64(1), `min(4)`: int64(4),
		`round(2.5)`: int64(3), `round(-2.5)`: int64(-3), `round(2.4)`: int64(2), `floor(-2.5)`: int64(-3), `ceil(2.1)`: int64(3), `ceil(i)`: int64(7),
		`keys(m)`: list("a", "b", "nil"), `{"b": 1, "a": 2}.values()`: list(int64(2), int64(1)), `keys({})`: list(),
		`sum([1, 2])`: int64(3), `sum([1, 2.5])`: 3.5, `sum([])`: int64(0),
		`range(3)`: list(int64(0), int64(1), int64(2)), `range(2, 4)`: list(int64(2), int64(3)), `range(whole)`: list(int64(0), int64(1)), `range(-1)`: list(), `range(3, 1)`: list(),
		`range(9223372036854775806, 9223372036854775807)`: list(int64(math.MaxInt64 - 1)),
	} {
		e, err := Parse(text)
		require.NoError(t, err, text)
		got, err := e.Eval(names(), budget())
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		require.NoError(t, Check(got), text)
	}
}

func TestEval_errors(t *testing.T) {
	for _, test := range []struct {
		text   string
		code   string
		offset int
		says   string
	}{
		{`missing`, "NO_NAME", 0, "there is no name missing"},
		{`1 + missing.x`, "NO_NAME", 4, "missing"},
		{`has(missing.x)`, "NO_NAME", 4, "missing"},
		{`missing || false`, "NO_NAME", 0, "missing"},
		{`[1].map(x, x) == [x]`, "NO_NAME", 18, "x"},
		{`i.x`, "TYPE", 2, "an int has no field x"},
		{`l.x`, "TYPE", 2, "a list has no field x"},
		{`i.length`, "TYPE", 2, "an int has no field length"},
		{`has(l.length)`, "TYPE", 0, "has takes a field of a map, not of a list"},
		{`l[4]`, "INDEX", 1, "there is no element 4 in a list of 4"},
		{`l[-1]`, "INDEX", 1, "no element -1"},
		{`l[1.5]`, "TYPE", 1, "a list has no index that is a double"},
		{`l["a"]`, "TYPE", 1, "a list has no index that is a string"},
		{`m[1]`, "TYPE", 1, "a map has no index that is an int"},
		{`n[true]`, "TYPE", 1, "null has no index that is a bool"},
		{`s[0]`, "TYPE", 1, "a string has no index"},
		{`{1: 2}`, "TYPE", 1, "the key of a map has to be a string, not an int"},
		{`{"a": 1, "a": 2}`, "RANGE", 9, `the key "a" is twice`},
		{`["` + strings.Repeat("x", 100) + `"].map(x, {x: 1, x: 2})`, "RANGE", 119, `"` + strings.Repeat("x", 40) + `"... is twice`},
		{`1 + "a"`, "TYPE", 2, "+ takes two numbers, two strings or two lists, not an int and a string"},
		{`"a" + 1`, "TYPE", 4, "not a string and an int"},
		{`[] + 1`, "TYPE", 3, "not a list and an int"},
		{`n - 1`, "TYPE", 2, "- takes two numbers, not null and an int"},
		{`"a" % 1.0`, "TYPE", 4, "% takes two numbers"},
		{`-s`, "TYPE", 0, "- takes a number, not a string"},
		{`!i`, "TYPE", 0, "! takes a bool, not an int"},
		{`1 < "a"`, "TYPE", 2, "< takes two numbers, two strings or two bools, not an int and a string"},
		{`"a" < 1`, "TYPE", 4, "not a string and an int"},
		{`true < 1`, "TYPE", 5, "not a bool and an int"},
		{`n >= 1`, "TYPE", 2, "not null and an int"},
		{`[] > []`, "TYPE", 3, "not a list and a list"},
		{`1 in 2`, "TYPE", 2, "in takes a list or a map on its right, not an int"},
		{`i ? 1 : 2`, "TYPE", 2, "?: takes a bool before the question mark, not an int"},
		{`l ? 1 : 2`, "TYPE", 2, "not a list"},
		{`1 && true`, "TYPE", 2, "&& takes bools, not an int"},
		{`false || n`, "TYPE", 6, "|| takes bools, not null"},
		{`1 / 0`, "DIVISION_BY_ZERO", 2, "1 / 0"},
		{`1 % 0`, "DIVISION_BY_ZERO", 2, "1 % 0"},
		{`1.5 / 0`, "DIVISION_BY_ZERO", 4, "1.5 / 0"},
		{`1 % 0.0`, "DIVISION_BY_ZERO", 2, "1 % 0"},
		{`9223372036854775807 + 1`, "OVERFLOW", 20, "more than an int can be"},
		{`-9223372036854775808 - 1`, "OVERFLOW", 21, "more than an int"},
		{`1 - -9223372036854775808`, "OVERFLOW", 2, "more than an int"},
		{`-1 * -9223372036854775808`, "OVERFLOW", 3, "more than an int"},
		{`-9223372036854775808 * -1`, "OVERFLOW", 21, "more than an int"},
		{`4294967296 * 4294967296`, "OVERFLOW", 11, "more than an int"},
		{`-9223372036854775808 / -1`, "OVERFLOW", 21, "more than an int"},
		{`-9223372036854775808 % -1`, "OVERFLOW", 21, "more than an int"},
		{`-(-9223372036854775808)`, "OVERFLOW", 0, "more than an int"},
		{`abs(-9223372036854775808)`, "OVERFLOW", 0, "more than an int"},
		{`1e308 * 10`, "OVERFLOW", 6, "more than a double can be"},
		{`1e308 + 1e308`, "OVERFLOW", 6, "more than a double"},
		{`sum([9223372036854775807, 1])`, "OVERFLOW", 0, "more than an int"},
		{`1.all(x, x)`, "TYPE", 2, "all takes a list or a map, not an int"},
		{`[1].all(x, x)`, "TYPE", 4, "the condition of all has to be a bool, not an int"},
		{`[0, 1].all(x, 1 / x > 0)`, "DIVISION_BY_ZERO", 16, "1 / 0"},
		{`[0].exists(x, 1 / x > 5)`, "DIVISION_BY_ZERO", 16, "1 / 0"},
		{`[1, 0].exists_one(x, 1 / x == 1)`, "DIVISION_BY_ZERO", 23, "1 / 0"},
		{`[1].filter(x, "a")`, "TYPE", 4, "the condition of filter has to be a bool"},
		{`[1].map(x, x, x)`, "TYPE", 4, "the condition of map"},
		{`[0].map(x, 1 / x)`, "DIVISION_BY_ZERO", 13, "1 / 0"},
		{`int("x")`, "RANGE", 0, `not "x"`},
		{`int("9223372036854775808")`, "RANGE", 0, "64 bits"},
		{`int(1e19)`, "RANGE", 0, "more than an int can be"},
		{`int(true)`, "TYPE", 0, "int takes a number or a string, not a bool"},
		{`double("inf")`, "RANGE", 0, "decimal number"},
		{`double("0x1p3")`, "RANGE", 0, "decimal number"},
		{`double("1e999")`, "RANGE", 0, "decimal number"},
		{`double(null)`, "TYPE", 0, "not null"},
		{`bool("yes")`, "RANGE", 0, `bool takes "true" or "false"`},
		{`bool(1)`, "TYPE", 0, "not an int"},
		{`int("` + strings.Repeat("x", 100) + `")`, "RANGE", 0, `"` + strings.Repeat("x", 40) + `"...`},
		{`size(1)`, "TYPE", 0, "size takes a string, a list or a map, not an int"},
		{`abs("x")`, "TYPE", 0, "abs takes a number"},
		{`min([])`, "RANGE", 0, "min takes at least one number"},
		{`max("a", "b")`, "TYPE", 0, "max takes numbers or a list of numbers, not a string"},
		{`max([1, "b"])`, "TYPE", 0, "not a string"},
		{`max([1], 2)`, "TYPE", 0, "not a list"},
		{`round("x")`, "TYPE", 0, "round takes a number"},
		{`ceil(1e300)`, "RANGE", 0, "more than an int"},
		{`keys([])`, "TYPE", 0, "keys takes a map, not a list"},
		{`values(1)`, "TYPE", 0, "values takes a map, not an int"},
		{`sum(1)`, "TYPE", 0, "sum takes a list"},
		{`sum(["a"])`, "TYPE", 0, "a string is in it"},
		{`range("a")`, "TYPE", 0, "range takes ints"},
		{`range(1.5)`, "TYPE", 0, "range takes ints"},
		{`s.contains(1)`, "TYPE", 2, "contains takes strings, not an int"},
		{`["a"].contains("a")`, "TYPE", 6, "contains takes strings, not a list"},
		{`[1].join()`, "TYPE", 4, "an int is in it"},
		{`["a"].join(1)`, "TYPE", 6, "join takes a list and a string, not a list and an int"},
		{`"a".join()`, "TYPE", 4, "join takes a list"},
		{`s.substring(-1)`, "INDEX", 2, "no substring from -1 to 4"},
		{`s.substring(5)`, "INDEX", 2, "no substring from 5 to 4"},
		{`s.substring(3, 2)`, "INDEX", 2, "no substring from 3 to 2"},
		{`s.substring(3, 5)`, "INDEX", 2, "in a string of 4 characters"},
		{`s.substring("a")`, "TYPE", 2, "ints as bounds"},
		{`i.substring(1)`, "TYPE", 2, "substring takes a string"},
	} {
		e, err := Parse(test.text)
		require.NoError(t, err, test.text)
		v, err := e.Eval(names(), budget())
		var failure *EvalError
		require.ErrorAs(t, err, &failure, test.text)
		require.Nil(t, v, test.text)
		require.Equal(t, test.code, failure.Code, "%s: %s", test.text, failure.Message)
		require.Contains(t, failure.Message, test.says, test.text)
		require.Equal(t, test.offset, failure.Offset, test.text)
		require.NotErrorIs(t, err, ErrBudget, test.text)
	}
}

func TestEval_anyNames(t *testing.T) {
	e, err := Parse(`a + 1`)
	require.NoError(t, err)
	got, err := e.Eval(NamesFunc(func(name string) (any, bool) { return int64(len(name)), true }), budget())
	require.NoError(t, err)
	require.Equal(t, int64(2), got)
	_, err = e.Eval(nil, budget())
	require.ErrorContains(t, err, "NO_NAME at offset 0: there is no name a")
	_, err = e.Eval(Map{"a": struct{}{}}, budget())
	require.ErrorContains(t, err, "TYPE")
	for _, text := range []string{`string(a)`, `string([a])`, `a.x`, `a[0]`, `size(a)`, `a && true`, `a < a`, `-a`, `min(a)`} {
		e, err := Parse(text)
		require.NoError(t, err)
		_, err = e.Eval(Map{"a": struct{}{}}, budget())
		require.ErrorContains(t, err, "TYPE", text)
	}
}

func TestTruth(t *testing.T) {
	for _, v := range []bool{true, false} {
		got, err := Truth(v)
		require.NoError(t, err)
		require.Equal(t, v, got)
	}
	for _, v := range []any{nil, int64(1), "true", list()} {
		_, err := Truth(v)
		var failure *EvalError
		require.ErrorAs(t, err, &failure)
		require.Equal(t, "TYPE", failure.Code)
	}
}
