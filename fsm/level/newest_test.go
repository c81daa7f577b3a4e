package level_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/level"
)

func TestNewest_isWhatTheCodeKnows(t *testing.T) {
	require.Equal(t, level.Range{Oldest: level.Oldest, Newest: level.Newest}, level.Supported())
	require.Empty(t, level.Unlocks(level.Newest+1))
}

// prints is a program that prints the levels that it was linked to support, and what the one above those of the code brings.
const prints = `package main

import (
	"fmt"

	"github.com/mindcoordinator/mind/fsm/level"
)

func main() { fmt.Println(level.Supported(), level.Unlocks(level.Newest+1)) }
`

// The linker can set one level more, and nothing else.
func TestNewest_isSetByTheLinker(t *testing.T) {
	source, program := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(source, []byte(prints), 0o600))
	run := func(newest string) (string, error) {
		build := exec.Command("go", "build", "-ldflags", "-X github.com/mindcoordinator/mind/fsm/level.newest="+newest, "-o", program, source)
		out, err := build.CombinedOutput()
		require.NoError(t, err, string(out))
		out, err = exec.Command(program).CombinedOutput()
		return string(out), err
	}
	for newest, says := range map[string]string{"": "1 []\n", "1": "1 []\n", "2": "1 to 2 [the level that tests upgrade to]\n"} {
		said, err := run(newest)
		require.NoError(t, err)
		require.Equal(t, says, said)
	}
	for _, newest := range []string{"0", "3", "02", "two", "258"} {
		said, err := run(newest)
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 2, exit.ExitCode())
		require.Contains(t, said, "panic: this program was linked with the feature level \""+newest+"\" as its newest: build it without -X level.newest, or with 2\n")
	}
}

// Both are the same in every program but that of `make upgrade`, which would then go on as if it had no newer level.
func TestNewest_isAskedOfSupported(t *testing.T) {
	looked := 0
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		looked++
		text, err := os.ReadFile(path)
		require.NotContainsf(t, string(text), "level.Newest", "%s: ask level.Supported().Newest", path)
		return err
	}))
	require.Greater(t, looked, 100)
}
