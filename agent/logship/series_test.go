package logship

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/tasks"
)

func TestShip_metrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nil)
		path := filepath.Join(n.dir, "metrics.jsonl")
		appendTo(t, path, "{\"loss\": NaN}\nnoise\n{\"a\": \""+strings.Repeat("long", 2<<20)+"\"}\n{\"step\": 2}\n{\"half\"")
		n.start()
		defer func() { n.stop() }()
		time.Sleep(time.Minute)
		appendTo(t, path, ": 1}\n")
		n.end()
		time.Sleep(time.Minute)
		found, err := tasks.NewMetricsReader(n.store, n.manifest(), 0).Next(t.Context(), 100)
		require.NoError(t, err)
		var texts []string
		for _, m := range found {
			texts = append(texts, m.Text)
		}
		long := "{\"a\": \"" + strings.Repeat("long", 2<<20)
		require.Equal(t, []string{`{"loss": null}`, "noise", long[:1024] + " ... (the line is longer)", `{"step": 2}`, `{"half": 1}`}, texts)
		rest, err := tasks.NewMetricsReader(n.store, n.manifest(), found[3].Offset).Next(t.Context(), 100)
		require.NoError(t, err)
		require.Len(t, rest, 1)
	})
}

// The series are shipped whole, from time to time while the task runs, and once more when it has ended. The object that
// the previous manifest names still exists for its readers.
func TestShip_series(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, func(c *Config) { c.SeriesFile, c.SeriesBytes = "series", 100 })
		path := filepath.Join(n.dir, "series")
		require.NoError(t, os.WriteFile(path, []byte("one"), 0o600))
		kept := func(m *tasks.Manifest) string {
			data, err := tasks.ReadSeries(t.Context(), n.store, m)
			require.NoError(t, err)
			return string(data)
		}
		n.start()
		time.Sleep(4 * time.Minute)
		require.Nil(t, n.manifest(), "the first period has not passed")
		time.Sleep(2 * time.Minute)
		first := n.manifest()
		require.Equal(t, "one", kept(first))
		time.Sleep(6 * time.Minute)
		require.Equal(t, 1, n.store.parts, "what has not changed is not shipped again")

		require.NoError(t, os.WriteFile(path, []byte("two"), 0o600))
		time.Sleep(6 * time.Minute)
		require.Equal(t, "two", kept(n.manifest()))
		require.Equal(t, "one", kept(first))
		n.stop()
		n.start() // as the next agent does
		defer func() { n.stop() }()
		require.NoError(t, os.WriteFile(path, []byte("three"), 0o600))
		n.end()
		time.Sleep(time.Minute)
		last := n.manifest()
		require.True(t, last.Final)
		require.Equal(t, "three", kept(last))
		require.Equal(t, 3, n.store.parts)
		_, err := tasks.ReadSeries(t.Context(), n.store, first)
		require.ErrorIs(t, err, tasks.ErrDamaged, "there are two slots, and this is the third")
	})
}

func TestShip_seriesThatTheTaskReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, func(c *Config) { c.SeriesFile, c.SeriesBytes = "series", 100 })
		require.NoError(t, os.WriteFile(filepath.Join(n.dir, "series"), make([]byte, 101), 0o600))
		n.end()
		n.start()
		defer func() { n.stop() }()
		time.Sleep(time.Minute)
		m := n.manifest()
		require.True(t, m.Final, "the rest is shipped all the same")
		_, err := tasks.ReadSeries(t.Context(), n.store, m)
		require.ErrorIs(t, err, archive.ErrNotFound)
	})
}

// Files in a task directory are not synced: after a power cut the end of the metrics may be missing on the node and not
// in the archive.
func TestShip_metricsThatAPowerCutTookStayInTheArchive(t *testing.T) {
	for name, left := range map[string]int64{"a part is left": 14, "nothing is left": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, nil)
				path := filepath.Join(n.dir, "metrics.jsonl")
				appendTo(t, path, "{\"step\": 1}\n{\"step\": 2}\n")
				n.start()
				time.Sleep(time.Minute)
				n.stop()
				require.NoError(t, os.Truncate(path, left))
				n.end()
				n.start()
				time.Sleep(time.Minute)
				n.stop()
				require.True(t, n.manifest().Final)
				found, err := tasks.NewMetricsReader(n.store, n.manifest(), 0).Next(t.Context(), 100)
				require.NoError(t, err)
				require.Len(t, found, 2)
			})
		})
	}
}

// Metrics beyond the limit, which are not read either, are not shipped, and neither are other kinds of files in place
// of the metrics file.
func TestShip_metricsAreBounded(t *testing.T) {
	const most = 1 << 20
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("{\"step\": 666}\n"), 0o600))
	line := "{\"step\": 1}\n"
	for name, c := range map[string]struct {
		make func(path string) error
		want []string
	}{
		"a sparse file": {func(path string) error {
			return errors.Join(os.WriteFile(path, []byte(line), 0o600), os.Truncate(path, 30<<30))
		}, []string{`{"step": 1}`, tasks.MetricsLimit(most)}},
		"a hole": {func(path string) error {
			return errors.Join(os.WriteFile(path, []byte(line+"half"), 0o600), os.Truncate(path, 900<<10), appendText(path, line))
		}, []string{`{"step": 1}`, `{"step": 1}`}},
		"many": {func(path string) error {
			return os.WriteFile(path, []byte(line+strings.Repeat("x", most)+"\n"+line), 0o600)
		}, []string{`{"step": 1}`, tasks.MetricsLimit(most)}},
		"a link": {func(path string) error { return os.Symlink(secret, path) }, nil},
		"a FIFO": {func(path string) error { return syscall.Mkfifo(path, 0o600) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, func(c *Config) { c.MetricsBytes = most })
				require.NoError(t, c.make(filepath.Join(n.dir, "metrics.jsonl")))
				n.start()
				defer func() { n.stop() }()
				time.Sleep(time.Minute)
				n.end()
				time.Sleep(time.Minute)
				require.True(t, n.manifest().Final)
				require.LessOrEqual(t, n.store.bytes, int64(most))
				var texts []string
				r := tasks.NewMetricsReader(n.store, n.manifest(), 0)
				for {
					found, err := r.Next(t.Context(), 1)
					require.NoError(t, err)
					if len(found) == 0 {
						break
					}
					texts = append(texts, found[0].Text)
					// A reader that resumes with an offset continues behind it.
					r = tasks.NewMetricsReader(n.store, n.manifest(), found[0].Offset)
				}
				require.Equal(t, c.want, texts)
			})
		})
	}
}

func appendText(path, text string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
