package expr

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/flow/expr/syntax"
)

const page = "../../docs/use/expressions.md"

// blocks returns the code blocks of the page in a language.
func blocks(t *testing.T, text, language string) (found []string) {
	t.Helper()
	for _, m := range regexp.MustCompile("(?s)\n```"+language+"\n(.*?)\n```\n").FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	require.NotEmpty(t, found, language)
	return found
}

// TestPage_examples evaluates each line of the examples, and compares with what the page says of it.
func TestPage_examples(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	decoder := json.NewDecoder(strings.NewReader(blocks(t, string(text), "json")[0]))
	decoder.UseNumber()
	var decoded any
	require.NoError(t, decoder.Decode(&decoded))
	given, err := Normalize(decoded)
	require.NoError(t, err)
	for _, block := range blocks(t, string(text), "cel") {
		for line := range strings.SplitSeq(block, "\n") {
			_, want, ok := strings.Cut(line, " // ")
			require.True(t, ok, line)
			e, err := Parse(line)
			require.NoError(t, err, line)
			v, err := e.Eval(Map(given.(map[string]any)), budget())
			var failure *EvalError
			if errors.As(err, &failure) {
				require.Equal(t, want, failure.Code, line)
				continue
			}
			require.NoError(t, err, line)
			got, err := newMachine(nil, budget()).text(0, []any{v})
			require.NoError(t, err, line)
			require.Equal(t, "["+want+"]", got, line)
		}
	}
}

// TestPage_namesAll finds functions, macros, codes and words of operators that the page does not have, and functions
// that only the page has.
func TestPage_namesAll(t *testing.T) {
	bytes, err := os.ReadFile(page)
	require.NoError(t, err)
	text := string(bytes)
	for name := range syntax.Functions {
		require.Regexp(t, "`([a-z]\\.)?"+name+"\\(", text)
	}
	for name := range syntax.Macros {
		require.Contains(t, text, "`x."+name+"(e, ")
	}
	for _, code := range []string{codeType, codeRange, codeDivisionByZero, codeNoName, codeIndex, codeOverflow, codeBudget} {
		require.Contains(t, text, "| `"+code+"` |")
	}
	_, section, _ := strings.Cut(text, "\n## Functions\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, m := range regexp.MustCompile("`(?:[a-z]\\.)?([A-Za-z]+)\\([^`]*\\)`").FindAllStringSubmatch(section, -1) {
		if m[1] != "f" {
			require.Contains(t, syntax.Functions, m[1])
		}
	}
}
