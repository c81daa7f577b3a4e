package pki

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

func newCA(t *testing.T) (*CA, string) {
	t.Helper()
	dir := t.TempDir()
	ca, err := CreateCA(dir)
	require.NoError(t, err)
	return ca, dir
}

func issue(t *testing.T, ca *CA, dir, id, role string, hosts ...string) Files {
	t.Helper()
	files, err := ca.Issue(dir, id, role, hosts...)
	require.NoError(t, err)
	return files
}

func server(t *testing.T, f Files) *tls.Config {
	t.Helper()
	c, err := f.ServerTLS()
	require.NoError(t, err)
	return c
}

func client(t *testing.T, f Files, host string) *tls.Config {
	t.Helper()
	c, err := f.ClientTLS()
	require.NoError(t, err)
	c.ServerName = host
	return c
}

// shake makes a handshake in memory, after which the server sends a byte to the client, and returns the connection
// state and the error of each end.
func shake(t *testing.T, s, c *tls.Config) (atServer, atClient tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	near, far := net.Pipe()
	server, client := tls.Server(far, s), tls.Client(near, c)
	deadline := time.Now().Add(30 * time.Second)
	require.NoError(t, near.SetDeadline(deadline))
	require.NoError(t, far.SetDeadline(deadline))
	done := make(chan error, 1)
	go func() {
		err := handshake(server, true)
		_ = far.Close()
		done <- err
	}()
	clientErr = handshake(client, false)
	_ = near.Close()
	serverErr = <-done
	return server.ConnectionState(), client.ConnectionState(), serverErr, clientErr
}

// handshake makes a handshake, after which one end sends a byte to the other. Without the byte a client would not
// notice that the server rejects its certificate: with TLS 1.3 the client's handshake ends before the server has
// checked it.
func handshake(c *tls.Conn, first bool) error {
	if err := c.Handshake(); err != nil {
		return err
	}
	var b [1]byte
	if first {
		_, err := c.Write(b[:])
		return err
	}
	_, err := c.Read(b[:])
	return err
}

func TestTLS_bothEndsProveWhoTheyAre(t *testing.T) {
	ca, dir := newCA(t)
	c1 := issue(t, ca, dir, "c1", RoleCoordinator, "node-1.example", "10.0.0.1")
	n1 := issue(t, ca, dir, "n1", RoleAgent)
	for _, host := range []string{"localhost", "127.0.0.1", "::1", "node-1.example", "10.0.0.1"} {
		atServer, atClient, serverErr, clientErr := shake(t, server(t, c1), client(t, n1, host))
		require.NoError(t, serverErr)
		require.NoError(t, clientErr)
		who, ok := StateIdentity(atServer)
		require.True(t, ok)
		require.Equal(t, Identity{"n1", RoleAgent}, who)
		who, ok = StateIdentity(atClient)
		require.True(t, ok)
		require.Equal(t, "coordinator/c1", who.String())

		ctx := peer.NewContext(context.Background(), &peer.Peer{AuthInfo: credentials.TLSInfo{State: atServer}})
		who, ok = PeerIdentity(ctx)
		require.True(t, ok)
		require.True(t, who.Is(RoleOperator, RoleAgent))
		require.False(t, who.Is(RoleOperator))
	}
	_, _, _, clientErr := shake(t, server(t, c1), client(t, n1, "elsewhere.example"))
	var wrongHost x509.HostnameError
	require.ErrorAs(t, clientErr, &wrongHost)
}

func TestTLS_wrongRoleIsRefused(t *testing.T) {
	ca, dir := newCA(t)
	c1 := issue(t, ca, dir, "c1", RoleCoordinator)
	n1 := issue(t, ca, dir, "n1", RoleAgent)

	door := RequireRole(server(t, c1), RoleCoordinator, RoleGateway)
	_, _, serverErr, clientErr := shake(t, door, client(t, n1, "localhost"))
	require.ErrorIs(t, serverErr, ErrWrongRole)
	require.Error(t, clientErr)
	_, _, serverErr, clientErr = shake(t, door, client(t, c1, "localhost"))
	require.NoError(t, serverErr)
	require.NoError(t, clientErr)

	caller := RequireRole(client(t, c1, "localhost"), RoleCoordinator)
	_, _, _, clientErr = shake(t, server(t, n1), caller)
	require.ErrorIs(t, clientErr, ErrWrongRole)
}

func TestTLS_strangersAreRefused(t *testing.T) {
	ours, dir := newCA(t)
	theirs, theirDir := newCA(t)
	c1 := issue(t, ours, dir, "c1", RoleCoordinator)
	stranger := issue(t, theirs, theirDir, "c2", RoleCoordinator)

	// A caller with a certificate of another authority, which trusts our authority, calls our server.
	caller := client(t, Files{Cert: stranger.Cert, Key: stranger.Key, CA: c1.CA}, "localhost")
	_, _, serverErr, _ := shake(t, server(t, c1), caller)
	require.Error(t, serverErr)
	// Our caller calls a server with a certificate of another authority.
	_, _, _, clientErr := shake(t, server(t, stranger), client(t, c1, "localhost"))
	var unknown x509.UnknownAuthorityError
	require.ErrorAs(t, clientErr, &unknown)
	// A caller without a certificate calls our server.
	anonymous := client(t, c1, "localhost")
	anonymous.GetClientCertificate = nil
	_, _, serverErr, _ = shake(t, server(t, c1), anonymous)
	require.Error(t, serverErr)
}

func TestCA_isMadeOnceAndKeptPrivate(t *testing.T) {
	ca, dir := newCA(t)
	again, err := CreateCA(dir)
	require.NoError(t, err)
	require.Equal(t, ca.cert.SerialNumber, again.cert.SerialNumber)

	certs := filepath.Join(dir, "certs")
	files := issue(t, ca, certs, "c1", RoleCoordinator)
	for _, name := range []string{files.Cert, files.Key, filepath.Join(dir, CACertFile), filepath.Join(dir, CAKeyFile)} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), name)
	}
	entries, err := os.ReadDir(certs)
	require.NoError(t, err)
	require.Len(t, entries, 2, "temporary files were left behind")

	raw, err := readPEM(files.Cert, "CERTIFICATE")
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(raw)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().AddDate(1, 0, 0), cert.NotAfter, 49*time.Hour)
}

func TestCA_refusals(t *testing.T) {
	_, err := LoadCA(t.TempDir())
	require.ErrorIs(t, err, fs.ErrNotExist)

	ca, dir := newCA(t)
	for _, id := range []string{"", "../c1", "a/b", "..", ".c1", "ca", "ca-key", "c1-key"} {
		_, err = ca.Issue(dir, id, RoleAgent)
		require.Error(t, err, id)
	}
	_, err = ca.Issue(dir, "x", "king")
	require.Error(t, err)

	_, other := newCA(t)
	require.NoError(t, os.Rename(filepath.Join(other, CAKeyFile), filepath.Join(dir, CAKeyFile)))
	_, err = CreateCA(dir)
	require.ErrorContains(t, err, "does not match the certificate")

	_, ok := PeerIdentity(context.Background())
	require.False(t, ok)
	_, ok = StateIdentity(tls.ConnectionState{})
	require.False(t, ok)
	_, err = LoadServerTLS("missing", "missing", "missing")
	require.ErrorIs(t, err, fs.ErrNotExist)
}
