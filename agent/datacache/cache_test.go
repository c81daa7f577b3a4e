package datacache

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/datacache/sources"
)

// longstop limits every wait. It is far longer than any of them takes.
const longstop = 60 * time.Second

func config(t *testing.T) Config {
	return Config{
		Node: "n1", Dir: filepath.Join(t.TempDir(), "cache"), Sources: sources.Config{Hosts: []string{"127.0.0.1"}}, Pause: time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	}
}

func open(t *testing.T, cfg Config) *Cache {
	t.Helper()
	c, err := Open(cfg)
	require.NoError(t, err)
	return c
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), longstop)
	t.Cleanup(cancel)
	return ctx
}

func (c *Cache) get(t *testing.T, tenant, path, owner string) *Data {
	t.Helper()
	data, err := c.Fetch(deadline(t), Request{Tenant: tenant, Path: path, Owner: owner})
	require.NoError(t, err)
	return data
}

func (c *Cache) refuse(t *testing.T, path string, want ...string) {
	t.Helper()
	_, err := c.Fetch(deadline(t), Request{Tenant: "t1", Path: path, Owner: "x"})
	c.Release("x")
	require.Error(t, err)
	for _, w := range append(want, "data source ") {
		require.Contains(t, err.Error(), w)
	}
}

func contents(t *testing.T, data *Data, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(data.Dir, name))
	require.NoError(t, err)
	return string(text)
}

// site serves files with entity tags, and records the requests.
type site struct {
	*httptest.Server
	mu    sync.Mutex
	files map[string][]byte
	etag  string // empty: derived from the contents; "none": no tag
	// gets are the ranges of the GET requests.
	gets []string
	// cut has, for the next responses, the number of bytes after which the body breaks off.
	cut []int
	// held, if not nil, blocks bodies after their first byte until it is closed.
	held    chan struct{}
	noHead  bool
	noRange bool
	began   chan struct{}
}

func serve(t *testing.T, files map[string][]byte) *site {
	s := &site{files: files, began: make(chan struct{}, 100)}
	s.Server = httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(s.Close)
	return s
}

func (s *site) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *site) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.gets...)
}

func (s *site) answer(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	body, ok := s.files[r.URL.Path]
	etag, held, cut := s.etag, s.held, -1
	noHead, noRange := s.noHead, s.noRange
	if r.Method == http.MethodGet {
		s.gets = append(s.gets, r.Header.Get("Range"))
		if len(s.cut) > 0 {
			cut, s.cut = s.cut[0], s.cut[1:]
		}
	}
	s.mu.Unlock()
	switch {
	case !ok:
		http.NotFound(w, r)
		return
	case noHead && r.Method == http.MethodHead:
		http.Error(w, "no", http.StatusMethodNotAllowed)
		return
	}
	if noRange {
		r.Header.Del("Range")
	}
	if etag == "" {
		etag = `"` + digestOf(string(body))[:8] + `"`
	}
	if etag != "none" {
		w.Header().Set("ETag", etag)
	}
	if r.Method == http.MethodGet && (cut >= 0 || held != nil) {
		if held != nil {
			cut = 1
		}
		var from int
		_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
		if from > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(body)-1, len(body)))
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(body)-from))
		if from > 0 {
			w.WriteHeader(http.StatusPartialContent)
		}
		_, _ = w.Write(body[from:min(len(body), from+cut)])
		w.(http.Flusher).Flush()
		if held == nil {
			panic(http.ErrAbortHandler)
		}
		s.began <- struct{}{}
		select {
		case <-held:
			_, _ = w.Write(body[min(len(body), from+cut):])
		case <-r.Context().Done():
		}
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

func noise(n int) []byte {
	out := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)})
	_, _ = r.Read(out)
	return out
}

