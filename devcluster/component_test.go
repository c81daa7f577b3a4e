package devcluster

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A component that ends at once is started again ever more rarely, and the log says why it ends.
func TestComponent_restartsOfABrokenOne(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "logs"), 0o700))
	require.NoError(t, os.WriteFile(logFile(dir, "n1"), []byte("starts\nn1.yaml: line 3: no such key\n"), 0o600))
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var starts, life atomic.Int64
		c := &Cluster{dir: dir, ended: make(chan *component, 1), options: Options{
			Restart: true, Logger: slog.New(slog.NewTextHandler(&out, nil)),
			InProcess: func(ctx context.Context, _ []string) error {
				starts.Add(1)
				select {
				case <-time.After(time.Duration(life.Load())):
				case <-ctx.Done():
				}
				return errors.New("broken")
			},
		}}
		p := c.newComponent(spec{name: "n1", argv: []string{"mind", "agent"}})
		require.NoError(t, p.start())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Less(t, starts.Load(), int64(13))
		require.Greater(t, starts.Load(), int64(6))
		life.Store(int64(2 * time.Second)) // it is mended
		time.Sleep(longestPause)
		starts.Store(0)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Greater(t, starts.Load(), int64(20), "one that runs for a while is started again at once")
		p.retire()
		p.terminate()
		<-p.over
		require.Contains(t, out.String(), "last_line=\"n1.yaml: line 3: no such key\"")
	})
}
