package isolation

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/private"
)

// BenchmarkWalls measures what the agent does for the walls of one task, with private directories among those of the system.
func BenchmarkWalls(b *testing.B) {
	data := filepath.Join(b.TempDir(), "data")
	require.NoError(b, os.MkdirAll(data, 0o700))
	paths := private.New(data, "/var/lib/apt/lists", "/etc/ssl/private", "/var/cache/apt")
	defer paths.Close()
	i := &Isolation{Level: Cgroup}
	require.NoError(b, i.openWalls(Config{Private: paths, Log: slog.New(slog.DiscardHandler)}))
	for name, prepare := range map[string]func(){"first": func() { i.looked = time.Time{} }, "burst": func() {}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				prepare()
				_, err := i.Walls([]string{data}, nil)
				require.NoError(b, err)
			}
		})
	}
}
