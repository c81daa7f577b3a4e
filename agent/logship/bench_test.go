package logship

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/tasklog"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/tasks"
)

// BenchmarkShip measures how fast the log of an ended task is written to an archive in a directory, with syncs, and
// read again.
func BenchmarkShip(b *testing.B) {
	dir := b.TempDir()
	w := tasklog.NewWriter(dir, tasklog.Limits{})
	write(w, numbered(0, 300_000, 100))
	w.Close(time.Now())
	size, _, err := tasklog.End(dir)
	require.NoError(b, err)
	b.Run("in", func(b *testing.B) {
		b.SetBytes(int64(size))
		for b.Loop() {
			store, err := archive.Open("file://"+b.TempDir(), archive.Access{})
			require.NoError(b, err)
			sh := &shipment{
				shipper: New(Config{Store: store, LogDir: ".", MetricsFile: "metrics.jsonl", Metrics: prometheus.NewRegistry()}),
				task:    tasks.Task{Job: "job_1", Attempt: 1}, dir: dir, ended: true,
			}
			for !sh.final {
				sh.step(b.Context())
				require.NoError(b, sh.err)
			}
			b.StopTimer()
			out(b, store, int64(size))
			require.NoError(b, removeMark(dir))
			b.StartTimer()
		}
	})
}

func out(b *testing.B, store archive.Store, size int64) {
	began := time.Now()
	m, err := tasks.Find(b.Context(), store, "job_1", 1, 0)
	require.NoError(b, err)
	r := tasks.NewLogReader(store, m)
	lines := 0
	for {
		entries, err := r.Next(b.Context(), 1000)
		require.NoError(b, err)
		if len(entries) == 0 {
			break
		}
		lines += len(entries)
	}
	require.Equal(b, 300_000, lines)
	b.ReportMetric(float64(size)/1e6/time.Since(began).Seconds(), "MB/s-read")
}

func removeMark(dir string) error { return os.Remove(filepath.Join(dir, markFile)) }
