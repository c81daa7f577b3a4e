package logship

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/tasklog"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/tasks"
)

// flaky is a real store that can be made to fail, and counts the objects.
type flaky struct {
	archive.Store
	mu     sync.Mutex
	broken bool
	parts  int
	bytes  int64
}

func (f *flaky) Put(ctx context.Context, key string, body io.Reader, size int64) error {
	f.mu.Lock()
	broken := f.broken
	if !broken && strings.HasPrefix(key, "parts/") {
		f.parts++
		f.bytes += size
	}
	f.mu.Unlock()
	if broken {
		return errors.New("the store is down")
	}
	return f.Store.Put(ctx, key, body, size)
}

func (f *flaky) set(broken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = broken
}

// node is a node with one writing task and its shipper.
type node struct {
	t     *testing.T
	store *flaky
	dir   string
	task  tasks.Task
	cfg   Config

	mu      sync.Mutex
	ended   bool
	gone    bool
	shipper *Shipper
	stop    func()
}

func newNode(t *testing.T, change func(*Config)) *node {
	store, err := archive.Open("file://"+t.TempDir(), archive.Access{})
	require.NoError(t, err)
	n := &node{t: t, store: &flaky{Store: store}, dir: t.TempDir(), task: tasks.Task{Job: "job_1", Attempt: 2, Rank: 3, Token: 44}}
	n.cfg = Config{Store: n.store, Node: "n1", LogDir: ".", MetricsFile: "metrics.jsonl", Log: slog.New(slog.DiscardHandler)}
	n.cfg.Tasks = func() []Task {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.gone {
			return nil
		}
		return []Task{{Task: n.task, Dir: n.dir, Ended: n.ended}}
	}
	if change != nil {
		change(&n.cfg)
	}
	return n
}

// start starts a new shipper, as the next agent does.
func (n *node) start() {
	n.cfg.Metrics = prometheus.NewRegistry()
	n.shipper = New(n.cfg)
	ctx, cancel := context.WithCancel(n.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.shipper.Run(ctx)
	}()
	n.stop = func() {
		cancel()
		<-done
	}
}

func (n *node) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = true
}

// manifest returns the manifest in the archive, or nil.
func (n *node) manifest() *tasks.Manifest {
	m, err := tasks.Find(n.t.Context(), n.store, n.task.Job, n.task.Attempt, n.task.Rank)
	if errors.Is(err, archive.ErrNotFound) {
		return nil
	}
	require.NoError(n.t, err)
	return m
}

func (n *node) archived(from uint64) (lines []string, end uint64) {
	r := tasks.NewLogReader(n.store, n.manifest())
	require.NoError(n.t, r.SeekOffset(n.t.Context(), from))
	for {
		entries, err := r.Next(n.t.Context(), 100)
		require.NoError(n.t, err)
		if len(entries) == 0 {
			return lines, r.Offset()
		}
		for _, e := range entries {
			lines = append(lines, e.Text)
		}
	}
}

// kept reads the log from the node.
func (n *node) kept() (entries []tasklog.Entry) {
	r := tasklog.NewReader(n.dir)
	defer r.Close()
	for {
		next, err := r.Next(100)
		require.NoError(n.t, err)
		if len(next) == 0 {
			return entries
		}
		entries = append(entries, next...)
	}
}

func numbered(from, to int, pad int) (lines []string) {
	for i := from; i < to; i++ {
		lines = append(lines, fmt.Sprintf("line %06d %s", i, strings.Repeat("x", pad)))
	}
	return lines
}

func write(w *tasklog.Writer, lines []string) {
	s := w.Stream(tasklog.Stdout)
	for _, line := range lines {
		s.Write(time.Now(), []byte(line+"\n"))
	}
}

