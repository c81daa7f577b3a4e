package stage

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each check of a story can fail.
func TestEveryLineOnce_findsWhatIsWrong(t *testing.T) {
	lines := func(steps ...int) (all []Line) {
		for _, step := range steps {
			all = append(all, Line{Step: step})
		}
		return all
	}
	for name, got := range map[string][]Line{
		"gap":      lines(10, 30, 40),
		"repeat":   lines(10, 20, 20, 30, 40),
		"disorder": lines(10, 30, 20, 40),
		"cut":      lines(10, 20, 30),
	} {
		_, err := (&Watch{Lines: got}).EveryLineOnce(t.Context(), 40)
		require.ErrorContains(t, err, "gap or a repeat", name)
	}
}

func TestLossLine(t *testing.T) {
	l, ok, err := lossLine(`{"message":"step 120/500  loss 2.5 ...","timestamp":"2026-01-02T03:04:05.5Z"}`)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, 120, l.Step)
	require.Equal(t, 2026, l.At.Year())
	_, ok, err = lossLine(`{"message":"saved /x/checkpoint-100","timestamp":"2026-01-02T03:04:05.5Z"}`)
	require.NoError(t, err)
	require.False(t, ok)
	_, _, err = lossLine("{")
	require.Error(t, err)
}

func TestTeller_writesFewLiveLinesWhereTheyStay(t *testing.T) {
	var b strings.Builder
	tell := &Teller{w: &b, began: time.Now()}
	for range 100 {
		tell.Now("live")
	}
	require.Equal(t, 1, strings.Count(b.String(), "live"))
	b.Reset()
	tell.terminal = true
	tell.Now("first")
	tell.Now("second")
	tell.Say("said")
	require.NotContains(t, b.String()[:len(b.String())-1], "\n", "it is overwritten, until something is said")
}
