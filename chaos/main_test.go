package chaos

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/devcluster/testrun"
)

// mind is the binary under test, built once.
var mind string

func TestMain(m *testing.M) {
	os.Exit(testrun.Main(func() int {
		if mind = os.Getenv(doomedEnv); mind != "" {
			return beDoomed()
		}
		mind = filepath.Join(os.TempDir(), "mind")
		defer os.Remove(mind)
		build := exec.Command("go", "build", "-o", mind, "../cmd/mind")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "building mind:", err)
			return 1
		}
		return m.Run()
	}))
}

// start runs a cluster for one test. If the test fails, it prints the cluster's log.
func start(t *testing.T, args ...string) *procs.Cluster {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	c, err := procs.Start(ctx, mind, dir, args...)
	require.NoError(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		logs, _ := filepath.Glob(filepath.Join(dir, "data", "logs", "*.log"))
		for _, l := range append(logs, filepath.Join(dir, "mind-dev.log")) {
			if text, err := os.ReadFile(l); err == nil {
				t.Logf("%s ends with:\n%s", filepath.Base(l), text[max(0, len(text)-3000):])
			}
		}
	})
	return c
}

// startStopped is like start, for tests that do not check how the cluster stops.
func startStopped(t *testing.T, args ...string) (*procs.Cluster, *procs.REST) {
	t.Helper()
	c := start(t, args...)
	t.Cleanup(func() { require.NoError(t, c.Stop()) })
	info, err := c.Info()
	require.NoError(t, err)
	return c, procs.NewREST(info)
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits for a condition of a running system. The limit is far longer than it should take.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 30*time.Second, 20*time.Millisecond, what)
}
