package pki

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"google.golang.org/grpc/credentials"
)

// Server returns the configuration of a door that lets in only peers with a
// certificate of the authorities, and with one of the roles (none: any role;
// then RequireRole or PeerIdentity say who may use it). It follows the files.
func (k *Keys) Server(roles ...string) *tls.Config {
	config := k.door()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return k.door(), nil }
	if len(roles) > 0 {
		return RequireRole(config, roles...)
	}
	return config
}

// door is how one handshake goes, with what the files hold now.
func (k *Keys) door() *tls.Config {
	cert, pool := k.current()
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    pool,
		Certificates: []tls.Certificate{*cert},
		// A ticket would let in again whom an authority vouched for that is
		// believed no more.
		SessionTicketsDisabled: true,
	}
}

// Client returns the calling end, which calls only peers of one of the roles
// (none: any role).
func (k *Keys) Client(roles ...string) *Client { return &Client{keys: k, roles: roles} }

// Client is the calling end of connections: it shows the certificate, and
// verifies that the server has one of the authorities, that it names the host
// that was dialled, and that the server is who it should be.
type Client struct {
	keys  *Keys
	roles []string
	id    string
}

// Named returns a client that calls only the peer of that id.
func (c *Client) Named(id string) *Client {
	named := *c
	named.id = id
	return &named
}

// Config returns the configuration for a handshake that comes now. It knows the
// authorities of this moment: who dials more than once asks each time.
func (c *Client) Config() *tls.Config {
	_, pool := c.keys.current()
	config := &tls.Config{
		MinVersion: tls.VersionTLS13,
		RootCAs:    pool,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, _ := c.keys.current()
			return cert, nil
		},
	}
	if len(c.roles) > 0 {
		config = RequireRole(config, c.roles...)
	}
	if c.id != "" {
		config = demand(config, func(who Identity) error {
			if who.ID != c.id {
				return fmt.Errorf("peer is %s, wanted %s: %w", who, c.id, ErrWrongRole)
			}
			return nil
		})
	}
	return config
}

// Credentials returns the same for gRPC.
func (c *Client) Credentials() credentials.TransportCredentials { return &calling{client: c} }

// calling makes the configuration of each handshake anew.
type calling struct{ client *Client }

func (c *calling) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(c.client.Config()).ClientHandshake(ctx, authority, raw)
}

func (c *calling) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are those of a caller")
}

func (c *calling) Info() credentials.ProtocolInfo {
	return credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13}).Info()
}

func (c *calling) Clone() credentials.TransportCredentials { return c }

// OverrideServerName is deprecated, and nobody's need: grpc.WithAuthority is.
func (c *calling) OverrideServerName(string) error {
	return errors.New("the name of the server cannot be overridden")
}

// LoadServerTLS is Open and Server, with faults logged to the default logger.
func LoadServerTLS(certFile, keyFile, caFile string) (*tls.Config, error) {
	return Files{certFile, keyFile, caFile}.ServerTLS()
}

// LoadClientTLS is Open and Client for one who dials now: a certificate that
// changes is followed, the authorities are those of this moment.
func LoadClientTLS(certFile, keyFile, caFile string) (*tls.Config, error) {
	return Files{certFile, keyFile, caFile}.ClientTLS()
}

// ServerTLS loads the files for a server, as LoadServerTLS does.
func (f Files) ServerTLS() (*tls.Config, error) {
	keys, err := Open(f, slog.Default())
	if err != nil {
		return nil, err
	}
	return keys.Server(), nil
}

// ClientTLS loads the files for a client, as LoadClientTLS does.
func (f Files) ClientTLS() (*tls.Config, error) {
	keys, err := Open(f, slog.Default())
	if err != nil {
		return nil, err
	}
	return keys.Client().Config(), nil
}

// HTTPS returns the configuration of a door for everybody, such as browsers: a
// certificate that follows its files, and none asked of callers.
func HTTPS(certFile, keyFile string, log *slog.Logger) (*tls.Config, *Keys, error) {
	keys, err := open(Files{Cert: certFile, Key: keyFile}, log)
	if err != nil {
		return nil, nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			cert, _ := keys.current()
			return cert, nil
		},
	}, keys, nil
}
