package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/examples/stage"
)

// build builds the programs of the story. It skips the test in short mode.
func build(t *testing.T) stage.Settings {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a cluster of real processes")
	}
	s := stage.Settings{Steps: 200, Delay: 15 * time.Millisecond}
	dir := t.TempDir()
	here, err := os.Getwd()
	require.NoError(t, err)
	for name, path := range map[string]*string{"../../cmd/mind": &s.Mind, "../charlm": &s.Charlm} {
		built := filepath.Join(dir, filepath.Base(name))
		out, err := exec.Command("go", "build", "-o", built, name).CombinedOutput()
		require.NoError(t, err, string(out))
		*path, err = filepath.Rel(here, built) // as make gives it
		require.NoError(t, err)
	}
	return s
}

func TestDemo_allItsClaimsHold(t *testing.T) {
	s := build(t)
	t.Setenv("TMPDIR", t.TempDir())
	require.NoError(t, run(t.Context(), s))
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestDemo_failsWhenTheTrainingDoes(t *testing.T) {
	s := build(t)
	t.Setenv("TMPDIR", t.TempDir())
	s.Charlm = "/bin/false"
	require.ErrorContains(t, run(t.Context(), s), "the training is FAILED")
}

func TestVerify_findsALossThatDidNotFall(t *testing.T) {
	s := &story{watch: stage.NewWatch(nil, "")}
	_, err := s.lossFell(t.Context())
	require.ErrorContains(t, err, "0.000 to 0.000")
}
