package runner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim"
)

// Where the kernel shares the processors between sessions, those of tasks have less weight than the node.
func TestSessionsOfTasksHaveLessWeight(t *testing.T) {
	if _, err := os.Stat("/proc/self/autogroup"); err != nil {
		t.Skip("the kernel has no groups of sessions: ", err)
	}
	const script = "until grep -q 'nice 10$' /proc/self/autogroup; do sleep 0.01; done; cat /proc/self/autogroup; exec sleep 1000"
	h, dir := start(t, newSpec("sh", "-c", script))
	running(t, h)
	waitFor(t, "its line", func() bool { return len(stdout(t, dir)) == 1 })
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer out.Close()
	shell, err := StartShell(dir, shim.Shell{Argv: []string{"sh", "-c", script[:len(script)-len("exec sleep 1000")]}}, out, out, out)
	require.NoError(t, err)
	defer shell.Close()
	code, known := shell.Wait()
	require.True(t, known)
	require.Zero(t, code)
	text, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	require.Regexp(t, `nice 10\n$`, string(text))
	require.NotEqual(t, stdout(t, dir)[0]+"\n", string(text), "a shell is a session of its own")
}