func TestShip_segmentsAsTheyCloseAndTheRestAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, func(c *Config) { c.Flush = -1 })
		w := tasklog.NewWriter(n.dir, tasklog.Limits{SegmentBytes: 10_000, TotalBytes: 1 << 30})
		n.start()
		defer func() { n.stop() }()
		write(w, numbered(0, 100, 20))
		time.Sleep(time.Minute)
		require.Nil(t, n.manifest(), "the segment is open")
		write(w, numbered(100, 1000, 20))
		time.Sleep(time.Minute)
		m := n.manifest()
		require.False(t, m.Final)
		require.False(t, n.shipper.Done(n.task))
		lines, _ := n.archived(0)
		require.Equal(t, numbered(0, len(lines), 20), lines)
		require.Greater(t, len(lines), 700)

		// The next agent continues; only the small part that has grown is put twice.
		n.stop()
		parts := n.store.parts
		n.start()
		write(w, numbered(1000, 1500, 20))
		time.Sleep(time.Minute)
		w.Close(time.Now())
		n.end()
		time.Sleep(time.Minute)
		require.True(t, n.manifest().Final)
		require.True(t, n.shipper.Done(n.task))
		require.LessOrEqual(t, n.store.parts, parts+4)
		lines, end := n.archived(0)
		require.Equal(t, numbered(0, 1500, 20), lines)
		kept := n.kept()
		require.Equal(t, kept[len(kept)-1].Offset, end)

		// Offsets in the log of the node are valid in the archive, too.
		for _, i := range []int{0, 1, 700, 1498, 1499} {
			lines, _ := n.archived(kept[i].Offset)
			require.Equal(t, numbered(i+1, 1500, 20), append([]string(nil), lines...), "after line %d", i)
		}
		lines, _ = n.archived(kept[500].Offset - 3)
		require.Equal(t, numbered(501, 1500, 20), lines, "inside of a record: on from its end")
		for _, tail := range []int{0, 1, 7, 1400, 1500, 9999} {
			r := tasks.NewLogReader(n.store, n.manifest())
			require.NoError(t, r.SeekTail(t.Context(), tail))
			entries, err := r.Next(t.Context(), 10_000) // all of them fit: they are short
			require.NoError(t, err)
			require.Len(t, entries, min(tail, 1500))
		}
		r := tasks.NewLogReader(n.store, n.manifest())
		r.Since(kept[1400].UnixNanos)
		entries, err := r.Next(t.Context(), 10_000)
		require.NoError(t, err)
		require.Less(t, len(entries), 501)

		// A later agent knows that the task is done, and does not ask the archive.
		n.stop()
		n.store.set(true)
		n.start()
		time.Sleep(time.Minute)
		require.True(t, n.shipper.Done(n.task))
	})
}

func TestShip_theOpenEndIsFlushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nil)
		w := tasklog.NewWriter(n.dir, tasklog.Limits{})
		n.start()
		defer func() { n.stop() }()
		var early *tasks.Manifest
		for i := range 120 {
			write(w, numbered(10*i, 10*i+10, 5000))
			time.Sleep(31 * time.Second)
			if i == 3 {
				early = n.manifest()
			}
		}
		time.Sleep(time.Minute)
		lines, _ := n.archived(0)
		require.Equal(t, numbered(0, 1200, 5000), lines)
		m := n.manifest()
		require.False(t, m.Final)
		require.LessOrEqual(t, len(m.Log), 8, "a slow log is no heap of small parts")
		require.Less(t, n.store.bytes, int64(20*m.End(tasks.Log)), "and it is not sent again and again")
		// A reader with an old manifest reads the lines in it, although the part has grown since.
		r := tasks.NewLogReader(n.store, early)
		for r.Offset() < early.End(tasks.Log) {
			entries, err := r.Next(t.Context(), 10_000)
			require.NoError(t, err)
			require.NotEmpty(t, entries)
		}
	})
}

func TestShip_triesAgainUntilTheStoreIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nil)
		w := tasklog.NewWriter(n.dir, tasklog.Limits{SegmentBytes: 10_000})
		write(w, numbered(0, 1000, 10))
		w.Close(time.Now())
		n.store.set(true)
		n.end()
		n.start()
		defer func() { n.stop() }()
		time.Sleep(time.Hour)
		require.False(t, n.shipper.Done(n.task))
		require.Nil(t, n.manifest())
		n.store.set(false)
		time.Sleep(2 * retryMax)
		require.True(t, n.shipper.Done(n.task))
		lines, _ := n.archived(0)
		require.Equal(t, numbered(0, 1000, 10), lines)
	})
}

