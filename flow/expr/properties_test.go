package expr

import (
	"errors"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/flow/expr/syntax"
)

// sources draws nodes of expressions: each parses, and many have no value.
type sources struct {
	*rapid.T
	scope []string
}

func draw[T any](s *sources, from ...T) T { return rapid.SampledFrom(from).Draw(s.T, "from") }

func (s *sources) literal() any {
	switch draw(s, 0, 1, 1, 2, 3, 3, 4) {
	case 0:
		return draw[any](s, nil, true, false)
	case 1:
		return rapid.Int64Range(-3, 5).Draw(s.T, "int")
	case 2:
		return draw[any](s, int64(math.MinInt64), int64(math.MaxInt64), rapid.Int64().Draw(s.T, "int"))
	case 3:
		return draw(s, "", "a", ",", "a,b", "b", "x", "ä€", rapid.String().Draw(s.T, "string"))
	}
	return draw(s, 0.0, math.Copysign(0, -1), 2.0, 0.5, -1e300, 1e300, rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64).Draw(s.T, "double"))
}

func (s *sources) args(count, depth int) (args []*syntax.Node) {
	for range count {
		args = append(args, s.node(depth-1))
	}
	return args
}

func (s *sources) node(depth int) *syntax.Node {
	name := draw(s, slices.Sorted(maps.Keys(names()))...)
	if len(s.scope) > 0 && draw(s, true, false) {
		name = draw(s, s.scope...)
	}
	if depth == 0 {
		return draw(s, &syntax.Node{Op: syntax.OpConst, Value: s.literal()}, &syntax.Node{Op: syntax.OpGet, Name: name})
	}
	switch op := draw(s, append(symbolic(), syntax.OpConst, syntax.OpGet, syntax.OpCall, syntax.OpCall, syntax.OpCall, syntax.OpMacro, syntax.OpMacro)...); op {
	case syntax.OpConst:
		return &syntax.Node{Op: op, Value: s.literal()}
	case syntax.OpGet:
		return &syntax.Node{Op: op, Name: name}
	case syntax.OpSelect, syntax.OpHas:
		return &syntax.Node{Op: op, Name: draw(s, "a", "b", "length", "missing", "for"), Args: s.args(1, depth)}
	case syntax.OpList:
		return &syntax.Node{Op: op, Args: s.args(draw(s, 0, 1, 2, 3), depth)}
	case syntax.OpObject:
		return &syntax.Node{Op: op, Args: s.args(2*draw(s, 0, 1, 2), depth)}
	case syntax.OpNot, syntax.OpNegate:
		return &syntax.Node{Op: op, Args: s.args(1, depth)}
	case syntax.OpAnd, syntax.OpOr:
		return &syntax.Node{Op: op, Args: s.args(draw(s, 2, 2, 3), depth)}
	case syntax.OpChoose:
		return &syntax.Node{Op: op, Args: s.args(3, depth)}
	case syntax.OpCall:
		f := syntax.Functions[draw(s, slices.Sorted(maps.Keys(syntax.Functions))...)]
		return &syntax.Node{Op: op, Function: f, Args: s.args(rapid.IntRange(f.Least, min(f.Most, 4)).Draw(s.T, "args"), depth)}
	case syntax.OpMacro:
		n := &syntax.Node{Op: op, Name: draw(s, slices.Sorted(maps.Keys(syntax.Macros))...), Args: s.args(1, depth)}
		variable := draw(s, "x", "y", "i")
		n.Value = variable
		s.scope = append(s.scope, variable)
		n.Args = append(n.Args, s.args(rapid.IntRange(1, syntax.Macros[n.Name]).Draw(s.T, "args"), depth)...)
		s.scope = s.scope[:len(s.scope)-1]
		return n
	default:
		return &syntax.Node{Op: op, Args: s.args(2, depth)}
	}
}

func drawNode(t *rapid.T) *syntax.Node {
	s := &sources{T: t}
	return s.node(rapid.IntRange(0, 5).Draw(t, "depth"))
}

func TestProperty_printedTextParses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawNode(t)
		text := print(n, 0)
		if len(text) > MaxText {
			t.Skip("too long")
		}
		e, err := Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, (&syntax.Expr{Root: n}).Tree(), e.Tree(), text)
		require.Equal(t, text, print(e.Root, 0))
	})
}

func TestProperty_evaluation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := print(drawNode(t), 0)
		if len(text) > MaxText {
			t.Skip("too long")
		}
		e, err := Parse(text)
		require.NoError(t, err, text)
		requireSound(t, e, Budget{
			Ops:   rapid.SampledFrom([]int64{0, 10, 100, 10_000}).Draw(t, "ops"),
			Bytes: rapid.SampledFrom([]int64{0, 100, 1000, 1 << 20}).Draw(t, "bytes"),
		})
	})
}

