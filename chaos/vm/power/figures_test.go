package power

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/chaos/vm/power/result"
)

// A figure that is counted but not listed would not be printed, and every figure must be explained in the docs.
func TestFigures_areToldAndExplained(t *testing.T) {
	docs, err := os.ReadFile("../../../docs/operate/powercut.md")
	require.NoError(t, err)
	var files []string
	for _, pattern := range []string{"*.go", "ledger/*.go"} {
		some, err := filepath.Glob(pattern)
		require.NoError(t, err)
		files = append(files, some...)
	}
	counted := regexp.MustCompile(`\.Count\("(\w+)"`)
	found := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range counted.FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = true
		}
	}
	require.ElementsMatch(t, result.Figures, slices.Collect(maps.Keys(found)))
	for _, figure := range result.Figures {
		require.Contains(t, string(docs), "`"+figure+"`")
	}
	for _, p := range result.Promises() {
		require.Contains(t, string(docs), "`"+string(p)+"`")
	}
	for _, m := range moments {
		require.Contains(t, string(docs), "`"+m.name+"`")
	}
	for _, m := range Mutants {
		require.Contains(t, string(docs), "`"+m.Name+"`")
	}
}
