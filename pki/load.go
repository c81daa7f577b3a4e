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

// Server returns the configuration of a server that accepts only peers with a certificate of the authorities and with
// one of the roles. Without roles it accepts any role, and RequireRole or PeerIdentity must check it. The configuration
// follows the files.
func (k *Keys) Server(roles ...string) *tls.Config {
	config := k.door()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return k.door(), nil }
	if len(roles) > 0 {
		return RequireRole(config, roles...)
	}
	return config
}

// door returns the configuration of one handshake of a server, from the current files.
func (k *Keys) door() *tls.Config {
	cert, pool := k.current()
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    pool,
		Certificates: []tls.Certificate{*cert},
		// With a session ticket, a peer of a removed authority could connect again.
		SessionTicketsDisabled: true,
	}
}

// Client returns a client that calls only peers with one of the roles; without roles it calls any peer.
func (k *Keys) Client(roles ...string) *Client { return &Client{keys: k, roles: roles} }

// Client is the client side of connections. It presents the component's certificate, and verifies that one of the
// authorities signed the server's certificate, that this is valid for the dialed host, and that the server has the
// expected role or id.
type Client struct {
	keys  *Keys
	roles []string
	id    string
}

// Named returns a client that calls only the peer with that id.
func (c *Client) Named(id string) *Client {
	named := *c
	named.id = id
	return &named
}

// Config returns the configuration for one handshake, with the current authorities. A caller that dials repeatedly must
// call Config each time.
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

// Credentials returns credentials for gRPC, which call Config for each handshake.
func (c *Client) Credentials() credentials.TransportCredentials { return &calling{client: c} }

// calling is the credentials of a client: it makes a new configuration for each handshake.
type calling struct{ client *Client }

func (c *calling) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(c.client.Config()).ClientHandshake(ctx, authority, raw)
}

func (c *calling) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are for clients only")
}

func (c *calling) Info() credentials.ProtocolInfo {
	return credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13}).Info()
}

func (c *calling) Clone() credentials.TransportCredentials { return c }

// OverrideServerName is deprecated and not needed: use grpc.WithAuthority.
func (c *calling) OverrideServerName(string) error {
	return errors.New("the name of the server cannot be overridden")
}

// LoadServerTLS returns the configuration of Server after Open, and logs faults to the default logger.
func LoadServerTLS(certFile, keyFile, caFile string) (*tls.Config, error) {
	return Files{certFile, keyFile, caFile}.ServerTLS()
}

// LoadClientTLS returns the configuration of Client after Open. It follows changes of the certificate, but not of the
// authorities, so it is for programs that dial once.
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

// HTTPS returns the configuration of a public server, for example for browsers. Its certificate follows its files, and
// it asks for no client certificates.
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
