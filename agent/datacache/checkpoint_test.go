package datacache

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/datacache/sources"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/checkpoints"
)

// A checkpoint in the archive is used only if it is the registered one and undamaged.
func TestACheckpointOfTheArchiveIsWhatItWas(t *testing.T) {
	where, from := t.TempDir(), t.TempDir()
	store, err := archive.Open("file://"+where, archive.Access{})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(from, "weights"), []byte("weights"), 0o600))
	saved, err := checkpoints.Save(t.Context(), store, "k", checkpoints.Source{
		Registered: "m", Open: func(path string) (checkpoints.Opened, error) { return os.Open(filepath.Join(from, path)) },
		List: func(context.Context) ([]checkpoints.File, error) {
			return []checkpoints.File{{Path: "weights", Size: 7, Mode: 0o600}}, nil
		},
	})
	require.NoError(t, err)
	c, err := Open(Config{Node: "n1", Dir: t.TempDir(), Sources: sources.Config{Archive: store}, Tries: 3, Pause: time.Millisecond})
	require.NoError(t, err)
	fetch := func(owner, digest string) (*Data, error) {
		return c.Fetch(t.Context(), Request{Tenant: "acme", Path: "mind://c1", What: "checkpoint", Owner: owner, Checkpoint: &sources.Checkpoint{Key: "k", Digest: digest}})
	}
	_, err = fetch("a", strings.Repeat("0", 64))
	require.ErrorContains(t, err, "another one in its place")

	part := filepath.Join(where, "k", "parts", saved.Files()[0].Parts[0])
	require.NoError(t, os.Chmod(part, 0o600))
	require.NoError(t, os.WriteFile(part, []byte("WEIGHTS"), 0o600))
	_, err = fetch("b", saved.Digest())
	require.ErrorContains(t, err, "the archive's copy of it is damaged")
	require.True(t, sources.Missing(err), "an older one may be whole")
	var exists error
	_, exists = os.Stat(filepath.Join(c.cfg.Dir, tenantDir("acme"), objectsDir))
	require.True(t, errors.Is(exists, os.ErrNotExist), "half of it, or something else, is no checkpoint")

	for name, spoil := range map[string]func() error{
		"a part is gone":      func() error { return os.Remove(part) },
		"a part is too short": func() error { return os.WriteFile(part, []byte("wei"), 0o600) },
	} {
		require.NoError(t, spoil())
		_, err = fetch(name, saved.Digest())
		require.True(t, sources.Missing(err), "%s: %v", name, err)
	}
	manifest := filepath.Join(where, "k", "manifest.json")
	whole, err := os.ReadFile(manifest)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(manifest, 0o600))
	require.NoError(t, os.WriteFile(manifest, bytes.Replace(whole, []byte("weights"), []byte("WEIGHTS"), 1), 0o600))
	_, err = fetch("the manifest is another one", saved.Digest())
	require.True(t, sources.Missing(err), "%v", err)
	require.NoError(t, os.WriteFile(manifest, whole, 0o600))

	require.NoError(t, os.WriteFile(part, []byte("weights"), 0o600))
	data, err := fetch("c", saved.Digest())
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(data.Dir, "weights"))
	require.NoError(t, err)
	require.Equal(t, "weights", string(text))
}
