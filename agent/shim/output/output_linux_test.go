package output

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/tasklog"
)

// pumped returns the lines that the log has of pieces of output. Before each piece some time passes.
func pumped(t *testing.T, pause time.Duration, pieces ...string) (lines []string) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(*testing.T) {
		log := tasklog.NewWriter(dir, tasklog.Limits{})
		o := &Output{log: log}
		from, to := net.Pipe()
		go func() {
			defer to.Close()
			for _, piece := range pieces {
				time.Sleep(pause)
				_, _ = to.Write([]byte(piece))
			}
		}()
		o.pump(from, log.Stream(tasklog.Stdout), nil)
		log.Close(time.Now())
	})
	reader := tasklog.NewReader(dir)
	defer reader.Close()
	entries, err := reader.Next(1000)
	require.NoError(t, err)
	for _, e := range entries {
		lines = append(lines, e.Text)
	}
	return lines
}

func TestOutput_aLineIsCutOnlyIfItsOwnEndIsLate(t *testing.T) {
	require.Equal(t, []string{"50%", "100%"}, pumped(t, quiet+time.Millisecond, "50%", "100%\n"))
	require.Equal(t, []string{"50%100%"}, pumped(t, quiet-time.Millisecond, "50%", "100%\n"))

	// There is an incomplete line all the time, but never the same for long.
	var pieces []string
	want := []string{"step=0"}
	for i := range 20 {
		pieces = append(pieces, fmt.Sprintf("%d\nstep=", i))
		want = append(want, fmt.Sprintf("step=%d", i+1))
	}
	pieces[0] = "step=" + pieces[0]
	pieces = append(pieces, "20\n")
	require.Equal(t, strings.Join(want, "\n"), strings.Join(pumped(t, quiet/3, pieces...), "\n"))

	// After a whole line nothing is cut, however long the pause.
	require.Equal(t, []string{"a", "b"}, pumped(t, 10*quiet, "a\n", "b\n"))
}
