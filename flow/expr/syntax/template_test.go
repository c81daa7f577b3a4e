package syntax

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTemplate_syntaxErrors(t *testing.T) {
	for _, test := range []struct {
		text   string
		offset int
		says   string
	}{
		{`a {{`, 4, "expected a value, found the end"},
		{`a {{}}`, 4, "expected a value, found }"},
		{`a {{b`, 5, "expected an operator or }}, found the end"},
		{`a {{b}`, 5, "expected an operator or }}, found }"},
		{`a {{b} }`, 5, "expected an operator or }}"},
		{`a {{b c}}`, 6, "expected an operator or }}, found c"},
		{`{{a}} {{b.}}`, 10, "expected the name of a field"},
		{`{{"a}}`, 6, `expected " at the end of the string that begins at offset 2`},
		{`{{a // b}}`, 10, "expected an operator or }}"},
		{"a\xff", 1, "UTF-8"},
		{strings.Repeat("a", MaxTemplate+1), MaxTemplate, "at most 65536 bytes"},
		{"a{{" + strings.Repeat(" ", MaxText) + "a}}", 3 + MaxText, "at most 4096 bytes"},
	} {
		_, err := ParseTemplate(test.text)
		var syntax *Error
		require.ErrorAs(t, err, &syntax, test.text)
		require.Contains(t, syntax.Message, test.says, test.text)
		require.Equal(t, test.offset, syntax.Offset, test.text)
	}
	// It is refused where it becomes too long, whatever follows.
	_, err := ParseTemplate("a{{" + strings.Repeat("(a) ||", MaxText) + "%%%")
	require.ErrorContains(t, err, "at offset 4099: expected }}: an expression has at most 4096 bytes")
	_, err = ParseTemplate("a{{" + strings.Repeat(" ", MaxText-1) + "a}}")
	require.NoError(t, err)
}

func TestTemplate_roots(t *testing.T) {
	template, err := ParseTemplate(`{{b}} {{a.all(x, x)}} {{b + c}}`)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c"}, template.Roots())
	template, err = ParseTemplate(`none`)
	require.NoError(t, err)
	require.Empty(t, template.Roots())
}
