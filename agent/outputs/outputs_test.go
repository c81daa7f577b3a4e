package outputs

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// found lists the contents of a directory, with paths relative to it.
func found(t *testing.T, dir string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the file is being removed
		}
		if rel, _ := filepath.Rel(dir, path); rel != "." {
			names = append(names, rel)
		}
		return err
	}))
	return names
}

// Two tasks of a job, for example of two attempts, share its checkpoint directory: it must not be removed when one of
// them ends.
func TestADirectoryThatAnotherTaskUsesStays(t *testing.T) {
	dir := t.TempDir()
	o := New(dir)
	at := func(name string) string { return filepath.Join(dir, Folder, name) }
	first := []string{at("t/base/job_1/attempt-1"), at("t/base/job_1/checkpoints")}
	second := []string{at("t/base/job_1/attempt-2"), at("t/base/job_1/checkpoints")}
	for _, d := range slices.Concat(first, second) {
		require.NoError(t, os.MkdirAll(d, 0o700))
	}
	o.Use(first)
	o.Use(second)
	o.Leave(first, true)
	require.NoDirExists(t, first[0])
	require.DirExists(t, second[1])
	require.NoError(t, o.unused(second[1], func() error { t.Error("it is used"); return nil }))
	o.Leave(second, false)
	require.DirExists(t, second[1], "the agent stops, and the task goes on")
	o.Use(second)
	o.Leave(second, true)
	require.Equal(t, []string{"t"}, found(t, at("")))
	require.Empty(t, o.users)

	elsewhere := filepath.Join(dir, "elsewhere", "job_1", "attempt-1")
	require.NoError(t, os.MkdirAll(elsewhere, 0o700))
	o.Use([]string{elsewhere})
	o.Leave([]string{elsewhere}, true)
	require.DirExists(t, elsewhere, "what a user has named is the user's")
}

// A tenant may have the same name as a job's directory. Its folder does not count as one.
func TestTheFolderOfATenantIsNotTakenForThatOfAJob(t *testing.T) {
	o := New(t.TempDir())
	for _, tenant := range []string{"acme", "job_1.attempt-1", "job_1.checkpoints", "job_1", "../..", ".going-x"} {
		own := filepath.Join(o.Tenant(tenant), "job_2.attempt-1")
		require.NoError(t, os.MkdirAll(own, 0o700))
		require.Contains(t, o.list(), own, tenant)
	}
}

func TestOldOutputsAreRemovedUnlessTheyAreNeeded(t *testing.T) {
	dir := t.TempDir()
	outputs := filepath.Join(dir, Folder)
	long := time.Now().Add(-48 * time.Hour)
	touch := func(name string, at time.Time) {
		path := filepath.Join(outputs, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
		for ; path != outputs; path = filepath.Dir(path) {
			require.NoError(t, os.Chtimes(path, at, at))
		}
	}
	for _, name := range []string{"t/job_1.attempt-1/f", "t/job_1.checkpoints/c-1/f", "t/job_2.attempt-1/f", "t/job_2.checkpoints/c-1/f", "job_3.attempt-1/f", "t/job_4.attempt-1/f", "t/job_6.checkpoints/c-1/f", "t/mine/f"} {
		touch(name, long)
	}
	touch("t/job_5.attempt-1/deep/er/new", time.Now())
	require.NoError(t, os.Chtimes(filepath.Join(outputs, "t/job_5.attempt-1"), long, long))
	before := found(t, outputs)
	needed := func([]string) (*v1.GetNeededOutputsResponse, error) { return nil, errors.New("no coordinator answers") }
	ok := true
	c := &Cleaner{
		Dirs: New(dir), Log: slog.New(slog.DiscardHandler),
		Live:   func() (map[string]bool, bool) { return nil, ok },
		Needed: func(_ context.Context, jobs []string) (*v1.GetNeededOutputsResponse, error) { return needed(jobs) },
	}
	sweep := func(keep time.Duration) {
		c.Keep = keep
		c.sweep(t.Context())
	}

	sweep(24 * time.Hour)
	require.Equal(t, before, found(t, outputs), "nobody says what is needed")
	var asked []string
	needed = func(jobs []string) (*v1.GetNeededOutputsResponse, error) {
		asked = jobs
		return &v1.GetNeededOutputsResponse{UnfinishedJobIds: []string{"job_4"}, CheckpointPaths: []string{
			filepath.Join(outputs, "t/job_2.checkpoints/c-1"),
			filepath.Join(outputs, "t/job_6.checkpoints/c-2"), // a checkpoint of another node, at the same path
		}}, nil
	}
	sweep(0)
	require.Equal(t, before, found(t, outputs), "without a bound they are kept for ever")
	c.Dirs.Use([]string{filepath.Join(outputs, "job_3.attempt-1")})
	sweep(24 * time.Hour)
	require.ElementsMatch(t, []string{"job_1", "job_2", "job_3", "job_4", "job_6"}, asked)
	require.DirExists(t, filepath.Join(outputs, "job_3.attempt-1"), "a task uses it")
	c.Dirs.Leave([]string{filepath.Join(outputs, "job_3.attempt-1")}, false)
	sweep(24 * time.Hour)
	require.ElementsMatch(t, []string{
		"t", "t/job_2.checkpoints", "t/job_2.checkpoints/c-1", "t/job_2.checkpoints/c-1/f", "t/job_4.attempt-1", "t/job_4.attempt-1/f", "t/mine", "t/mine/f",
		"t/job_5.attempt-1", "t/job_5.attempt-1/deep", "t/job_5.attempt-1/deep/er", "t/job_5.attempt-1/deep/er/new",
	}, found(t, outputs))
}
