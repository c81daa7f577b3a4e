package pki

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// component is a component of a cluster: its files, whose paths never change, their Keys, and a clock that only wait
// moves.
type component struct {
	Files
	*Keys
	log   bytes.Buffer
	clock time.Time
}

// newComponent makes a component with copies of the files of a certificate.
func newComponent(t *testing.T, from Files) *component {
	t.Helper()
	c := &component{Files: FilesOf(t.TempDir(), "it"), clock: time.Now()}
	c.install(t, from)
	keys, err := Open(c.Files, slog.New(slog.NewTextHandler(&c.log, nil)))
	require.NoError(t, err)
	keys.now = func() time.Time { return c.clock }
	keys.looked = c.clock
	c.Keys = keys
	return c
}

// install replaces the component's files as a configuration management would.
func (c *component) install(t *testing.T, from Files) {
	t.Helper()
	for to, name := range map[string]string{c.Cert: from.Cert, c.Key: from.Key} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		write(t, to, text)
	}
	c.believe(t, from.CA)
}

// believe replaces the component's CA file by the authorities in these files.
func (c *component) believe(t *testing.T, authorities ...string) {
	t.Helper()
	var bundle []byte
	for _, name := range authorities {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		bundle = append(bundle, text...)
	}
	write(t, c.CA, bundle)
}

// write replaces a file by a new one, so that Keys notices the change even if the modification times are equal.
func write(t *testing.T, name string, text []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(name+".new", text, 0o600))
	require.NoError(t, os.Rename(name+".new", name))
}

// wait moves the component's clock by the time after which its files are checked again.
func (c *component) wait() { c.clock = c.clock.Add(lookPace) }

// meet makes a gRPC call over TCP from one component to the other, and returns the error of the caller.
func meet(t *testing.T, s, c *component) error {
	t.Helper()
	s.wait()
	c.wait()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(s.Server(RoleAgent))))
	healthpb.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(), grpc.WithTransportCredentials(c.Client(RoleCoordinator).Credentials()))
	require.NoError(t, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	return err
}

func TestReload_theAuthorityIsReplacedWithoutARestart(t *testing.T) {
	before, dirBefore := newCA(t)
	after, dirAfter := newCA(t)
	c1, n1 := newComponent(t, issue(t, before, dirBefore, "c1", RoleCoordinator)), newComponent(t, issue(t, before, dirBefore, "n1", RoleAgent))
	require.NoError(t, meet(t, c1, n1))

	// A component with a certificate of the new authority is rejected before others trust that authority.
	late := newComponent(t, issue(t, after, dirAfter, "n9", RoleAgent))
	late.believe(t, before.CertFile, after.CertFile)
	require.Error(t, meet(t, c1, late))

	// The components trust both authorities, one component after the other.
	n1.believe(t, before.CertFile, after.CertFile)
	require.NoError(t, meet(t, c1, n1))
	c1.believe(t, before.CertFile, after.CertFile)
	require.NoError(t, meet(t, c1, n1))
	require.NoError(t, meet(t, c1, late), "the bundle of a server that runs is not believed")

	// The components get new certificates, one component after the other.
	bundle := filepath.Join(t.TempDir(), "bundle.pem")
	both, err := os.ReadFile(c1.CA)
	require.NoError(t, err)
	write(t, bundle, both)
	renewed := issue(t, after, dirAfter, "c1", RoleCoordinator)
	c1.install(t, Files{renewed.Cert, renewed.Key, bundle})
	require.NoError(t, meet(t, c1, n1), "the bundle of a caller that runs is not believed")
	renewed = issue(t, after, dirAfter, "n1", RoleAgent)
	n1.install(t, Files{renewed.Cert, renewed.Key, bundle})
	require.NoError(t, meet(t, c1, n1))

	// The components trust only the new authority, and so reject certificates of the old one.
	c1.believe(t, after.CertFile)
	n1.believe(t, after.CertFile)
	require.NoError(t, meet(t, c1, n1))
	left := newComponent(t, issue(t, before, dirBefore, "n2", RoleAgent))
	left.believe(t, before.CertFile, after.CertFile)
	require.Error(t, meet(t, c1, left), "an authority that was taken out is believed")
	old := newComponent(t, issue(t, before, dirBefore, "c2", RoleCoordinator))
	old.believe(t, before.CertFile, after.CertFile)
	require.Error(t, meet(t, old, n1), "an authority that was taken out is believed")
	require.NotContains(t, c1.log.String()+n1.log.String(), "level=ERROR")
}

