package access_test

import (
	"crypto/tls"
	"encoding/json"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
	"github.com/mindcoordinator/mind/pki"
)

func TestTLS_componentsAcceptTheCertificates(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	out := clitest.Done(t, "tls", "init", "--dir", dir)
	require.Contains(t, out, filepath.Join(dir, "ca.pem"))
	require.Contains(t, out, filepath.Join(dir, "ca-key.pem"))
	out = clitest.Done(t, "tls", "issue", "--dir", dir, "--role", "coordinator", "--id", "c1", "--host", "c1.example,10.0.0.1")
	require.Contains(t, out, filepath.Join(dir, "c1.pem"))
	require.Contains(t, out, "c1.example, ")
	clitest.Done(t, "tls", "issue", "--dir", dir, "--role", "operator")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 6)
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), e.Name())
	}

	server, err := pki.FilesOf(dir, "c1").ServerTLS()
	require.NoError(t, err)
	client, err := pki.FilesOf(dir, "operator").ClientTLS()
	require.NoError(t, err)
	client = pki.RequireRole(client, pki.RoleCoordinator)
	for _, host := range []string{"c1.example", "10.0.0.1", "localhost"} {
		client.ServerName = host
		near, far := net.Pipe()
		require.NoError(t, near.SetDeadline(time.Now().Add(time.Minute)))
		shaken := make(chan tls.ConnectionState, 1)
		go func() {
			c := tls.Server(far, pki.RequireRole(server, pki.RoleOperator))
			_ = c.Handshake()
			shaken <- c.ConnectionState()
			_ = c.Close()
		}()
		require.NoError(t, tls.Client(near, client).Handshake())
		who, ok := pki.StateIdentity(<-shaken)
		require.True(t, ok)
		require.Equal(t, pki.Identity{ID: "operator", Role: pki.RoleOperator}, who)
		_ = near.Close()
	}

	var shown []struct {
		Identity, Role string
		Hosts          []string
		Expired        bool
	}
	require.NoError(t, json.Unmarshal([]byte(clitest.Done(t, "tls", "show", "-o", "json", "--ca", filepath.Join(dir, "ca.pem"), filepath.Join(dir, "c1.pem"), filepath.Join(dir, "ca.pem"))), &shown))
	require.Len(t, shown, 2)
	require.Equal(t, "c1", shown[0].Identity)
	require.Equal(t, "coordinator", shown[0].Role)
	require.ElementsMatch(t, []string{"localhost", "127.0.0.1", "::1", "c1.example", "10.0.0.1"}, shown[0].Hosts)
	require.False(t, shown[0].Expired)
	require.Equal(t, "authority", shown[1].Role)
	table := clitest.Done(t, "tls", "show", filepath.Join(dir, "c1.pem"))
	require.Contains(t, table, "coordinator")
	require.Contains(t, table, "364 days")
}

func TestTLS_overwritesOnlyWhenForced(t *testing.T) {
	dir := t.TempDir()
	clitest.Done(t, "tls", "init", "--dir", dir)
	clitest.Done(t, "tls", "issue", "--dir", dir, "--role", "agent", "--id", "n1", "--host", "10.0.0.1")
	content := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(text)
	}
	ca, n1 := content("ca.pem"), content("n1.pem")
	for _, args := range [][]string{{"init"}, {"issue", "--role", "agent", "--id", "n1"}} {
		_, stderr, code := clitest.Run(t, append(append([]string{"tls"}, args...), "--dir", dir)...)
		require.Equal(t, 1, code)
		require.Contains(t, stderr, "--force")
	}
	// One existing file is enough for a refusal.
	require.NoError(t, os.Remove(filepath.Join(dir, "n1.pem")))
	_, _, code := clitest.Run(t, "tls", "issue", "--dir", dir, "--role", "agent", "--id", "n1")
	require.Equal(t, 1, code)
	clitest.Done(t, "tls", "issue", "--dir", dir, "--role", "agent", "--id", "n1", "--force")
	require.NotEqual(t, n1, content("n1.pem"))
	require.Equal(t, ca, content("ca.pem"))

	clitest.Done(t, "tls", "init", "--dir", dir, "--force")
	require.NotEqual(t, ca, content("ca.pem"))
	require.Equal(t, ca, content("ca.pem.old"))
	_, stderr, code := clitest.Run(t, "tls", "show", "--ca", filepath.Join(dir, "ca.pem"), filepath.Join(dir, "n1.pem"))
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "reject")
	clitest.Done(t, "tls", "show", "--ca", filepath.Join(dir, "ca.pem.old"), filepath.Join(dir, "n1.pem"))
}

