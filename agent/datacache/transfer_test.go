package datacache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/datacache/sources"
)

func TestABrokenTransferGoesOn(t *testing.T) {
	body := noise(300_000)
	for name, test := range map[string]struct {
		change func(*site)
		ranges []string
	}{
		"where it stopped":              {func(s *site) { s.cut = []int{100_000, 50_000} }, []string{"", "bytes=100000-", "bytes=150000-"}},
		"from the start without ranges": {func(s *site) { s.cut = []int{100_000}; s.noRange = true }, []string{"", "bytes=100000-"}},
		"from the start with a weak tag": {
			func(s *site) { s.cut = []int{100_000}; s.etag = `W/"1"` }, []string{"", ""},
		},
		"from the start without a tag": {func(s *site) { s.cut = []int{100_000}; s.etag = "none" }, []string{"", ""}},
		"without HEAD":                 {func(s *site) { s.noHead = true; s.cut = []int{1, 100_000} }, []string{"bytes=0-0", "", "bytes=100000-"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, map[string][]byte{"/d": body})
			test.change(s)
			if s.noHead {
				s.cut = s.cut[1:] // the request for the size is answered completely
				s.cut = append([]int{300_000}, s.cut...)
			}
			c := open(t, config(t))
			data := c.get(t, "t1", s.URL+"/d", "a")
			require.Equal(t, string(body), contents(t, data, "d"))
			require.Equal(t, test.ranges, s.asked())
		})
	}
	t.Run("and gives up where nothing comes", func(t *testing.T) {
		s := serve(t, map[string][]byte{"/d": body})
		s.cut = make([]int, 100)
		cfg := config(t)
		cfg.Tries = 3
		open(t, cfg).refuse(t, s.URL+"/d", "after 3 tries")
		require.Len(t, s.asked(), 3)
	})
	t.Run("as what it has become", func(t *testing.T) {
		s := serve(t, map[string][]byte{"/d": body})
		s.held = make(chan struct{})
		c := open(t, config(t))
		go func() {
			<-s.began
			s.change(func() { s.files["/d"] = []byte("new"); s.held = nil })
			s.CloseClientConnections()
		}()
		require.Equal(t, "new", contents(t, c.get(t, "t1", s.URL+"/d", "a"), "d"))
	})
	t.Run("in the next process", func(t *testing.T) {
		s := serve(t, map[string][]byte{"/d": body})
		s.cut = []int{200_000}
		cfg := config(t)
		cfg.Tries, cfg.Pause = 2, time.Hour
		c := open(t, cfg)
		ctx, cancel := context.WithCancel(deadline(t))
		ended := make(chan error)
		go func() {
			_, err := c.Fetch(ctx, Request{Tenant: "t1", Path: s.URL + "/d", Owner: "a"})
			ended <- err
		}()
		require.Eventually(t, func() bool { got, _ := c.Progress("a"); return got.Done == 200_000 }, longstop, time.Millisecond)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.EqualValues(t, 200_000, c.Stats().UsedBytes)
		c = open(t, cfg)
		require.EqualValues(t, 200_000, c.Stats().UsedBytes)
		require.Equal(t, string(body), contents(t, c.get(t, "t1", s.URL+"/d", "a"), "d"))
		require.Equal(t, []string{"", "bytes=200000-"}, s.asked())
		require.EqualValues(t, 300_000, c.Stats().UsedBytes)
	})
}

func TestAServiceThatIsBusyForAMoment(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("x"))
	}))
	defer server.Close()
	require.Equal(t, "x", contents(t, open(t, config(t)).get(t, "t1", server.URL+"/d", "a"), "d"))
	asked.Store(-100)
	open(t, config(t)).refuse(t, server.URL+"/d", "answers 503 Service Unavailable; see why the service fails, then retry the job")
}

func TestATransferThatStandsStillIsBegunAgain(t *testing.T) {
	body := noise(1000)
	s := serve(t, map[string][]byte{"/d": body})
	s.held = make(chan struct{})
	cfg := config(t)
	cfg.Stall = 500 * time.Millisecond
	c := open(t, cfg)
	go func() {
		<-s.began
		s.change(func() { s.held = nil })
	}()
	require.Equal(t, string(body), contents(t, c.get(t, "t1", s.URL+"/d", "a"), "d"))
	require.GreaterOrEqual(t, len(s.asked()), 2)
}

func TestATransferEndsWhenNobodyWaits(t *testing.T) {
	s := serve(t, map[string][]byte{"/d": noise(1000)})
	s.held = make(chan struct{})
	c := open(t, config(t))
	ctx, cancel := context.WithCancel(deadline(t))
	stay, leave := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := c.Fetch(ctx, Request{Tenant: "t1", Path: s.URL + "/d", Owner: "leaves"})
		leave <- err
	}()
	<-s.began
	go func() {
		_, err := c.Fetch(deadline(t), Request{Tenant: "t1", Path: s.URL + "/d", Owner: "stays"})
		stay <- err
	}()
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, f := range c.flights {
			return len(f.waiting) == 2
		}
		return false
	}, longstop, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-leave, context.Canceled)
	close(s.held)
	require.NoError(t, <-stay, "the one who began it left, and took it along")
	require.Len(t, s.asked(), 1)
}