// A server makes a configuration for each handshake, so the check of roles must be in that one too.
func TestReload_rolesAreAskedForAfterIt(t *testing.T) {
	ca, dir := newCA(t)
	c1, other := newComponent(t, issue(t, ca, dir, "c1", RoleCoordinator)), newComponent(t, issue(t, ca, dir, "gw", RoleGateway))
	require.Error(t, meet(t, c1, other), "a gateway got in where agents do")
	require.Error(t, meet(t, other, newComponent(t, issue(t, ca, dir, "n1", RoleAgent))), "an agent called a gateway for a coordinator")

	named := newComponent(t, issue(t, ca, dir, "n1", RoleAgent)).Client(RoleCoordinator)
	for id, want := range map[string]bool{"c1": true, "c2": false} {
		config := named.Named(id).Config()
		config.ServerName = "localhost"
		_, _, _, err := shake(t, c1.Server(), config)
		require.Equal(t, want, err == nil, "%s: %v", id, err)
	}
}

// With a session ticket of an earlier connection, a peer of a removed authority could connect again.
func TestReload_nobodyComesBackByATicket(t *testing.T) {
	ca, dir := newCA(t)
	c1, n1 := newComponent(t, issue(t, ca, dir, "c1", RoleCoordinator)), newComponent(t, issue(t, ca, dir, "n1", RoleAgent))
	door, config := c1.Server(RoleAgent), n1.Client(RoleCoordinator).Config()
	config.ServerName, config.ClientSessionCache = "localhost", tls.NewLRUClientSessionCache(1)
	for range 3 {
		_, seen, serverErr, clientErr := shake(t, door, config)
		require.NoError(t, serverErr)
		require.NoError(t, clientErr)
		require.False(t, seen.DidResume)
	}
}

func TestReload_whatIsBrokenIsNotUsedAndSaidOnce(t *testing.T) {
	ca, dir := newCA(t)
	strange, strangeDir := newCA(t)
	good := issue(t, ca, dir, "c1", RoleCoordinator)
	read := func(name string) []byte {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		return text
	}
	renewed := issue(t, ca, t.TempDir(), "c1", RoleCoordinator)
	caText := read(good.CA)
	for name, broken := range map[string]func(t *testing.T, c *component){
		"certificate without its key": func(t *testing.T, c *component) {
			write(t, c.Cert, read(issue(t, ca, t.TempDir(), "c1", RoleCoordinator).Cert))
		},
		"key that is no key":       func(t *testing.T, c *component) { write(t, c.Key, []byte("not yet")) },
		"certificate that is gone": func(t *testing.T, c *component) { require.NoError(t, os.Remove(c.Cert)) },
		"certificate of a stranger": func(t *testing.T, c *component) {
			files := issue(t, strange, strangeDir, "c1", RoleCoordinator)
			write(t, c.Cert, read(files.Cert))
			write(t, c.Key, read(files.Key))
		},
		"certificate of another component": func(t *testing.T, c *component) {
			files := issue(t, ca, t.TempDir(), "n1", RoleAgent)
			write(t, c.Cert, read(files.Cert))
			write(t, c.Key, read(files.Key))
		},
		"certificate of another coordinator": func(t *testing.T, c *component) {
			files := issue(t, ca, t.TempDir(), "c2", RoleCoordinator)
			write(t, c.Cert, read(files.Cert))
			write(t, c.Key, read(files.Key))
		},
		"no authority": func(t *testing.T, c *component) { write(t, c.CA, nil) },
		"authority cut off": func(t *testing.T, c *component) {
			write(t, c.CA, append(bytes.Clone(caText), caText[:len(caText)/2]...))
		},
		"authority that is gone": func(t *testing.T, c *component) { require.NoError(t, os.Remove(c.CA)) },
		"authority that is none": func(t *testing.T, c *component) {
			write(t, c.CA, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c1, n1 := newComponent(t, good), newComponent(t, issue(t, ca, dir, "n1", RoleAgent))
			broken(t, c1)
			for range 3 {
				require.NoError(t, meet(t, c1, n1))
			}
			require.Equal(t, 1, strings.Count(c1.log.String(), "level=ERROR"), c1.log.String())

			c1.install(t, renewed)
			require.NoError(t, meet(t, c1, n1))
			cert, _ := c1.current()
			require.Equal(t, certificate(t, renewed.Cert).SerialNumber, cert.Leaf.SerialNumber, "what was repaired is not used")
		})
	}
}

