package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// call sends a request to an agent in this process, and decodes its answer.
func call(t *testing.T, ctx context.Context, url, method string, in, out any) int {
	t.Helper()
	text, err := json.Marshal(in)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(text))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	require.NoError(t, json.NewDecoder(resp.Body).Decode(out))
	return resp.StatusCode
}

func start(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer((&agent{started: map[int]*process{}}).handler())
	t.Cleanup(s.Close)
	return s.URL
}

func TestRun_tellsHowACommandEnded(t *testing.T) {
	url := start(t)
	for name, tc := range map[string]struct {
		command Command
		want    Result
	}{
		"it ended well":     {Command{Argv: []string{"true"}}, Result{}},
		"with a code":       {Command{Argv: []string{"sh", "-c", "echo out; echo err >&2; exit 7"}}, Result{7, []byte("out\n"), []byte("err\n")}},
		"by a signal":       {Command{Argv: []string{"sh", "-c", "kill -9 $$"}}, Result{Code: 137}},
		"with its input":    {Command{Argv: []string{"cat"}, Stdin: []byte("in")}, Result{Stdout: []byte("in")}},
		"with its folder":   {Command{Argv: []string{"pwd"}, Dir: "/usr"}, Result{Stdout: []byte("/usr\n")}},
		"with its variable": {Command{Argv: []string{"sh", "-c", "echo $X"}, Env: []string{"X=x"}}, Result{Stdout: []byte("x\n")}},
	} {
		var got Result
		require.Equal(t, http.StatusOK, call(t, t.Context(), url+"/run", http.MethodPost, tc.command, &got), name)
		require.Equal(t, tc.want, got, name)
	}
	var fault Fault
	require.Equal(t, http.StatusBadRequest, call(t, t.Context(), url+"/run", http.MethodPost, Command{Argv: []string{"no-such-program"}}, &fault))
	require.Contains(t, fault.Error, "no-such-program")
	require.Equal(t, http.StatusBadRequest, call(t, t.Context(), url+"/run", http.MethodPost, Command{}, &fault))
	require.Equal(t, "argv is empty", fault.Error)
}

func TestRun_endsWithItsCaller(t *testing.T) {
	url := start(t)
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		ended <- call(t, ctx, url+"/run", http.MethodPost, Command{Argv: []string{"sh", "-c", "sleep 1000 & echo $! >" + file + ".new; mv " + file + ".new " + file + "; wait"}}, &Result{})
	}()
	require.Equal(t, http.StatusOK, call(t, t.Context(), url+"/await", http.MethodPost, Await{Pattern: file}, &struct{}{}))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var pid int
	_, err = fmt.Sscan(string(text), &pid)
	require.NoError(t, err)
	cancel()
	require.Zero(t, <-ended)
	require.Eventually(t, func() bool { return syscall.Kill(pid, 0) != nil || zombie(pid) }, time.Minute, time.Millisecond, "its children, too")
}

// zombie reports whether a process has ended but was not reaped: its parent was killed with it, and process 1 may be
// slow.
func zombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || bytes.Contains(text, []byte(") Z "))
}

func TestStart_goesOnAndIsWaitedFor(t *testing.T) {
	url := start(t)
	log := filepath.Join(t.TempDir(), "log")
	var s Started
	require.Equal(t, http.StatusOK, call(t, t.Context(), url+"/start", http.MethodPost, Command{Argv: []string{"sh", "-c", "echo said; exit 3"}, Log: log}, &s))
	var r Result
	require.Equal(t, http.StatusOK, call(t, t.Context(), fmt.Sprintf("%s/wait/%d", url, s.PID), http.MethodGet, nil, &r))
	require.Equal(t, 3, r.Code)
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, "said\n", string(text))
	require.Equal(t, http.StatusNotFound, call(t, t.Context(), url+"/wait/1", http.MethodGet, nil, &Fault{}))
}

func TestFile_isReplacedInOneStep(t *testing.T) {
	url := start(t) + "/file?path=" + filepath.Join(t.TempDir(), "new", "file")
	put := func(text string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url+"&mode=640", bytes.NewReader([]byte(text)))
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
	}
	require.Equal(t, http.StatusNotFound, call(t, t.Context(), url, http.MethodGet, nil, &Fault{}))
	for _, text := range []string{"one", "another"} {
		put(text)
		resp, err := http.Get(url)
		require.NoError(t, err)
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, text, string(got))
	}
}
