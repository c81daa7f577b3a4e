package oracle

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/flow/expr"
)

var tokens = []string{
	"a", "b", "x", "in", "true", "false", "null", "for", "1", "2.5", ".5", "0x1f", "1e3", `"s"`, `'s'`, `r"\s"`, `"""s"""`, "(", ")", "[", "]", "{", "}", ",", ".",
	":", "?", "+", "-", "*", "/", "%", "!", "&&", "||", "==", "!=", "<", "<=", ">", ">=", "=", "&", "has(a.b)", "size(a)", "[a]", "{a: b}", ".b", ".size()", ".all(x, x)",
	"// c\n", "5u", `b"s"`, `"`, `'`, `"\q"`, `"\u00e9"`, `"\ud800"`, "0x", "1e", "$", "99999999999999999999", "1x",
}

// byIntent has the errors about what only CEL parses: names that begin with a dot, messages, functions that this language
// does not have, unsigned numbers and bytes.
var byIntent = regexp.MustCompile(`expected a value, found \.|, found \{|expected a function|arguments of|unsigned numbers|bytes are not part`)

// reservedMessage is a message with the name of a reserved word, which CEL takes.
var reservedMessage = regexp.MustCompile(`for\s*\{`)

// TestSyntax_isThatOfCEL changes the tokens of texts that parse, and compares whether they still do.
func TestSyntax_isThatOfCEL(t *testing.T) {
	o := newOracle(t)
	parsed, all := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		text := draw(t)
		_, err := expr.Parse(text)
		if err != nil && (byIntent.MatchString(err.Error()) || reservedMessage.MatchString(text)) {
			t.Skip("differs by intent")
		}
		all++
		_, wantErr := o.parses(text)
		require.Equal(t, wantErr == nil, err == nil, "%s\nCEL: %v\nours: %v", text, wantErr, err)
		if err == nil {
			parsed++
		}
	})
	t.Logf("%d of %d texts parse", parsed, all)
}

// draw draws a text of tokens: binary operations, of which up to three tokens are replaced.
func draw(t *rapid.T) string {
	var text []string
	operands := rapid.IntRange(1, 4).Draw(t, "operands")
	for i := range operands {
		if i > 0 {
			text = append(text, rapid.SampledFrom([]string{"+", "-", "*", "&&", "||", "==", "in", "?", ":", "<"}).Draw(t, "operator"))
		}
		text = append(text, rapid.SampledFrom([]string{"a", "(a)", "[1]", "!a", "-a", "-1", "a.b", "a[1]", "(", "a ? b : 1"}).Draw(t, "operand"))
	}
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		i := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		text[i] = rapid.SampledFrom(tokens).Draw(t, "token") + rapid.SampledFrom([]string{"", " ", "\n"}).Draw(t, "space") + rapid.SampledFrom([]string{"", text[i]}).Draw(t, "kept")
	}
	return strings.Join(text, rapid.SampledFrom([]string{" ", ""}).Draw(t, "between"))
}
