package expr

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/flow/expr/syntax"
)

func seeds(f *testing.F) {
	for _, text := range []string{
		``, `confidence > 0.7`, `kb.length > 0 && s == "käse"`, `has(m.a.x) ? m.a.x : null`, `-9223372036854775808 - 1`, `!-5.abs()`, `1e308 * 10`,
		`[1, 2.5, null].map(x, x != null, x * 2)`, `m.all(k, m[k] == 2 || 1/0 == 1)`, `{"a": [0x1F], 'b': r"\d"}["a"][0]`,
		`"\u00e9\x41\101" + '''it's''' + """say "a" """`, `range(10).filter(x, x % 2 == 0)`, `["a"].join(",").split("").map(x, upper(x))`,
		`string(m) + string(l)`, `min(range(3)) + sum([1, 2.5])`, `s.replace("s", "").substring(1, 2).indexOf("s")`, `a // comment`, `((((1))))`,
		`[0].map(x, [x, x]).map(x, [x, x]) == []`, `1 in [1.0] && "a" in m`, `{{i}}`, `a {{s}} {{ {"a": {"b": 1}}.a }} {{"}}"}}`, `{{`,
	} {
		f.Add(text)
	}
}

func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text)
		requireSyntax(t, text, err)
		if err == nil {
			printed := print(e.Root, 0)
			if again, err := Parse(printed); len(printed) <= MaxText { // hexadecimal numbers and escapes may become longer
				require.NoError(t, err, printed)
				require.Equal(t, e.Tree(), again.Tree(), printed)
				require.Equal(t, e.Roots(), again.Roots(), printed)
			}
			require.NoError(t, checkTree(e.Tree()), text)
		}
		template, err := ParseTemplate(text)
		requireSyntax(t, text, err)
		if err == nil && template.Literal() {
			v, err := template.Eval(nil, budget())
			require.NoError(t, err)
			require.Equal(t, text, v)
		}
	})
}

// checkTree checks a tree, which may be nested twice as deep as a value.
func checkTree(tree any) error {
	path, problem := check(tree, -MaxDepth)
	if problem != "" {
		return errors.New(path + problem)
	}
	return nil
}

func requireSyntax(t *testing.T, text string, err error) {
	var syntax *syntax.Error
	if errors.As(err, &syntax) {
		require.True(t, 0 <= syntax.Offset && syntax.Offset <= len(text), "%q: %v", text, err)
		require.Contains(t, syntax.Message, "expected ", text)
	} else {
		require.NoError(t, err)
	}
}

func FuzzEval(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		if e, err := Parse(text); err == nil {
			requireSound(t, e, Budget{Ops: 2000, Bytes: 1 << 16})
		}
		if template, err := ParseTemplate(text); err == nil {
			b := Budget{Ops: 2000, Bytes: 1 << 16}
			v, err := template.Eval(names(), &b)
			require.True(t, b.Ops >= 0 && b.Bytes >= 0)
			if err == nil {
				require.NoError(t, Check(v), text)
			} else {
				require.Nil(t, v)
			}
		}
	})
}
