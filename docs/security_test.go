package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A threat whose test is gone is a promise that nobody holds.
func TestSecurity_everyThreatNamesTestsThatExist(t *testing.T) {
	text, err := os.ReadFile("operate/security.md")
	require.NoError(t, err)
	_, threats, found := strings.Cut(string(text), "| threat | what stands against it | test |\n|---|---|---|\n")
	require.True(t, found, "the table of threats is gone")
	name := regexp.MustCompile("`([a-z/]+) ((?:Test|Fuzz)[A-Za-z0-9_]+)`")
	rows := 0
	for line := range strings.Lines(threats) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		rows++
		cells := strings.Split(strings.TrimSpace(line), "|")
		require.Len(t, cells, 5, line)
		named := name.FindAllStringSubmatch(cells[3], -1)
		require.NotEmpty(t, named, "no test: %s", line)
		require.Equal(t, strings.Count(cells[3], "`")/2, len(named), "not of the form `folder TestName`: %s", line)
		for _, n := range named {
			require.Truef(t, hasTest(t, n[1], n[2]), "%s has no %s", n[1], n[2])
		}
	}
	require.Greater(t, rows, 20)
}

func hasTest(t *testing.T, folder, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		if strings.Contains(string(text), "\nfunc "+test+"(") {
			return true
		}
	}
	return false
}
