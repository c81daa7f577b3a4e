package tasks

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/archive"
)

func keep(t *testing.T, dir string) (archive.Store, *Manifest) {
	store, err := archive.Open("file://"+dir, archive.Access{})
	require.NoError(t, err)
	m := &Manifest{Task: Task{Job: "job_1", Attempt: 1, Token: 5}, Node: "n1"}
	for _, data := range []string{"1 o one\n2 e two\n", "3 m three\n"} {
		part, err := PutPart(t.Context(), store, m.Task, Log, m.End(Log), []byte(data))
		require.NoError(t, err)
		m.Log = append(m.Log, part)
	}
	require.NoError(t, PutManifest(t.Context(), store, m))
	return store, m
}

func TestFind(t *testing.T) {
	store, m := keep(t, t.TempDir())
	found, err := Find(t.Context(), store, "job_1", 1, 0)
	require.NoError(t, err)
	require.Equal(t, m, found)
	for _, other := range []Task{{Job: "job_1", Attempt: 2}, {Job: "job_1", Attempt: 1, Rank: 1}, {Job: "job_11", Attempt: 1}, {Job: "job_1", Attempt: 11}} {
		_, err := Find(t.Context(), store, other.Job, other.Attempt, other.Rank)
		require.ErrorIs(t, err, archive.ErrNotFound, "%+v", other)
	}
	newer := *m
	newer.Token, newer.Log = 6, nil
	require.NoError(t, PutManifest(t.Context(), store, &newer))
	found, err = Find(t.Context(), store, "job_1", 1, 0)
	require.NoError(t, err)
	require.EqualValues(t, 6, found.Token)
}

// A part that differs from its manifest is reported as damaged.
func TestReader_noticesDamage(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"a changed byte": func(path string) error { return os.WriteFile(path, []byte("1 o 0ne\n2 e two\n"), 0o600) },
		"an end cut off": func(path string) error { return os.Truncate(path, 10) },
		"a lost part":    os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store, m := keep(t, dir)
			r := NewLogReader(store, m)
			entries, err := r.Next(t.Context(), 10)
			require.NoError(t, err)
			require.Len(t, entries, 3)
			require.NoError(t, damage(filepath.Join(dir, filepath.FromSlash(partKey(m.Task, Log, 0)))))
			entries, err = NewLogReader(store, m).Next(t.Context(), 10)
			require.Error(t, err)
			require.NotErrorIs(t, err, archive.ErrNotFound, "the task is there")
			require.Empty(t, entries)
		})
	}
}

// A batch is limited in bytes, because it becomes one message.
func TestReader_boundsItsBatches(t *testing.T) {
	store, m := keep(t, t.TempDir())
	line := "4 o " + strings.Repeat("x", 60_000) + "\n"
	part, err := PutPart(t.Context(), store, m.Task, Log, m.End(Log), []byte(strings.Repeat(line, 50)))
	require.NoError(t, err)
	m.Log = append(m.Log, part)
	r := NewLogReader(store, m)
	total := 0
	for {
		entries, err := r.Next(t.Context(), 1000)
		require.NoError(t, err)
		require.Less(t, len(entries), 25)
		if total += len(entries); len(entries) == 0 {
			break
		}
	}
	require.Equal(t, 53, total)
}

func TestFind_refusesWhatItDoesNotUnderstand(t *testing.T) {
	dir := t.TempDir()
	store, _ := keep(t, dir)
	path := filepath.Join(dir, fmt.Sprintf("manifests/job_1/1/0/%020d.json", 5))
	for text, want := range map[string]string{`{"version": 2}`: "version 2", `{`: "damaged"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := Find(t.Context(), store, "job_1", 1, 0)
		require.ErrorContains(t, err, want)
		require.NotErrorIs(t, err, archive.ErrNotFound)
	}
}

func TestMetricsText(t *testing.T) {
	for line, want := range map[string]string{
		`{"loss": NaN}`: `{"loss": null}`, `[1, 2]`: `[1, 2]`, "noise": "noise", "\xff\x00{": "\uFFFD\x00{", `{"a": "` + "\xff" + `"}`: "{\"a\": \"\uFFFD\"}",
		strings.Repeat("x", 5000): strings.Repeat("x", maxGarbage) + " ... (the line is longer)",
	} {
		require.Equal(t, want, MetricsText([]byte(line), false))
	}
	require.Equal(t, `{"a": 1} ... (the line is longer)`, MetricsText([]byte(`{"a": 1}`), true), "it only begins like an object")
}
