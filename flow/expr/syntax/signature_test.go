package syntax

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSignatures_areOfEachFunctionAndMacro(t *testing.T) {
	want := []string{"has"}
	for name := range Functions {
		want = append(want, name)
	}
	for name := range Macros {
		want = append(want, name)
	}
	text, err := os.ReadFile("../../../docs/use/expressions.md")
	require.NoError(t, err)
	var have []string
	for _, s := range Signatures() {
		have = append(have, s.Name)
		require.Contains(t, s.Call, s.Name+"(")
		require.Equal(t, s.Of != "", strings.Contains(s.Call, "."+s.Name), s.Call)
		require.Contains(t, string(text), s.Name+"(", "the page has each of them")
	}
	slices.Sort(want)
	slices.Sort(have)
	require.Equal(t, want, have)
}

func TestUses(t *testing.T) {
	text := `a.b + xs.map(x, x + ü("é") + a) + c`
	_, err := Parse(text)
	require.Error(t, err)
	text = `a.b + "é" + xs.map(x, x + a)`
	e, err := Parse(text)
	require.NoError(t, err)
	var names []string
	for _, u := range e.Uses() {
		require.Equal(t, u.Name, text[u.From:u.To])
		names = append(names, u.Name)
	}
	require.Equal(t, []string{"a", "xs", "a"}, names, "the variable of a macro is no name")

	text = `Dear {{who.name}}, {{"{{"}} {{who}}`
	tpl, err := ParseTemplate(text)
	require.NoError(t, err)
	require.Len(t, tpl.Uses(), 2)
	for _, u := range tpl.Uses() {
		require.Equal(t, "who", text[u.From:u.To])
	}
}
