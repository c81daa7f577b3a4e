package expr

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBudget_ofOps(t *testing.T) {
	for text, ops := range map[string]int64{
		`1`:                          1,
		`i + 1`:                      3,
		`false && i == 1`:            2,
		`t ? 1 : 2`:                  3,
		`[1, 2]`:                     3 + 2 + 3, // the nodes, the elements, and the result again
		`size([1, 2])`:               1 + 5 + 1,
		`l == l`:                     3 + 5,
		`kb.all(x, x != "r3")`:       2 + 2*4, // and a comparison each
		`long.contains("x")`:         3 + 4,
		`"x" in kb`:                  3 + 2,
		`range(10).size() == 10`:     1 + 1 + 2 + 10 + 1 + 1 + 1,
		`string(kb) == "[]"`:         4 + 3 + 1,
		`long + long`:                3 + 8,
		`l`:                          1, // a part of the names
		`l.filter(x, x == null)[0]`:  0,
		`sum([1, 2])`:                0,
		`keys(m)`:                    0,
		`"a,b".split(",").join("-")`: 0,
		`"aaaa".replace("a", "bb")`:  0,
		`long == long && long < long && long <= "z" && size(long) == 1024`: 0,
		`min([3, 2, 1])`:                       0,
		`{"a": [{"b": 1}]}`:                    0,
		unequalMaps():                          0,
		`{"a": 1, "b": 2} == {"a": 2, "b": 2}`: 1 + 5 + 5 + 1 + 2 + 1 + 1, // all keys, although the first entry decides
	} {
		e, err := Parse(text)
		require.NoError(t, err, text)
		n := names()
		n["long"] = strings.Repeat("a", 4*chunk)
		b := Budget{Ops: 1000, Bytes: 1 << 20}
		want, err := e.Eval(n, &b)
		require.NoError(t, err, text)
		used := 1000 - b.Ops
		if ops != 0 {
			require.Equal(t, ops, used, text)
		}
		// It takes as much, whatever is left, and fails with less.
		b = Budget{Ops: used, Bytes: 1 << 20}
		got, err := e.Eval(n, &b)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		require.Zero(t, b.Ops, text)
		for less := range used {
			b = Budget{Ops: less, Bytes: 1 << 20}
			requireUsedUp(t, e, n, &b)
			require.Zero(t, b.Ops, text)
		}
	}
}

// unequalMaps compares two maps whose entries all differ. Which entry is compared first decides how many steps it takes.
func unequalMaps() string {
	var left, right []string
	for i := range 10 {
		same := strings.Repeat("1, ", i)
		left = append(left, fmt.Sprintf(`"k%d": [%s1]`, i, same))
		right = append(right, fmt.Sprintf(`"k%d": [%s2]`, i, same))
	}
	return "{" + strings.Join(left, ", ") + "} == {" + strings.Join(right, ", ") + "}"
}

func TestBudget_ofBytes(t *testing.T) {
	for text, bytes := range map[string]int64{
		`i + 1`:                 0,
		`l[0]`:                  0,
		`s + s`:                 stringBytes + 10,
		`[1, 2]`:                listBytes + 2*elementBytes,
		`{"a": 1}`:              mapBytes + entryBytes,
		`range(100)`:            listBytes + 100*elementBytes,
		`kb + kb`:               listBytes + 4*elementBytes,
		`kb.map(x, x)`:          listBytes + 4*elementBytes,
		`kb.filter(x, x == s)`:  listBytes,
		`keys(m)`:               listBytes + 6*elementBytes,
		`string(kb)`:            stringBytes + 11,
		`s.upper()`:             stringBytes + 10,
		`s.substring(1)`:        stringBytes,
		`kb.join("--")`:         stringBytes + 6,
		`s.replace("s", "sss")`: stringBytes + 7,
		`"a,b".split(",")`:      listBytes + 2*elementBytes,
	} {
		e, err := Parse(text)
		require.NoError(t, err, text)
		b := Budget{Ops: 1000, Bytes: bytes}
		_, err = e.Eval(names(), &b)
		require.NoError(t, err, text)
		require.Zero(t, b.Bytes, text)
		for less := range bytes {
			b = Budget{Ops: 1000, Bytes: less}
			requireUsedUp(t, e, names(), &b)
			require.Zero(t, b.Bytes, text)
		}
	}
}

func requireUsedUp(t *testing.T, e *Expr, n Names, b *Budget) {
	t.Helper()
	v, err := e.Eval(n, b)
	require.Nil(t, v, e.Text())
	require.ErrorIs(t, err, ErrBudget, e.Text())
	var failure *EvalError
	require.ErrorAs(t, err, &failure)
	require.Equal(t, "BUDGET", failure.Code)
}

