package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// build builds the programs of the story. It skips the test in short mode.
func build(t *testing.T) settings {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a cluster of real processes")
	}
	s := settings{steps: 200, delay: 15 * time.Millisecond}
	dir := t.TempDir()
	for name, path := range map[string]*string{"../../cmd/mind": &s.mind, "../charlm": &s.charlm} {
		*path = filepath.Join(dir, filepath.Base(name))
		out, err := exec.Command("go", "build", "-o", *path, name).CombinedOutput()
		require.NoError(t, err, string(out))
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
	s.charlm = "/bin/false"
	require.ErrorContains(t, run(t.Context(), s), "the training is FAILED")
}

// TestVerify_findsWhatIsWrong checks that the checks of the story can fail.
func TestVerify_findsWhatIsWrong(t *testing.T) {
	lines := func(steps ...int) (all []line) {
		for _, step := range steps {
			all = append(all, line{step: step})
		}
		return all
	}
	for name, got := range map[string][]line{
		"gap":      lines(10, 30, 40),
		"repeat":   lines(10, 20, 20, 30, 40),
		"disorder": lines(10, 30, 20, 40),
		"cut":      lines(10, 20, 30),
	} {
		s := &story{settings: settings{steps: 40}, watch: &watch{lines: got}}
		_, err := s.everyLineOnce(t.Context())
		require.ErrorContains(t, err, "gap or a repeat", name)
	}
	s := &story{watch: &watch{losses: []float64{4, 3.5}}}
	_, err := s.lossFell(context.Background())
	require.ErrorContains(t, err, "4.000 to 3.500")
}

func TestLossLine(t *testing.T) {
	l, ok, err := lossLine(`{"message":"step 120/500  loss 2.5 ...","timestamp":"2026-01-02T03:04:05.5Z"}`)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, 120, l.step)
	require.Equal(t, 2026, l.at.Year())
	_, ok, err = lossLine(`{"message":"saved /x/checkpoint-100","timestamp":"2026-01-02T03:04:05.5Z"}`)
	require.NoError(t, err)
	require.False(t, ok)
	_, _, err = lossLine("{")
	require.Error(t, err)
}

func TestTeller_writesFewLiveLinesWhereTheyStay(t *testing.T) {
	var b strings.Builder
	tell := &teller{w: &b, began: time.Now()}
	for range 100 {
		tell.now("live")
	}
	require.Equal(t, 1, strings.Count(b.String(), "live"))
	b.Reset()
	tell.terminal = true
	tell.now("first")
	tell.now("second")
	tell.say("said")
	require.NotContains(t, b.String()[:len(b.String())-1], "\n", "it is overwritten, until something is said")
}