// The store fails and agents die at random while the task writes: in the end the archive has each line once.
func TestShip_whateverHappens(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 7))
				n := newNode(t, func(c *Config) { c.Flush = []time.Duration{-1, time.Second, time.Minute}[r.IntN(3)] })
				w := tasklog.NewWriter(n.dir, tasklog.Limits{SegmentBytes: int64(2000 + r.IntN(100_000))})
				n.start()
				defer func() { n.stop() }()
				written := 0
				for range 40 {
					more := r.IntN(300)
					write(w, numbered(written, written+more, r.IntN(2)*300))
					for i := range more {
						appendTo(t, filepath.Join(n.dir, "metrics.jsonl"), fmt.Sprintf("{\"step\": %d}\n", written+i))
					}
					written += more
					n.store.set(r.IntN(3) == 0)
					if r.IntN(4) == 0 {
						n.stop()
						n.start()
					}
					if r.IntN(20) == 0 {
						_ = os.Remove(filepath.Join(n.dir, markFile))
					}
					time.Sleep(time.Duration(r.IntN(20_000)) * time.Millisecond)
				}
				w.Close(time.Now())
				n.end()
				n.store.set(false)
				time.Sleep(5 * time.Minute)
				require.True(t, n.shipper.Done(n.task))
				lines, _ := n.archived(0)
				kept := n.kept()
				require.Len(t, lines, len(kept))
				for i, e := range kept {
					require.Equal(t, e.Text, lines[i])
				}
				reader := tasks.NewMetricsReader(n.store, n.manifest(), 0)
				for i := 0; ; {
					found, err := reader.Next(t.Context(), 100)
					require.NoError(t, err)
					for _, m := range found {
						require.Equal(t, fmt.Sprintf("{\"step\": %d}", i), m.Text)
						i++
					}
					if len(found) == 0 {
						require.Equal(t, written, i)
						break
					}
				}
			})
		})
	}
}

func appendTo(t *testing.T, path, text string) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, errors.Join(err, f.Close()))
}

func TestShip_whatTheRetentionBoundTookIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nil)
		w := tasklog.NewWriter(n.dir, tasklog.Limits{SegmentBytes: 5_000, TotalBytes: 20_000})
		n.start()
		defer func() { n.stop() }()
		write(w, numbered(0, 100, 10))
		time.Sleep(time.Minute)
		n.store.set(true)
		write(w, numbered(100, 2000, 10))
		time.Sleep(time.Minute)
		n.store.set(false)
		w.Close(time.Now())
		n.end()
		time.Sleep(5 * time.Minute)
		require.True(t, n.shipper.Done(n.task))
		lines, _ := n.archived(0)
		require.Equal(t, numbered(0, 100, 10), lines[:100])
		require.Contains(t, lines[100], "bytes of log were removed by the size limit")
		require.Equal(t, numbered(2000-len(lines)+101, 2000, 10), lines[101:])
	})
}

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

// A directory that is removed during shipping must not look like a task with no more output.
func TestShip_aDirectoryThatGoesIsNotFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nil)
		w := tasklog.NewWriter(n.dir, tasklog.Limits{})
		write(w, numbered(0, 10, 10))
		n.start()
		defer func() { n.stop() }()
		time.Sleep(time.Minute)
		require.NoError(t, os.RemoveAll(n.dir))
		n.end()
		time.Sleep(time.Minute)
		require.False(t, n.manifest().Final)
		require.False(t, n.shipper.Done(n.task))
	})
}

func TestShip_rate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, func(c *Config) { c.Rate = 1 << 20 })
		w := tasklog.NewWriter(n.dir, tasklog.Limits{})
		write(w, numbered(0, 20_000, 1000))
		w.Close(time.Now())
		n.end()
		began := time.Now()
		n.start()
		defer func() { n.stop() }()
		for !n.shipper.Done(n.task) {
			time.Sleep(100 * time.Millisecond)
		}
		require.Greater(t, time.Since(began), 12*time.Second, "20 MB at 1 MiB/s, of which the last part is not waited for")
		require.Less(t, time.Since(began), 30*time.Second)
	})
}