// requireSound evaluates an expression twice, and with more and less.
func requireSound(t require.TestingT, e *Expr, b Budget) {
	before := names()
	first := b
	v, err := e.Eval(before, &first)
	second := b
	again, errAgain := e.Eval(names(), &second)
	require.Equal(t, v, again, e.Text())
	require.Equal(t, err, errAgain, e.Text())
	require.Equal(t, first, second, e.Text())
	require.Equal(t, names(), before, "the names were changed: %s", e.Text())

	require.True(t, 0 <= first.Ops && first.Ops <= b.Ops && 0 <= first.Bytes && first.Bytes <= b.Bytes, "%s: %+v of %+v", e.Text(), first, b)
	var failure *EvalError
	switch {
	case err == nil:
		require.NoError(t, Check(v), e.Text())
		require.True(t, Equal(v, v), e.Text())
	case errors.As(err, &failure):
		require.Nil(t, v, e.Text())
		require.Contains(t, []string{"TYPE", "RANGE", "DIVISION_BY_ZERO", "NO_NAME", "INDEX", "OVERFLOW", "BUDGET"}, failure.Code)
		require.Equal(t, failure.Code == "BUDGET", errors.Is(err, ErrBudget))
		require.NotEmpty(t, failure.Message)
		require.True(t, 0 <= failure.Offset && failure.Offset <= len(e.Text()), "%s: %v", e.Text(), err)
	default:
		require.Failf(t, "not an EvalError", "%s: %v", e.Text(), err)
	}
	if errors.Is(err, ErrBudget) {
		return
	}
	// A smaller budget makes no difference, until it is too small.
	exact := Budget{Ops: b.Ops - first.Ops, Bytes: b.Bytes - first.Bytes}
	again, errAgain = e.Eval(names(), &exact)
	require.Equal(t, Budget{}, exact, e.Text())
	require.Equal(t, v, again, e.Text())
	require.Equal(t, err, errAgain, e.Text())
	less := Budget{Ops: b.Ops - first.Ops - 1, Bytes: b.Bytes}
	_, err = e.Eval(names(), &less)
	require.ErrorIs(t, err, ErrBudget, e.Text())
}

func drawValue(t *rapid.T, depth int) any {
	s := &sources{T: t}
	switch kind := draw(s, 0, 1, 2); {
	case depth > 0 && kind == 1:
		out := []any{}
		for range draw(s, 0, 1, 2) {
			out = append(out, drawValue(t, depth-1))
		}
		return out
	case depth > 0 && kind == 2:
		out := map[string]any{}
		for range draw(s, 0, 1, 2) {
			out[draw(s, "a", "b", "c")] = drawValue(t, depth-1)
		}
		return out
	}
	return draw[any](s, nil, true, false, int64(0), int64(1), 1.0, 0.0, "", "a", s.literal())
}

func TestProperty_equality(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawValue(t, 2), drawValue(t, 2), drawValue(t, 2)
		require.True(t, Equal(a, a))
		require.Equal(t, Equal(a, b), Equal(b, a))
		require.False(t, Equal(a, b) && Equal(b, c) && !Equal(a, c))
		copied, err := Normalize(a)
		require.NoError(t, err)
		require.Equal(t, a, copied)
	})
}

func TestProperty_templates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawNode(t)
		text := print(n, 0)
		if len(text) > MaxText {
			t.Skip("too long")
		}
		e, err := Parse(text)
		require.NoError(t, err, text)
		alone, err := ParseTemplate("{{" + text + "}}")
		require.NoError(t, err, text)
		require.Equal(t, e.Roots(), alone.Roots())
		require.False(t, alone.Literal())
		b, alsoB := *budget(), *budget()
		want, wantErr := e.Eval(names(), &b)
		got, err := alone.Eval(names(), &alsoB)
		require.Equal(t, want, got, text)
		require.Equal(t, wantErr == nil, err == nil, text)
		require.Equal(t, b, alsoB, text)

		among, err := ParseTemplate("<{{ " + text + "}}>{{" + text + " }}")
		require.NoError(t, err, text)
		got, err = among.Eval(names(), &Budget{Ops: 1 << 20, Bytes: 1 << 20})
		if wantErr != nil || errors.Is(err, ErrBudget) {
			return
		}
		require.NoError(t, err, text)
		m := newMachine(nil, &Budget{Ops: 1 << 20, Bytes: 1 << 20})
		written, err := m.text(0, want)
		require.NoError(t, err)
		require.Equal(t, "<"+written+">"+written, got, text)
	})
}

// symbolic returns the operators that are not written as names.
func symbolic() (all []syntax.Op) {
	for op := syntax.OpConst; op <= syntax.OpIn; op++ {
		if op.String() != "" {
			all = append(all, op)
		}
	}
	return all
}
