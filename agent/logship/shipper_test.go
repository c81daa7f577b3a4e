package logship

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/tasklog"
	"github.com/mindcoordinator/mind/archive/tasks"
)

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