// TestBudget_ofBombs evaluates texts that are short and would make a lot.
func TestBudget_ofBombs(t *testing.T) {
	double := strings.Repeat(`.map(x, [x, x])`, 60)
	for _, text := range []string{
		`range(9223372036854775807)`,
		`range(-9223372036854775808, 9223372036854775807)`,
		`range(100000).map(x, range(100000))`,
		`range(1000).map(x, range(1000).map(y, range(1000)))`,
		`[1]` + double,
		`string([1]` + double + `)`,
		`[1]` + double + ` == [1]` + double,
		`["a"].map(x, ` + strings.Repeat(`[`, 20) + `x` + strings.Repeat(`].map(x, x + x)`, 20) + `)`,
		`"a"` + strings.Repeat(`.replace("a", "aaaaaaaaaaaaaaaa")`, 60),
		`range(100).map(x, "0123456789").join("0123456789").split("").map(x, "0123456789").join(",").split("").map(x, "0123456789").join(",").split("")`,
	} {
		e, err := Parse(text)
		require.NoError(t, err, text)
		requireUsedUp(t, e, names(), &Budget{Ops: 100_000, Bytes: 1 << 20})
		requireUsedUp(t, e, names(), &Budget{Ops: 1 << 20, Bytes: 4 << 20})
	}
	e, err := Parse(`range(4611686018427387904)`) // of 32 bytes each: 64 bits cannot hold the product
	require.NoError(t, err)
	requireUsedUp(t, e, nil, &Budget{Ops: math.MaxInt64, Bytes: 1 << 40})
	e, err = Parse(`range(9223372036854775807)`)
	require.NoError(t, err)
	requireUsedUp(t, e, nil, &Budget{Ops: math.MaxInt64, Bytes: 1 << 40})
	requireUsedUp(t, e, nil, nil)
	requireUsedUp(t, e, nil, &Budget{Ops: -5, Bytes: -5})
}

// TestBudget_nothingMakesUpForIt runs out of memory where steps are left to go on.
func TestBudget_nothingMakesUpForIt(t *testing.T) {
	for _, text := range []string{
		`range(1000) == [] || true`,
		`true && range(1000) == [] && false`,
		`[0, 1].exists(x, x == 1 || range(1000) == [])`,
		`[0, 1].exists(x, x == 0 && range(1000) == [] || x == 1)`,
		`[0, 1].all(x, x == 0 && range(1000) == [])`,
		`[0].exists(x, range(1000) == []) || true`,
	} {
		e, err := Parse(text)
		require.NoError(t, err, text)
		_, err = e.Eval(nil, budget())
		require.NoError(t, err, text)
		b := Budget{Ops: 10_000, Bytes: 1000}
		requireUsedUp(t, e, nil, &b)
		require.Greater(t, b.Ops, int64(1000), text)
	}
}

func TestBudget_ofDepth(t *testing.T) {
	e, err := Parse(`range(3)` + strings.Repeat(`.map(x, [x])`, 61))
	require.NoError(t, err)
	v, err := e.Eval(nil, budget())
	require.NoError(t, err)
	require.NoError(t, Check(v))
	// The expression is nested 64 deep, and its value more.
	e, err = Parse(`[[[[1]]]]` + strings.Repeat(`.map(x, [x])`, 58) + `.size()`)
	require.NoError(t, err)
	_, err = e.Eval(nil, budget())
	require.NoError(t, err)
	e, err = Parse(`[1]` + strings.Repeat(`.map(x, [[x]])`, 50))
	require.NoError(t, err)
	_, err = e.Eval(nil, budget())
	require.ErrorContains(t, err, "RANGE at offset 690: the result is nested more than 64 deep")
}

// TestBudget_boundsMemory compares what evaluations allocate with what they are charged for.
func TestBudget_boundsMemory(t *testing.T) {
	big := strings.Repeat("ä, ", 50_000)
	n := Map{"big": big, "words": Map{}, "list": make([]any, 50_000), "docs": list(map[string]any{"k": big, "l": list(big)})}
	for _, text := range []string{
		`big + big`, `big.upper()`, `big.split(",")`, `big.split("")`, `big.split(",").join(";")`, `big.replace(",", ";;;;")`,
		`range(50000)`, `range(50000).map(x, x * 2.5)`, `list.filter(x, true)`, `list + list`, `string(list)`, `string(docs)`, `big.trim()`, `big.substring(5, 1000)`,
		`range(1000).map(x, {"k": x, "l": [x], "m": string(x)})`, `{"k": big + "x"}.map(k, k).join()`, `range(100).map(x, big.substring(x) + "!")`,
		`big == big && size(big) > 3 && !big.contains("x") && big < big + "a"`, `keys(docs[0])`, `list.exists(x, x == 1)`, `list.map(x, [x, x]).map(x, x[0])`,
	} {
		e, err := Parse(text)
		require.NoError(t, err, text)
		for _, limit := range []int64{10_000, 1 << 20, 64 << 20} {
			b := Budget{Ops: 10 << 20, Bytes: limit}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := e.Eval(n, &b)
			runtime.ReadMemStats(&after)
			if limit == 64<<20 {
				require.NoError(t, err, text)
			}
			allocated := int64(after.TotalAlloc - before.TotalAlloc)
			// Strings grow through shorter ones, which are dropped. A step may box a number and its arguments.
			require.Less(t, allocated, 3*(limit-b.Bytes)+24*(10<<20-b.Ops)+10_000, "%s, of %d", text, limit)
		}
	}
}
