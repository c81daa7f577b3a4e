package check_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var code = regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`)

// emitted returns the codes in the source of this package.
func emitted(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("*.go")
	require.NoError(t, err)
	found := map[string]bool{}
	for _, path := range all {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil && code.MatchString(text) {
					found[text] = true
				}
			}
			return true
		})
	}
	return slices.Sorted(maps.Keys(found))
}

// TestPage_saysWhatToDoAboutEachCode compares the table of docs/use/flows.md with the codes of the source.
func TestPage_saysWhatToDoAboutEachCode(t *testing.T) {
	text, err := os.ReadFile("../../docs/use/flows.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "| code | what to do |\n|---|---|\n")
	require.True(t, found)
	var named []string
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			break
		}
		require.NotEmpty(t, strings.TrimSpace(cells[2]))
		for _, m := range regexp.MustCompile("`([A-Z_]+)`").FindAllStringSubmatch(cells[1], -1) {
			named = append(named, m[1])
		}
	}
	require.ElementsMatch(t, emitted(t), named)
}
