package clitest

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli"
	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
)

// Gateway is a fake gateway: it gives the answers that a test sets for "METHOD /path", and records the requests.
type Gateway struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string]http.HandlerFunc
	Asked   []string
	Bodies  []string
	Keys    []string
}

// NewGateway starts a gateway and sets the test's environment to use it.
func NewGateway(t *testing.T) *Gateway {
	t.Helper()
	g := &Gateway{answers: map[string]http.HandlerFunc{}}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		g.mu.Lock()
		name := r.Method + " " + strings.TrimPrefix(r.URL.Path, target.APIPath)
		g.Asked = append(g.Asked, name)
		g.Bodies = append(g.Bodies, string(body))
		g.Keys = append(g.Keys, r.Header.Get("Idempotency-Key"))
		answer := g.answers[name]
		g.mu.Unlock()
		switch {
		case r.Header.Get("Authorization") != "Bearer secret":
			Refuse(401, "AUTH_TOKEN_INVALID", "Invalid or expired authentication token")(w, r)
		case answer == nil:
			Refuse(404, "NOT_FOUND", "there is no such thing")(w, r)
		default:
			answer(w, r)
		}
	}))
	t.Cleanup(g.Close)
	t.Setenv("MIND_ADDR", g.URL)
	t.Setenv("MIND_TOKEN", "secret")
	t.Setenv("MIND_DEV", "")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	return g
}

// On sets the handler of a call, such as "GET /jobs".
func (g *Gateway) On(name string, answer http.HandlerFunc) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answers[name] = answer
}

// Answer answers with data, in the envelope of all answers.
func Answer(code int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"status":"ok","data":%s,"meta":{"request_id":"req_1"}}`, text)
	}
}

// Refuse answers with an error.
func Refuse(code int, name, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"status":"error","error":{"code":%q,"message":%q},"meta":{"request_id":"req_1"}}`, name, message)
	}
}

// Run runs the command line and returns what it printed and its exit code.
func Run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	root := &cobra.Command{Use: "mind", SilenceErrors: true, SilenceUsage: true}
	cli.AddTo(root, "v1.2.3")
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(args)
	code = exit.Report(&errs, root.ExecuteContext(t.Context()))
	return out.String(), errs.String(), code
}

// Fails runs a command that must fail with one line on stderr, which it returns.
func Fails(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, code := Run(t, args...)
	require.NotZero(t, code)
	require.Empty(t, stdout)
	require.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %q", stderr)
	return stderr
}

// HangingUp starts a server that closes each connection without an answer, like a server of another protocol.
func HangingUp(t *testing.T) (addr string) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = lis.Close() })
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 4096)
			_, _ = conn.Read(buf)
			_ = conn.Close()
		}
	}()
	return lis.Addr().String()
}

// Squeeze makes tables comparable: one space between columns.
func Squeeze(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

// RunAsked runs mind with the input of a user at a terminal.
func RunAsked(t *testing.T, in string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	root := &cobra.Command{Use: "mind", SilenceErrors: true, SilenceUsage: true}
	cli.AddTo(root, "v1.2.3")
	var out, errs bytes.Buffer
	root.SetIn(strings.NewReader(in))
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(args)
	code = exit.Report(&errs, root.ExecuteContext(t.Context()))
	return out.String(), errs.String(), code
}

// Done runs a command that must succeed, and returns its output.
func Done(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, code := Run(t, args...)
	require.Equal(t, 0, code, stderr)
	return stdout
}