func TestTLS_refusals(t *testing.T) {
	dir := t.TempDir()
	clitest.Done(t, "tls", "init", "--dir", dir)
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no directory":          {[]string{"init"}, 2, "dir"},
		"no role":               {[]string{"issue", "--dir", dir, "--id", "c1"}, 2, "role"},
		"no id":                 {[]string{"issue", "--dir", dir, "--role", "agent"}, 2, "--id is missing"},
		"unknown role":          {[]string{"issue", "--dir", dir, "--role", "king", "--id", "c1"}, 1, "unknown role"},
		"host with a port":      {[]string{"issue", "--dir", dir, "--role", "agent", "--id", "n1", "--host", "10.0.0.1:7001"}, 2, "without port"},
		"id of the authority":   {[]string{"issue", "--dir", dir, "--role", "agent", "--id", "ca", "--force"}, 1, "would overwrite other files"},
		"id of another's key":   {[]string{"issue", "--dir", dir, "--role", "agent", "--id", "ca-key", "--force"}, 1, "would overwrite other files"},
		"id that is a path":     {[]string{"issue", "--dir", dir, "--role", "agent", "--id", "../n1"}, 1, "is not an id"},
		"no authority":          {[]string{"issue", "--dir", t.TempDir(), "--role", "agent", "--id", "n1"}, 1, "mind tls init"},
		"a key for a face":      {[]string{"show", filepath.Join(dir, "ca-key.pem")}, 1, "no certificate"},
		"a file that is not":    {[]string{"show", filepath.Join(dir, "none.pem")}, 1, "none.pem"},
		"an unknown output":     {[]string{"show", "-o", "xml", filepath.Join(dir, "ca.pem")}, 2, "table, json or yaml"},
		"authority that is not": {[]string{"show", "--ca", filepath.Join(dir, "none.pem"), filepath.Join(dir, "ca.pem")}, 1, "--ca"},
	} {
		t.Run(name, func(t *testing.T) {
			_, stderr, code := clitest.Run(t, append([]string{"tls"}, c.args...)...)
			require.Equal(t, c.code, code, stderr)
			require.Contains(t, stderr, c.want)
		})
	}
	// An authority whose key is stored elsewhere must not be replaced by accident.
	text, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(dir, "ca-key.pem")))
	_, _, code := clitest.Run(t, "tls", "init", "--dir", dir)
	require.Equal(t, 1, code)
	_, err = pki.CreateCA(dir)
	require.ErrorIs(t, err, fs.ErrNotExist)
	after, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	require.NoError(t, err)
	require.Equal(t, string(text), string(after))
}

func TestTLS_helpTeachesTheWholeSequence(t *testing.T) {
	help := clitest.Done(t, "tls", "--help")
	for _, want := range []string{"tls init", "--id c3", "--id n3", "--role gateway", "--role operator", "cert_file", "both.pem"} {
		require.Contains(t, help, want)
	}
	// The printed example works, except the rotation, which has placeholders.
	t.Chdir(t.TempDir())
	_, sequence, _ := strings.Cut(help, "a gateway on the first:\n")
	sequence, _, _ = strings.Cut(sequence, "Copy to each machine")
	n := 0
	for line := range strings.Lines(sequence) {
		if args := strings.Fields(line); len(args) > 0 {
			clitest.Done(t, args[1:]...)
			n++
		}
	}
	require.Equal(t, 9, n)
}

// A name that is given twice, or although it is always included, is in the certificate once.
func TestTLSIssue_namesEachHostOnce(t *testing.T) {
	dir := t.TempDir()
	clitest.Done(t, "tls", "init", "--dir", dir)
	out := clitest.Done(t, "tls", "issue", "--dir", dir, "--role", "agent", "--id", "n1",
		"--host", "localhost", "--host", "n1.example,N1.example,10.0.0.1", "--host", "10.0.0.1", "--host", "0:0:0:0:0:0:0:1")
	require.Contains(t, out, "the certificate of agent n1 for localhost, n1.example, 127.0.0.1, ::1, 10.0.0.1, valid until")
}