func certificate(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	certs, err := ReadCertificates(name)
	require.NoError(t, err)
	return certs[0]
}

func TestReload_filesAreLookedAtOnceASecondAtMost(t *testing.T) {
	ca, dir := newCA(t)
	c1 := newComponent(t, issue(t, ca, dir, "c1", RoleCoordinator))
	before, _ := c1.current()
	files := issue(t, ca, t.TempDir(), "c1", RoleCoordinator)
	c1.install(t, files)
	same, _ := c1.current()
	require.Same(t, before, same)
	c1.wait()
	after, _ := c1.current()
	require.NotEqual(t, before.Leaf.SerialNumber, after.Leaf.SerialNumber)
	require.Contains(t, c1.log.String(), "certificates were reloaded")
}

func TestHTTPS_followsItsFilesAndAsksForNothing(t *testing.T) {
	ca, dir := newCA(t)
	files := issue(t, ca, dir, "gw", RoleGateway)
	config, keys, err := HTTPS(files.Cert, files.Key, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.Equal(t, certificate(t, files.Cert).NotAfter, keys.NotAfter())
	pool := x509.NewCertPool()
	pool.AddCert(certificate(t, ca.CertFile))
	_, seen, serverErr, clientErr := shake(t, config, &tls.Config{RootCAs: pool, ServerName: "localhost"})
	require.NoError(t, serverErr)
	require.NoError(t, clientErr)
	require.Equal(t, "gw", seen.PeerCertificates[0].Subject.CommonName)
	_, _, err = HTTPS(files.Cert, filepath.Join(dir, "none"), slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "none")
	_, err = Open(Files{Cert: files.Cert, Key: files.Key}, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "authority", "without an authority, the system's would be believed")
}

func TestReload_underManyHandshakes(t *testing.T) {
	ca, dir := newCA(t)
	c1, n1 := newComponent(t, issue(t, ca, dir, "c1", RoleCoordinator)), newComponent(t, issue(t, ca, dir, "n1", RoleAgent))
	started := time.Now()
	for _, k := range []*Keys{c1.Keys, n1.Keys} {
		k.now = func() time.Time { return started.Add(1000 * time.Since(started)) } // each handshake checks the files
	}
	door, caller := c1.Server(RoleAgent), n1.Client(RoleCoordinator)
	done := make(chan error, 4)
	for range cap(done) {
		go func() {
			for range 10 {
				config := caller.Config()
				config.ServerName = "localhost"
				near, far := net.Pipe()
				served := make(chan error, 1)
				go func() { served <- handshake(tls.Server(far, door), true) }()
				err := handshake(tls.Client(near, config), false)
				_ = near.Close()
				if err == nil {
					err = <-served
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 20 {
		c1.install(t, issue(t, ca, t.TempDir(), "c1", RoleCoordinator))
	}
	for range cap(done) {
		require.NoError(t, <-done)
	}
}