func TestASourceIsFetchedOnce(t *testing.T) {
	s := serve(t, map[string][]byte{"/d/train.jsonl": []byte("one\ntwo\n")})
	cfg := config(t)
	c := open(t, cfg)
	data := c.get(t, "t1", s.URL+"/d/train.jsonl", "a")
	require.Equal(t, []string{"train.jsonl"}, data.Files)
	require.EqualValues(t, 8, data.Size)
	require.Equal(t, "one\ntwo\n", contents(t, data, "train.jsonl"))
	require.NotEmpty(t, data.Digest)
	again := c.get(t, "t1", s.URL+"/d/train.jsonl", "b")
	require.Equal(t, data, again)
	require.Len(t, s.asked(), 1)

	t.Run("also when the agent was started again", func(t *testing.T) {
		c := open(t, cfg)
		require.Equal(t, data, c.get(t, "t1", s.URL+"/d/train.jsonl", "a"))
		require.Len(t, s.asked(), 1)
		require.EqualValues(t, 8, c.Stats().UsedBytes)
	})
	t.Run("but again when it has changed", func(t *testing.T) {
		s.change(func() { s.files["/d/train.jsonl"] = []byte("three\n") })
		now := c.get(t, "t1", s.URL+"/d/train.jsonl", "c")
		require.Equal(t, "three\n", contents(t, now, "train.jsonl"))
		require.Equal(t, "one\ntwo\n", contents(t, data, "train.jsonl"), "somebody uses what it was")
		require.Len(t, s.asked(), 2)
	})
	t.Run("and each time when it cannot tell", func(t *testing.T) {
		s.change(func() { s.etag = "none" })
		c.get(t, "t1", s.URL+"/d/train.jsonl", "d")
		c.get(t, "t1", s.URL+"/d/train.jsonl", "d")
		require.Len(t, s.asked(), 4)
	})
}

func TestTenTasksAskAndOneTransferIsMade(t *testing.T) {
	s := serve(t, map[string][]byte{"/big": noise(1 << 20)})
	s.held = make(chan struct{})
	c := open(t, config(t))
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			data, err := c.Fetch(deadline(t), Request{Tenant: "t1", Path: s.URL + "/big", Owner: fmt.Sprint(i)})
			if err != nil || data.Size != 1<<20 {
				t.Errorf("%v %v", data, err)
			}
		})
	}
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, f := range c.flights {
			return len(f.waiting) == 10
		}
		return false
	}, longstop, time.Millisecond)
	close(s.held)
	all.Wait()
	require.Len(t, s.asked(), 1)
	entries, used := c.Entries("t1")
	require.Len(t, entries, 1)
	require.EqualValues(t, 1<<20, used)
	require.True(t, entries[0].InUse)
	for i := range 10 {
		c.Release(fmt.Sprint(i))
	}
	entries, _ = c.Entries("t1")
	require.False(t, entries[0].InUse)
}

func TestDamagedDataIsFetchedAgain(t *testing.T) {
	body := noise(1000)
	s := serve(t, map[string][]byte{"/d": body})
	cfg := config(t)
	c := open(t, cfg)
	spoil := func(dir string) {
		path := filepath.Join(dir, "d")
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.NoError(t, os.Chmod(path, 0o600))
		require.NoError(t, os.WriteFile(path, noise(1001)[:1000], 0o600))
		require.NoError(t, os.Chtimes(path, info.ModTime(), info.ModTime().Add(time.Hour)))
	}
	used := c.get(t, "t1", s.URL+"/d", "running")
	spoil(used.Dir)
	c.get(t, "t1", s.URL+"/d", "next")
	require.Equal(t, string(body), contents(t, used, "d"), "the task that runs sees what is good again")
	require.EqualValues(t, 1, c.Stats().Damaged)
	require.Len(t, s.asked(), 2)

	// Even with the same size and time, the next process finds the damage.
	c.Release("running")
	c.Release("next")
	info, err := os.Stat(filepath.Join(used.Dir, "d"))
	require.NoError(t, err)
	spoil(used.Dir)
	require.NoError(t, os.Chtimes(filepath.Join(used.Dir, "d"), info.ModTime(), info.ModTime()))
	c = open(t, cfg)
	require.Equal(t, string(body), contents(t, c.get(t, "t1", s.URL+"/d", "a"), "d"))
	require.EqualValues(t, 1, c.Stats().Damaged)
	require.EqualValues(t, 1000, c.Stats().UsedBytes)

	require.NoError(t, os.RemoveAll(used.Dir))
	c = open(t, cfg)
	require.Equal(t, string(body), contents(t, c.get(t, "t1", s.URL+"/d", "a"), "d"))
}

