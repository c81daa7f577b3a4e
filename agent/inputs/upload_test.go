package inputs

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/taskid"
)

// An agent that was killed while it unpacked an upload leaves nothing to the next one.
func TestOpen_removesUnpackedUploads(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, unpackedDir, "job_1.1.0.7", "pkg")
	require.NoError(t, os.MkdirAll(left, 0o700))
	in, err := Open(Config{}, "n1", dir, func(string) string { return "" }, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.NoDirExists(t, filepath.Join(dir, unpackedDir))

	// A task that ends before its launch leaves nothing either.
	id := taskid.ID{Job: "job_1", Attempt: 1, Token: 7}
	at := filepath.Join(dir, unpackedDir, id.Name())
	require.NoError(t, os.MkdirAll(at, 0o700))
	in.Release(id)
	require.NoDirExists(t, at)
}
