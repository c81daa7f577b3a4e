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

// Server returns the configuration of a server that accepts only peers with a certificate of the authorities, and with one
// of the roles (none: any role; then RequireRole or PeerIdentity check it). It follows the files.
func (k *Keys) Server(roles ...string) *tls.Config {
	config := k.door()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return k.door(), nil }
	if len(roles) > 0 {
		return RequireRole(config, roles...)
	}
	return config
}

// door makes the configuration of one handshake from the current files.
func (k *Keys) door() *tls.Config {
	cert, pool := k.current()
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    pool,
		Certificates: []tls.Certificate{*cert},
		// A session ticket would let in a peer of an authority that is no longer trusted.
		SessionTicketsDisabled: true,
	}
}

// Client returns a client that calls only peers with one of the roles (none: any role).
func (k *Keys) Client(roles ...string) *Client { return &Client{keys: k, roles: roles} }

// Client is the client side of connections: it shows the certificate, and verifies that one of the authorities signed the
// server's, that it is valid for the dialed host, and that the server has the expected role or id.
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

// Config returns the configuration for a handshake now, with the current authorities: a caller that dials repeatedly must
// ask each time.
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

// calling makes a new configuration for each handshake.
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

// LoadServerTLS is Open and Server, with faults logged to the default logger.
func LoadServerTLS(certFile, keyFile, caFile string) (*tls.Config, error) {
	return Files{certFile, keyFile, caFile}.ServerTLS()
}

// LoadClientTLS is Open and Client for a single dial: it follows changes of the certificate, but uses the current
// authorities.
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

// HTTPS returns the configuration of a public server, for browsers for example: a certificate that follows its files, and
// no client certificates.
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
