// Package oracle compares the expressions of flows with CEL, on what the two have in common. It is a module of its own,
// because cel-go and its dependencies are needed nowhere else.
package oracle

import (
	"errors"
	"fmt"
	"testing"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/flow/expr"
)

var names = map[string]any{
	"i": int64(7), "j": int64(-2), "big": int64(1) << 62, "d": 2.5, "f": -0.5, "whole": 2.0, "s": "käse", "u": "a,b", "t": true, "o": false, "n": nil,
	"l": []any{int64(1), 2.0, "three", nil, []any{int64(1)}}, "ints": []any{int64(3), int64(1), int64(2)}, "doubles": []any{1.5, -2.5, 3.0},
	"strings": []any{"x", "", "zß"}, "empty": []any{}, "m": map[string]any{"a": int64(1), "b": "two", "c": map[string]any{"d": 2.5}, "nil": nil},
	"numbers": map[string]any{"a": int64(1), "b": int64(0), "c": int64(-3)},
}

type oracle struct {
	env *cel.Env
}

func newOracle(t *testing.T) oracle {
	var options []cel.EnvOption
	for name := range names {
		options = append(options, cel.Variable(name, cel.DynType))
	}
	env, err := cel.NewEnv(append(options, ext.Strings(), ext.Math())...)
	require.NoError(t, err)
	return oracle{env}
}

// parses says whether the text is an expression of CEL.
func (o oracle) parses(text string) (*cel.Ast, error) {
	ast, issues := o.env.Parse(text)
	return ast, issues.Err()
}

func (o oracle) eval(t require.TestingT, text string) (any, error) {
	ast, err := o.parses(text)
	require.NoError(t, err, text)
	program, err := o.env.Program(ast)
	require.NoError(t, err, text)
	v, _, err := program.Eval(names)
	if err != nil {
		return nil, err
	}
	return value(v)
}

// value makes a value of expr of one of CEL.
func value(v ref.Val) (any, error) {
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool, types.Int, types.Double, types.String:
		return v.Value(), nil
	case traits.Mapper:
		out := map[string]any{}
		for i := v.Iterator(); i.HasNext() == types.True; {
			key := i.Next()
			element, err := value(v.Get(key))
			if err != nil {
				return nil, err
			}
			out[string(key.(types.String))] = element
		}
		return out, nil
	case traits.Lister:
		out := []any{}
		for i := v.Iterator(); i.HasNext() == types.True; {
			element, err := value(i.Next())
			if err != nil {
				return nil, err
			}
			out = append(out, element)
		}
		return out, nil
	}
	return nil, fmt.Errorf("a %s", v.Type().TypeName())
}

func (o oracle) compare(t require.TestingT, text string) (failed bool) {
	e, err := expr.Parse(text)
	require.NoError(t, err, text)
	got, err := e.Eval(expr.Map(names), &expr.Budget{Ops: 1 << 20, Bytes: 1 << 20})
	want, wantErr := o.eval(t, text)
	if errors.Is(err, expr.ErrBudget) {
		return true
	}
	require.Equal(t, wantErr == nil, err == nil, "%s\nCEL: %v, %v\nours: %v, %v", text, want, wantErr, got, err)
	if err == nil {
		require.Equal(t, want, got, text)
	}
	return err != nil
}

func TestEvaluation_isThatOfCEL(t *testing.T) {
	o := newOracle(t)
	failed, all := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{T: t}
		text := g.any(rapid.IntRange(0, 4).Draw(t, "depth"))
		if _, err := expr.Parse(text); err != nil {
			t.Skip("too long: ", err)
		}
		all++
		if o.compare(t, text) {
			failed++
		}
	})
	t.Logf("%d of %d evaluations failed, in both", failed, all)
	require.Less(t, failed, all/2, "too few have a value")
}

