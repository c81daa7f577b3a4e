package graph_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/flow/graph"
)

// TestPage_namesAll compares docs/use/drawings.md with the kinds, and with the codes in the sources of both packages of drawings.
func TestPage_namesAll(t *testing.T) {
	data, err := os.ReadFile("../../docs/use/drawings.md")
	require.NoError(t, err)
	page := string(data)
	for _, spec := range graph.Kinds() {
		var row string
		for line := range strings.Lines(page) {
			first, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
			if strings.Contains(first, "`"+string(spec.Kind)+"`") {
				row = line
			}
		}
		require.NotEmpty(t, row, "%s has no row", spec.Kind)
		require.Equal(t, !spec.Runs, strings.HasPrefix(row, "| *`"), "%s: what does not run is in italics", spec.Kind)
		for _, f := range spec.Fields {
			require.Contains(t, page, "`"+f.Name+"`", "%s of %s", f.Name, spec.Kind)
		}
	}
	_, table, found := strings.Cut(page, "| finding | what to do |\n")
	require.True(t, found)
	code := regexp.MustCompile(`"([A-Z]+(?:_[A-Z]+)+|SYNTAX|CYCLE|CROSSING|UNREACHABLE|MORE)"`)
	for _, dir := range []string{".", "../compile"} {
		files, err := filepath.Glob(dir + "/*.go")
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, m := range code.FindAllStringSubmatch(string(source), -1) {
				require.Contains(t, table, "`"+m[1]+"`", "%s in %s", m[1], file)
			}
		}
	}
}
