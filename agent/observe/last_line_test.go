package observe

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim"
)

// A program that has ended writes no newline any more, so its last object is a line.
func TestTheLastLineNeedsNoNewline(t *testing.T) {
	w := newWatched(t)
	metrics, events := filepath.Join(w.dir, shim.MetricsFile), filepath.Join(w.dir, shim.EventsFile)
	w.write(metrics, `{"step":1}`+"\n"+`{"step":2,"loss":NaN}`)
	w.write(events, `{"event":"error","error_type":"DIVERGED","message":"nan"}`)
	require.Equal(t, []int64{1}, w.steps(w.scan(time.Unix(1000, 0), false)), "it may still be writing")
	_, _, ok := ReportedError(w.dir, 0)
	require.False(t, ok)
	require.Equal(t, []int64{2}, w.steps(w.scan(time.Unix(1001, 0), true)))
	kind, message, ok := ReportedError(w.dir, 0)
	require.Equal(t, []any{"DIVERGED", "nan", true}, []any{kind, message, ok})
	w.scan(time.Unix(1002, 0), true)
	text, err := os.ReadFile(metrics)
	require.NoError(t, err)
	require.Equal(t, `{"step":1}`+"\n"+`{"step":2,"loss":NaN}`+"\n", string(text), "one newline")
}

func TestTheLastLineThatWasCutOffStaysSo(t *testing.T) {
	for _, text := range []string{`{"step":1}` + "\n" + `{"step":2`, "", "done", "\n"} {
		w := newWatched(t)
		metrics := filepath.Join(w.dir, shim.MetricsFile)
		w.write(metrics, text)
		w.scan(time.Unix(1000, 0), true)
		left, err := os.ReadFile(metrics)
		require.NoError(t, err)
		require.Equal(t, text, string(left))
	}
}

// A step that no int64 holds is left out.
func TestStepsThatAreNoNumbersAreLeftOut(t *testing.T) {
	for _, line := range []string{`{"step":1e300}`, `{"step":-1}`, `{"step":99999999999999999999}`, `{"step":1e400}`} {
		w := newWatched(t)
		w.write(filepath.Join(w.dir, shim.MetricsFile), line+"\n")
		w.write(filepath.Join(w.dir, shim.EventsFile), `{"event":"progress",`+line[1:]+"\n")
		require.Empty(t, w.scan(time.Unix(1000, 0), true), line)
	}
	w := newWatched(t)
	w.write(filepath.Join(w.dir, shim.MetricsFile), `{"step":5,"total_steps":1e300,"loss":1e400}`+"\n")
	found := w.scan(time.Unix(1000, 0), true)
	require.Equal(t, []int64{5}, w.steps(found))
	require.Zero(t, found[0].Body.GetProgress().GetTotalSteps())
}
