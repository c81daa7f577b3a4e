package access_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
)

func TestContext_listsAndSwitches(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	_, _, code := clitest.Run(t, "context", "a", "--set-addr", "http://a", "--set-token", "x")
	require.Zero(t, code)
	_, _, code = clitest.Run(t, "context", "b", "--set-addr", "http://b")
	require.Zero(t, code)
	_, _, code = clitest.Run(t, "context", "a")
	require.Zero(t, code)
	stdout, _, _ := clitest.Run(t, "context")
	require.Regexp(t, `(?m)^\* +a +http://a$`, stdout)
	_, stderr, code := clitest.Run(t, "context", "c")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "--set-addr")
	require.NotContains(t, stdout, "x")
}

func TestContexts_refuseABadFileAndBadValues(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	for _, v := range []string{"MIND_ADDR", "MIND_TOKEN", "MIND_CACERT", "MIND_DEV"} {
		t.Setenv(v, "")
	}
	file := filepath.Join(home, "mind", "config.yaml")
	write := func(text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	g := httptest.NewServer(clitest.Answer(200, `{"jobs":[],"total_count":0}`))
	t.Cleanup(g.Close)

	write("")
	_, stderr, code := clitest.Run(t, "jobs")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "is empty: restore a copy of it, or remove it", "it is not taken for one without contexts")

	write("current: a\ncontexts:\n  a: {adress: http://x}\n")
	_, stderr, code = clitest.Run(t, "jobs")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "field adress not found")
	require.Contains(t, stderr, "repair it")
	_, stderr, code = clitest.Run(t, "jobs", "--addr", g.URL, "--token", "t")
	require.Zero(t, code, "what is not needed keeps nobody from anything: %s", stderr)

	write("current: gone\ncontexts:\n  a: {addr: http://x}\n")
	_, stderr, code = clitest.Run(t, "jobs")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, `the current context "gone" does not exist`)

	write("current: a\ncontexts:\n  a: {addr: " + g.URL + "/, token: t}\n")
	_, stderr, code = clitest.Run(t, "jobs")
	require.Zero(t, code)
	require.Empty(t, stderr)
	require.NoError(t, os.Chmod(file, 0o644))
	_, stderr, code = clitest.Run(t, "jobs")
	require.Zero(t, code)
	require.Contains(t, stderr, "chmod 600 "+file)
	_, stderr, code = clitest.Run(t, "jobs", "--context", "a", "--addr", "http://127.0.0.1:1")
	require.Equal(t, 2, code, "the token is for another address")
	require.Contains(t, stderr, `context "a"`)

	for _, args := range [][]string{{"", "--set-addr", g.URL}, {"b", "--set-addr", "ftp://x"}, {"b", "--set-addr", "http://"}} {
		_, stderr, code = clitest.Run(t, append([]string{"context"}, args...)...)
		require.Equal(t, 2, code, stderr)
	}
	_, stderr, code = clitest.Run(t, "context", "b", "--set-token", "x")
	require.Equal(t, 1, code, "a context must have an address")
	require.Contains(t, stderr, "--set-addr")

	_, stderr, code = clitest.Run(t, "context", "a", "--set-token", "new")
	require.Zero(t, code, stderr)
	all, err := target.ReadContexts()
	require.NoError(t, err)
	require.Equal(t, target.Context{Addr: g.URL, Token: "new"}, all.Contexts["a"], "what is not set stays")
	_, _, code = clitest.Run(t, "context", "a", "--set-addr", "other:1")
	require.Zero(t, code)
	all, err = target.ReadContexts()
	require.NoError(t, err)
	require.Equal(t, target.Context{Addr: "http://other:1"}, all.Contexts["a"], "a token goes to nobody else")

	stdout, _, code := clitest.Run(t, "context", "-o", "json")
	require.Zero(t, code)
	require.JSONEq(t, `{"contexts":[{"name":"a","addr":"http://other:1","ca_cert":"","dev":"","current":true}]}`, stdout)
	require.NoError(t, os.Remove(file))
	stdout, _, code = clitest.Run(t, "context", "-o", "json")
	require.Zero(t, code)
	require.JSONEq(t, `{"contexts":[]}`, stdout)
}

// Variables of the environment take precedence over the current context: a switch of the context warns of that.
func TestContext_warnsOfVariables(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("MIND_DEV", "")
	t.Setenv("MIND_ADDR", "")
	_, stderr, code := clitest.Run(t, "context", "a", "--set-addr", "http://a", "--set-token", "x")
	require.Zero(t, code)
	require.Empty(t, stderr)
	t.Setenv("MIND_ADDR", "http://b")
	_, stderr, code = clitest.Run(t, "context", "a")
	require.Zero(t, code)
	require.Equal(t, "mind: warning: MIND_ADDR=http://b is set and comes before the current context: unset MIND_ADDR, or give --context a\n", stderr)
	t.Setenv("MIND_DEV", "/x")
	t.Setenv("MIND_ADDR", "http://a/")
	_, stderr, _ = clitest.Run(t, "context", "a", "--set-token", "y")
	require.Contains(t, stderr, "MIND_DEV=/x is set")
}

func TestTokenCreate_refusesWhatHasExpired(t *testing.T) {
	g := clitest.NewGateway(t)
	for _, d := range []string{"-1h", "0s"} {
		_, stderr, code := clitest.Run(t, "token", "create", "--permission", "view", "--expires="+d)
		require.Equal(t, 2, code)
		require.Contains(t, stderr, "it must be a duration from now, such as 24h")
	}
	require.Empty(t, g.Bodies)
}

func TestContextDelete_forgetsTheToken(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("MIND_DEV", "")
	t.Setenv("MIND_ADDR", "")
	clitest.Done(t, "context", "a", "--set-addr", "http://a", "--set-token", "mind_secret")
	clitest.Done(t, "context", "b", "--set-addr", "http://b", "--set-token", "mind_other")
	require.Equal(t, "b deleted\n", clitest.Done(t, "context", "delete", "b"))
	raw, err := os.ReadFile(filepath.Join(home, "mind", "config.yaml"))
	require.NoError(t, err)
	require.NotContains(t, string(raw), "mind_other")
	require.Contains(t, string(raw), "mind_secret")
	require.JSONEq(t, `{"contexts":[{"name":"a","addr":"http://a","ca_cert":"","dev":"","current":false}]}`, clitest.Done(t, "context", "-o", "json"))
	require.Contains(t, clitest.Fails(t, "context", "delete", "b"), "there is no context")
}