func TestTheLeastRecentlyUsedGoesFirst(t *testing.T) {
	s := serve(t, map[string][]byte{"/a": noise(400), "/b": noise(401), "/c": noise(402), "/huge": noise(2000)})
	cfg := config(t)
	cfg.Capacity = 1000
	c := open(t, cfg)
	kept := func() (names string) {
		entries, _ := c.Entries("t1")
		for _, e := range entries {
			names += e.Path[len(e.Path)-1:]
		}
		return names
	}
	c.get(t, "t1", s.URL+"/a", "1")
	c.get(t, "t1", s.URL+"/b", "2")
	c.Release("1")
	c.Release("2")
	c.get(t, "t1", s.URL+"/a", "1")
	require.Equal(t, "ab", kept())
	c.get(t, "t1", s.URL+"/c", "3")
	require.Equal(t, "ca", kept(), "b was not used for longest")
	c.Release("3")
	b := c.get(t, "t1", s.URL+"/b", "2")
	require.Equal(t, "ba", kept(), "a is older, and in use")
	c.refuse(t, s.URL+"/c", "does not fit into the data cache of node n1 (1000 bytes", "data_cache_bytes")
	c.refuse(t, s.URL+"/huge", "does not fit")
	require.Equal(t, "ba", kept())
	require.LessOrEqual(t, c.Stats().UsedBytes, int64(1000))
	require.EqualValues(t, 2, c.Stats().Evictions)

	t.Run("a task that runs holds it across a restart", func(t *testing.T) {
		c := open(t, cfg)
		c.Hold("2", b.Dir)
		c.Hold("2", "/etc")
		c.get(t, "t1", s.URL+"/c", "3")
		require.FileExists(t, filepath.Join(b.Dir, "b"))
		entries, _ := c.Entries("t1")
		require.Len(t, entries, 2)
	})
}

// Data that does not fit evicts no other data: otherwise any user who may submit jobs could empty the cache of all
// tenants.
func TestNothingMakesWayForWhatDoesNotFit(t *testing.T) {
	s := serve(t, map[string][]byte{"/a": noise(400), "/b": noise(401), "/large": noise(700)})
	cfg := config(t)
	cfg.Capacity = 1000
	c := open(t, cfg)
	c.get(t, "t1", s.URL+"/a", "1")
	c.get(t, "t2", s.URL+"/b", "2")
	c.Release("2")
	c.refuse(t, s.URL+"/large", "does not fit")
	theirs, _ := c.Entries("t2")
	require.Len(t, theirs, 1)
	require.Zero(t, c.Stats().Evictions)
	c.Release("1")
	c.get(t, "t1", s.URL+"/large", "3")
}

func TestRoomIsMadeWhereTheSizeIsNotKnown(t *testing.T) {
	flood := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		for n := 0; r.Method == http.MethodGet && n < 100; n++ {
			if _, err := w.Write(noise(1 << 20)); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	}))
	defer flood.Close()
	cfg := config(t)
	cfg.Capacity = 20 << 20
	c := open(t, cfg)
	c.refuse(t, flood.URL+"/x", "does not fit")
	require.LessOrEqual(t, c.Stats().UsedBytes, int64(21<<20))
	require.LessOrEqual(t, sizeOf(cfg.Dir), int64(21<<20))
}

func TestTenantsDoNotMeet(t *testing.T) {
	s := serve(t, map[string][]byte{"/d": []byte("secret")})
	c := open(t, config(t))
	one := c.get(t, "t1", s.URL+"/d", "a")
	check, err := c.Probe(deadline(t), "t2", s.URL+"/d", sources.Credentials{})
	require.NoError(t, err)
	require.Equal(t, Check{Files: 1, Size: 6}, check, "it is not told that another tenant has it")
	check, err = c.Probe(deadline(t), "t1", s.URL+"/d", sources.Credentials{})
	require.NoError(t, err)
	require.True(t, check.Cached)
	entries, used := c.Entries("t2")
	require.Empty(t, entries)
	require.Zero(t, used)
	two := c.get(t, "t2", s.URL+"/d", "b")
	require.NotEqual(t, one.Dir, two.Dir)
	require.Equal(t, one.Digest, two.Digest)
	require.Len(t, s.asked(), 2)
	// A tenant that may not read the source does not get the cached data either.
	s.change(func() { delete(s.files, "/d") })
	c.refuse(t, s.URL+"/d", "has no such file (404)")
}

func TestSecretsOfPathsAreNotRepeated(t *testing.T) {
	s := serve(t, map[string][]byte{"/d": []byte("x")})
	c := open(t, config(t))
	c.get(t, "t1", s.URL+"/d?X-Signature=hunter2", "a")
	entries, _ := c.Entries("t1")
	require.Equal(t, s.URL+"/d?...", entries[0].Path)
	found := ""
	require.NoError(t, filepath.WalkDir(c.cfg.Dir, func(path string, e os.DirEntry, err error) error {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text)+path, "hunter2") {
			found = path
		}
		return err
	}))
	require.Empty(t, found)
	for _, path := range []string{s.URL + "/none?sig=hunter2", "http://127.0.0.1:1/?sig=hunter2"} {
		cfg := config(t)
		cfg.Tries = 1
		_, err := open(t, cfg).Fetch(deadline(t), Request{Tenant: "t1", Path: path})
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hunter2")
	}
}
