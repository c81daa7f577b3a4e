package expr

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTemplate(t *testing.T) {
	for text, want := range map[string]any{
		``:                           "",
		`plain { text } }}`:          "plain { text } }}",
		`{{i}}`:                      int64(7),
		`{{ l[1] }}`:                 2.0,
		`{{m.missing}}`:              nil,
		`{{kb}}`:                     list("r1", "r2"),
		` {{i}}`:                     " 7",
		`a {{s}}, {{d}} {{t}}.`:      "a käse, 2.5 true.",
		`{{i}}{{i}}`:                 "77",
		`{{s}}{{n}}`:                 "käsenull",
		`got {{m}}`:                  `got {"a":{"x":"deep"},"b":2,"nil":null}`,
		`got {{kb.map(x, x)}}!`:      `got ["r1","r2"]!`,
		`{{ {"a": {"b": 1}}.a }}`:    map[string]any{"b": int64(1)},
		`{{{"a": {"b": 1}}}}`:        map[string]any{"a": map[string]any{"b": int64(1)}},
		`{{"}}"}}{{'{{'}}`:           "}}{{",
		`{{"""x}}"""}}`:              "x}}",
		`}} {{i}} {`:                 "}} 7 {",
		"{{i // seven\n}}":           int64(7),
		`ä{{"ö"}}ü`:                  "äöü",
		`{{whole}} of {{1000000.0}}`: "2 of 1000000",
	} {
		template, err := ParseTemplate(text)
		require.NoError(t, err, text)
		require.Equal(t, text, template.Text())
		require.Equal(t, !strings.Contains(text, "{{"), template.Literal(), text)
		got, err := template.Eval(names(), budget())
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestTemplate_evalErrors(t *testing.T) {
	template, err := ParseTemplate(`a {{i}} {{missing}}`)
	require.NoError(t, err)
	require.Equal(t, []string{"i", "missing"}, template.Roots())
	v, err := template.Eval(names(), budget())
	require.Nil(t, v)
	require.ErrorContains(t, err, "NO_NAME at offset 10: there is no name missing")

	for _, text := range []string{`a`, `{{i}}`, `a {{i}}`, `{{s}}{{s}}`} {
		template, err := ParseTemplate(text)
		require.NoError(t, err)
		v, err = template.Eval(names(), nil)
		require.Nil(t, v)
		require.ErrorIs(t, err, ErrBudget)
	}
	template, err = ParseTemplate(`{{s}}{{s}}`)
	require.NoError(t, err)
	_, err = template.Eval(names(), &Budget{Ops: 100, Bytes: 20})
	require.ErrorIs(t, err, ErrBudget)
	template, err = ParseTemplate(`x{{[1]` + strings.Repeat(`.map(x, [x, x])`, 60) + `}}`)
	require.NoError(t, err)
	_, err = template.Eval(names(), &Budget{Ops: 1 << 20, Bytes: 1 << 20})
	require.ErrorIs(t, err, ErrBudget)
}