func TestExamples_areThoseOfCEL(t *testing.T) {
	o := newOracle(t)
	for _, text := range []string{
		// Numbers.
		`1 == 1.0`, `1 != 1.5`, `i < 7.5`,
		`9223372036854775807 + 1`, `-9223372036854775808 - 1`, `-9223372036854775808 / -1`, `-9223372036854775808 % -1`, `big * 2`, `big * -2`, `big * -3`,
		`-9223372036854775808 * -1`, `-1 * -9223372036854775808`, `-(-9223372036854775808)`, `7 / -2`, `-7 % 3`, `7 % -3`, `1 / 0`, `1 % 0`, `0x1F`, `-0x10`,
		`-5`, `- 5`, `-(5)`, `a`, `-0.0 == 0.0`, `.5`, `1e3`, `2.5e-3`, `1.5 - 0.5 == 1`, `int(2.9)`, `int(-2.9)`, `int("12")`, `int("+12")`, `int(" 12")`, `int("0x10")`,
		`int("1_000")`, `int(1e19)`, `int(9223372036854775807.0)`, `double("1e3")`, `double("x")`, `double(7)`,
		// Logic.
		`1 / 0 > 0 || true`, `true || 1 / 0 > 0`, `1 / 0 > 0 && false`, `1 / 0 > 0 && true`, `"x" || true`, `true && "x"`, `1 && false`, `missing && false`, `missing || false`,
		`"x" ? 1 : 2`, `t ? 1 : missing`, `o ? 1 : t ? 2 : 3`, `!"x"`, `t && t && o || t`, `o || o && missing`,
		// Equality and order.
		`null == null`, `null == false`, `null != 1`, `"1" == 1`, `[1] == [1.0]`, `[1, 2] == [1]`, `{"a": 1} == {"a": 1.0}`, `{"a": 1} == {"b": 1}`, `{} == []`, `true > false`,
		`"a" < "b"`, `"ä" > "z"`, `"" < "a"`, `1 < "a"`, `[1] < [2]`, `null < 1`, `false < 1`, `1 in [1.0]`, `"a" in m`, `1 in m`, `null in l`, `[1] in l`, `1 in 1`, `"a" in "abc"`,
		`1 < 2 == true`, `1 in ints == true`,
		// Lists, maps, strings.
		`l[0]`, `l[whole]`, `l[5]`, `l[-1]`, `l[1.5]`, `l["a"]`, `m["a"]`, `m.c.d`, `m["c"]["d"]`, `has(m.a)`, `has(m.nil)`, `has(m.x)`, `has(m.c.x)`, `has(l.x)`,
		`[1, 2,]`, `{"a": 1,}`, `[[]] + [{}]`, `"a" + "b"`, `"a" + 1`, `[] + 1`, `s[0]`, `i.x`, `size(s)`, `s.size()`, `size(m)`, `size(1)`, `size("👍")`,
		`"\u00e9\x41\101\n\"\\" + '\''`, `r"\d" + R'\n'`, `"""a"b""" + '''c'd'''`, "'''a\nb'''", `"\?\a\b\f\v\` + "`" + `"`, `"a" // comment`,
		`s.contains("äs")`, `s.startsWith("k")`, `s.endsWith("e")`, `s.startsWith(1)`, `"abc".substring(1)`, `"abc".substring(1, 2)`, `"abc".substring(3)`, `"abc".substring(4)`,
		`"abc".substring(2, 1)`, `"abc".substring(-1)`, `s.indexOf("s")`, `s.indexOf("")`, `"".indexOf("")`, `s.indexOf("zz")`, `"a,b,".split(",")`, `"äb".split("")`, `"".split("")`,
		`"".split(",")`, `["a", "b"].join()`, `["a", "b"].join("-")`, `[].join()`, `[1].join()`, `" a\t\n".trim()`, `"\u2003\u00a0a\u3000".trim()`, `"aXaX".replace("a", "bb")`, `"ab".replace("", "-")`, `"".replace("", "-")`,
		`bool("true")`, `bool("T")`, `bool("1")`, `bool("yes")`, `bool("tRUE")`, `bool(true)`, `string(7)`, `string(2.5)`, `string(true)`, `string("x")`,
		// Macros.
		`ints.all(x, x > 0)`, `ints.all(x, x > 1)`, `[0, 1].all(x, 1 / x > 1)`, `[0, 1].all(x, 1 / x > 0)`, `[].all(x, missing)`, `ints.exists(x, x == 2)`, `[0, 1].exists(x, 1 / x == 1)`,
		`[0, 1].exists(x, 1 / x == 5)`, `[].exists(x, true)`, `ints.exists_one(x, x == 1)`, `[1, 1].exists_one(x, x == 1)`, `[1, 0].exists_one(x, 1 / x == 1)`, `ints.filter(x, x > 1)`,
		`ints.map(x, x * 2)`, `ints.map(x, x > 1, x * 2)`, `ints.map(x, 1 / (x - 1))`, `ints.map(x, ints.map(x, x + 1))`, `ints.map(i, i + j)`, `ints.map(x, [x].map(y, [y, i]))`, `numbers.all(k, numbers[k] > -5)`,
		`numbers.exists(k, 1 / numbers[k] == 1)`, `size(m.map(k, k))`, `1.all(x, true)`, `"a".map(x, x)`, `ints.all(x, x)`, `ints.filter(x, 1)`, `ints.exists(x, x)`, `[].map(x, x)`,
		`ints.filter(x, x > 1).map(y, y * 10).exists(z, z == 20)`,
		// Both refuse them.
		`1 + true`, `"a" - "b"`, `-"a"`, `-true`, `null + null`, `{} + {}`, `5 % "a"`, `!1`,
	} {
		t.Run(text, func(t *testing.T) { o.compare(t, text) })
	}
}
