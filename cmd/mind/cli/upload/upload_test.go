package upload

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
	"github.com/mindcoordinator/mind/gateway"
)

// cluster is two gateways of one archive, and a proxy that gives each request to the next of them.
type cluster struct {
	archive string
	client  *rest.Client

	mu sync.Mutex
	// packs counts those that were sent; before is called before each.
	packs  int
	before func(n int) (status int)
}

func newCluster(t *testing.T, maxBytes int64) *cluster {
	t.Helper()
	c := &cluster{archive: t.TempDir()}
	var gateways []*httputil.ReverseProxy
	for range 2 {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		config := gateway.Config{
			Listener: lis, Coordinators: []string{"127.0.0.1:1"}, UploadBytes: maxBytes, Logger: slog.New(slog.DiscardHandler),
			Tokens: []gateway.StaticToken{{Token: "secret", Tenant: "acme", User: "ann", Permissions: []string{"scaimind:manage"}}},
		}
		config.CheckpointArchive.URL = "file://" + c.archive
		go func() { ended <- gateway.Run(ctx, config) }()
		t.Cleanup(func() {
			stop()
			require.NoError(t, <-ended)
		})
		gateways = append(gateways, httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: lis.Addr().String()}))
	}
	turn := 0
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		turn++
		to, status := gateways[turn%2], 0
		if strings.HasSuffix(r.URL.Path, "/packs") {
			if c.packs++; c.before != nil {
				status = c.before(c.packs)
			}
		}
		c.mu.Unlock()
		if status != 0 {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(status)
			fmt.Fprint(w, `{"status":"error","error":{"code":"UNAVAILABLE","message":"try again"}}`)
			return
		}
		to.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	var err error
	c.client, err = rest.NewClient(target.Flags{Addr: front.URL, Token: "secret"})
	require.NoError(t, err)
	return c
}

// big makes content that is no piece of anything else.
func big(seed string, size int) string { return strings.Repeat(seed, size/len(seed)) }

func TestSend_sendsWhatIsMissingOnce(t *testing.T) {
	c := newCluster(t, 0)
	dir := t.TempDir()
	write(t, dir, map[string]string{"a.py": "a", "b.py": "b", "same": "a", "empty": "", "l": "-> a.py", "data": big("0123456789", 9_000_000)})
	sent, err := Send(t.Context(), c.client, dir, io.Discard)
	require.NoError(t, err)
	require.Equal(t, Sent{ID: sent.ID, Files: 6, Bytes: 9_000_003, SentFiles: 3, SentBytes: 9_000_002}, sent)
	require.Contains(t, sent.String(), "6 files, 8.6 MiB; sent 3 files, 8.6 MiB")
	again, err := Send(t.Context(), c.client, dir, io.Discard)
	require.NoError(t, err)
	require.Equal(t, Sent{ID: sent.ID, Files: 6, Bytes: 9_000_003}, again)
	require.Contains(t, again.String(), "nothing to send")
	write(t, dir, map[string]string{"b.py": "other"})
	other, err := Send(t.Context(), c.client, dir, io.Discard)
	require.NoError(t, err)
	require.NotEqual(t, sent.ID, other.ID)
	require.EqualValues(t, 5, other.SentBytes)
}

// After Ctrl-C in the middle, the next Send sends the rest only. Packs go through both gateways.
func TestSend_isResumed(t *testing.T) {
	c := newCluster(t, 0)
	dir := t.TempDir()
	const files, size = 12, 3_000_000
	for i := range files {
		write(t, dir, map[string]string{fmt.Sprintf("f%d", i): big(fmt.Sprintf("%09d,", i), size)})
	}
	ctx, interrupt := context.WithCancel(t.Context())
	c.before = func(n int) int {
		if n == 7 {
			interrupt()
		}
		return 0
	}
	_, err := Send(ctx, c.client, dir, io.Discard)
	require.ErrorContains(t, err, "sends only the rest")
	c.before = nil
	sent, err := Send(t.Context(), c.client, dir, io.Discard)
	require.NoError(t, err)
	require.Less(t, sent.SentFiles, files-3, "at least those before the seventh that were not in flight are there")
	require.Positive(t, sent.SentFiles)
}

// A gateway that has its hands full, or goes away, delays an upload and does not end it.
func TestSend_isPatient(t *testing.T) {
	c := newCluster(t, 0)
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "a"})
	c.before = func(n int) int {
		if n < 3 {
			return http.StatusServiceUnavailable
		}
		return 0
	}
	sent, err := Send(t.Context(), c.client, dir, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 1, sent.SentFiles)
}

func TestSend_refuses(t *testing.T) {
	c := newCluster(t, 100)
	for says, files := range map[string]map[string]string{
		`"p/l" leads to "../../x", out of the directory`: {"p/l": "-> ../../x"},
		`"l" leads to "/etc/passwd": absolute links`:     {"l": "-> /etc/passwd"},
		"this cluster takes 100 B":                       {"a": big("x", 101)},
		"no file to send":                                {".mindignore": "*\n"},
	} {
		dir := t.TempDir()
		write(t, dir, files)
		_, err := Send(t.Context(), c.client, dir, io.Discard)
		require.ErrorContains(t, err, says)
	}
	pipe := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(pipe, "fifo"), 0o600))
	_, err := Send(t.Context(), c.client, pipe, io.Discard)
	require.ErrorContains(t, err, `"fifo" is neither a file nor a link`)
	_, err = Send(t.Context(), c.client, filepath.Join(pipe, "none"), io.Discard)
	require.ErrorContains(t, err, "--upload")
	left, err := os.ReadDir(c.archive)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A file that changes after it was read is not sent as what it was.
func TestSend_refusesAFileThatChanges(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"log": "first"})
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	tree, err := scan(t.Context(), root, dir, 0, &bar{})
	require.NoError(t, err)
	s := sender{root: root, tree: tree, bar: &bar{}}
	f := &tree.Files[0]
	for _, now := range []string{"other", "longer", "x"} {
		write(t, dir, map[string]string{"log": now})
		require.ErrorContains(t, s.read(part{f, f.Pieces[0], 0, f.Size}, make([]byte, f.Size)), `"log" changed while it was read`)
	}
	f.Pieces = nil
	require.ErrorContains(t, digest(root, f), `"log" changed while it was read`)
	require.NoError(t, os.Remove(filepath.Join(dir, "log")))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "log")))
	require.Error(t, digest(root, f))
}

func TestSend_tenThousandFiles(t *testing.T) {
	c := newCluster(t, 0)
	dir := t.TempDir()
	for i := range 10_000 {
		at := filepath.Join(dir, fmt.Sprintf("p%d/m%d.py", i%100, i))
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		require.NoError(t, os.WriteFile(at, fmt.Appendf(nil, "VALUE = %d\n%s", i, strings.Repeat("#", 300)), 0o600))
	}
	began := time.Now()
	sent, err := Send(t.Context(), c.client, dir, io.Discard)
	require.NoError(t, err)
	t.Log("sent after", time.Since(began))
	require.Equal(t, 10_000, sent.SentFiles)
	require.Equal(t, 1, c.packs)
	began = time.Now()
	_, err = Send(t.Context(), c.client, dir, io.Discard)
	require.NoError(t, err)
	t.Log("and again after", time.Since(began))
}
