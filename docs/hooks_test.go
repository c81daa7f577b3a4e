package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHook_holdsCommitMessages checks that the hook accepts messages in the imperative, and says what is wrong with
// others.
func TestHook_holdsCommitMessages(t *testing.T) {
	for message, wrong := range map[string]string{
		"scheduler: search victims once\n":            "",
		"ci: embed the shim\n\nWhy.\n":                "",
		"Merge branch 'x'\n":                          "",
		"# a comment of git\nfsm: read a job\n":       "",
		"scheduler: searched victims once\n":          `"searched" is no imperative`,
		"scheduler: searching victims\n":              `"searching" is no imperative`,
		"scheduler: fixes a fault\n":                  `write "fix"`,
		"scheduler: search victims once.\n":           "full stop",
		"scheduler: search victims once\nand again\n": "empty line before the body",
		"scheduler: " + longWords + "\n":              "at most 100",
	} {
		file := filepath.Join(t.TempDir(), "message")
		require.NoError(t, os.WriteFile(file, []byte(message), 0o600))
		said, err := exec.CommandContext(t.Context(), "sh", "../.githooks/commit-msg", file).CombinedOutput()
		if wrong == "" {
			require.NoError(t, err, "%s: %s", message, said)
			continue
		}
		require.Error(t, err, message)
		require.Contains(t, string(said), wrong, message)
	}
}

const longWords = "search the victims of a preemption once, and put each of them back that turns out not to be needed after all"
