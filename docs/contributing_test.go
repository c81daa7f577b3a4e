package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Everything that CONTRIBUTING.md names must exist, because new contributors follow it to the letter.
func TestContributing_namesOnlyWhatExists(t *testing.T) {
	text, err := os.ReadFile("../CONTRIBUTING.md")
	require.NoError(t, err)
	targets := makeTargets(t)
	for _, m := range regexp.MustCompile("(?m)(?:`|^)make ([a-z0-9 -]+)").FindAllStringSubmatch(string(text), -1) {
		for target := range strings.FieldsSeq(m[1]) {
			require.Containsf(t, targets, target, "make %s", m[1])
		}
	}
	for _, m := range regexp.MustCompile("`([a-z0-9_.]+(?:/[A-Za-z0-9_.]+)+)`").FindAllStringSubmatch(string(text), -1) {
		if strings.HasPrefix(m[1], "bin/") || strings.HasPrefix(m[1], "testing/") {
			continue // build outputs, and the standard library
		}
		_, err := os.Stat(filepath.Join("..", m[1]))
		require.NoErrorf(t, err, "CONTRIBUTING.md names %s", m[1])
	}
	for _, m := range regexp.MustCompile(`go test (?:-[a-z]+ )*\./([a-z/]+) -run (Test\w+)`).FindAllStringSubmatch(string(text), -1) {
		require.NoErrorf(t, exec.Command("git", "grep", "-q", "^func "+m[2], "--", "../"+m[1]).Run(), "%s has no test that begins with %s", m[1], m[2])
	}
	for _, m := range regexp.MustCompile(`MIND_[A-Z_]+`).FindAllString(string(text), -1) {
		require.NoErrorf(t, exec.Command("git", "grep", "-q", m, "--", "../*_test.go").Run(), "no test reads %s", m)
	}
}

// makeTargets returns the targets of the Makefile, and checks that each has a line of help.
func makeTargets(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../Makefile")
	require.NoError(t, err)
	phony := regexp.MustCompile(`(?m)^\.PHONY: (.*)$`).FindStringSubmatch(string(text))
	require.NotNil(t, phony)
	targets := strings.Fields(phony[1])
	helped := regexp.MustCompile(`(?m)^([a-z0-9-]+):.*## `).FindAllStringSubmatch(string(text), -1)
	var with []string
	for _, m := range helped {
		with = append(with, m[1])
	}
	require.ElementsMatch(t, targets, with, "each target has a line of help, and is no file")
	return targets
}