// A disk may be full long before the cache is. Another try at once does not help.
func TestADiskThatIsFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full, on which nothing can be written")
	}
	defer full.Close()
	c := open(t, config(t))
	f := &flight{cache: c, source: &sources.Source{Files: []sources.File{{Name: "d", Size: 4}}}}
	p := partial{flight: f, remote: &f.source.Files[0], sum: sha256.New()}
	ctx, cancel := context.WithCancelCause(deadline(t))
	defer cancel(nil)
	err = p.copy(ctx, cancel, full, strings.NewReader("rows"))
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.False(t, sources.Broken(err))
	err = c.onDisk(err)
	require.ErrorContains(t, err, "the disk of node n1 is full")
	require.ErrorContains(t, err, "data_cache_bytes")
	require.NotContains(t, err.Error(), "/dev/full")
	require.False(t, sources.Missing(err))
}

// Each request that waits for a transfer sees its progress.
func TestProgress(t *testing.T) {
	body := noise(300_000)
	s := serve(t, map[string][]byte{"/d": body})
	s.held = make(chan struct{})
	c := open(t, config(t))
	_, ok := c.Progress("a")
	require.False(t, ok)
	var all sync.WaitGroup
	for _, owner := range []string{"a", "b"} {
		all.Go(func() { c.get(t, "t1", s.URL+"/d?sig=hunter2", owner) })
	}
	want := Progress{Path: s.URL + "/d?...", Done: 1, Total: 300_000}
	for _, owner := range []string{"a", "b"} {
		require.Eventually(t, func() bool { got, ok := c.Progress(owner); return ok && got == want }, longstop, time.Millisecond)
	}
	close(s.held)
	all.Wait()
	_, ok = c.Progress("a")
	require.False(t, ok)

	t.Run("of what an earlier one began", func(t *testing.T) {
		s := serve(t, map[string][]byte{"/d": body})
		s.cut = []int{200_000}
		cfg := config(t)
		cfg.Pause = time.Hour
		ctx, cancel := context.WithCancel(deadline(t))
		c := open(t, cfg)
		var fetching sync.WaitGroup
		defer fetching.Wait()
		defer cancel()
		fetching.Go(func() { _, _ = c.Fetch(ctx, Request{Tenant: "t1", Path: s.URL + "/d", Owner: "a"}) })
		require.Eventually(t, func() bool { got, _ := c.Progress("a"); return got.Done == 200_000 }, longstop, time.Millisecond)
	})
	t.Run("while others have the turn", func(t *testing.T) {
		s := serve(t, map[string][]byte{"/d": body})
		c := open(t, config(t))
		for range maxTransfers {
			c.slots <- struct{}{}
		}
		done := make(chan struct{})
		go func() { defer close(done); c.get(t, "t1", s.URL+"/d", "a") }()
		require.Eventually(t, func() bool { got, ok := c.Progress("a"); return ok && got.Waiting && got.Total == 300_000 }, longstop, time.Millisecond)
		<-c.slots
		<-done
	})
}

// A source that changes repeatedly is given up in the end. Its versions are never mixed.
func TestASourceThatNeverStandsStill(t *testing.T) {
	var n atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, n.Add(1)))
		_, _ = w.Write([]byte("x"))
	}))
	defer server.Close()
	c := open(t, config(t))
	c.refuse(t, server.URL+"/d", "it changed while it was fetched")
	require.EqualValues(t, 8, n.Load(), "looked at and begun four times")
}

// A service without a connection is given up sooner than a busy one: the job waits meanwhile.
func TestFetch_aServiceOutOfReachIsGivenUpSoon(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	away := "http://" + closed.Addr().String()
	require.NoError(t, closed.Close())
	busy := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		busy++
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	for name, tt := range map[string]struct {
		url, says string
		tries     int
	}{
		"out of reach": {away, "node n1 cannot fetch from the Hugging Face hub: dial tcp", 3},
		"busy":         {server.URL, "answers 503", 5},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			cfg := config(t)
			cfg.Sources.Hub.URL, cfg.Logger = tt.url, slog.New(slog.NewTextHandler(&log, nil))
			_, err := open(t, cfg).Fetch(deadline(t), Request{Tenant: "t1", Path: "hf://datasets/acme/set"})
			require.ErrorContains(t, err, tt.says)
			require.False(t, sources.Missing(err))
			require.Equal(t, tt.tries-1, strings.Count(log.String(), "retrying a source"))
		})
	}
	require.Equal(t, 5, busy)
}
