// Package pki creates and loads the certificates with which Mind's components authenticate each other.
//
// Contract: one certificate authority signs one certificate for each component. The subject carries the identity:
// common name is the id (c1, n1, gateway), organisational unit is the role (coordinator, agent, gateway, operator).
// Both ends of a connection present a certificate. All connections use TLS 1.3.
//
// Guarantees: keys are ECDSA P-256, are written to files of mode 0600, and a file is replaced atomically. Certificates,
// keys and the file of authorities follow their files: handshakes use a change on disk at most a second later, without
// a restart. A file that is damaged, does not match the others, or that peers would reject is logged, and the previous
// one stays in use. To change the authority: put the certificates of both authorities into the CA file of each
// component, then issue new certificates for all components, then remove the old authority from the CA files.
//
// Not guaranteed: revocation (a certificate is valid until it expires or its authority is removed), and anything about open
// connections: they keep the certificates that they were opened with.
package pki

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// The roles that a certificate can have.
const (
	RoleCoordinator = "coordinator"
	RoleAgent       = "agent"
	RoleGateway     = "gateway"
	RoleOperator    = "operator"
)

// ErrWrongRole is wrapped by the error of a handshake with a peer that has none of the expected roles.
var ErrWrongRole = errors.New("certificate has the wrong role")

// Identity is the authenticated identity of the other end of a connection.
type Identity struct {
	ID   string
	Role string
}

// Is reports whether the identity has one of the roles.
func (i Identity) Is(roles ...string) bool { return slices.Contains(roles, i.Role) }

// String returns the identity in the form used in logs: role/id.
func (i Identity) String() string { return i.Role + "/" + i.ID }

// PeerIdentity returns the identity of the caller of a gRPC method, and false if the call did not come over a verified
// mutual TLS connection.
func PeerIdentity(ctx context.Context) (Identity, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return Identity{}, false
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return Identity{}, false
	}
	return StateIdentity(info.State)
}

// StateIdentity returns the identity of the peer of a TLS connection, and false if its certificate was not verified
// against the authority.
func StateIdentity(state tls.ConnectionState) (Identity, bool) {
	if len(state.VerifiedChains) == 0 || len(state.VerifiedChains[0]) == 0 {
		return Identity{}, false
	}
	who := identityOf(state.VerifiedChains[0][0])
	return who, who != Identity{}
}

// identityOf returns the identity in a certificate, and the zero Identity if it is incomplete.
func identityOf(cert *x509.Certificate) Identity {
	subject := cert.Subject
	if subject.CommonName == "" || len(subject.OrganizationalUnit) != 1 {
		return Identity{}
	}
	return Identity{ID: subject.CommonName, Role: subject.OrganizationalUnit[0]}
}

// RequireRole returns a copy of a configuration of a client or server, with which a handshake fails if the peer has
// none of the roles.
func RequireRole(config *tls.Config, roles ...string) *tls.Config {
	return demand(config, func(who Identity) error {
		if !who.Is(roles...) {
			return fmt.Errorf("peer is %s, wanted one of %v: %w", who, roles, ErrWrongRole)
		}
		return nil
	})
}

// demand returns a copy of a configuration that requires a condition of the peer. A server's configuration may make
// another one for each handshake, which replaces the outer one, so that one gets the condition too.
func demand(config *tls.Config, allow func(Identity) error) *tls.Config {
	strict := config.Clone()
	before := config.VerifyConnection
	strict.VerifyConnection = func(state tls.ConnectionState) error {
		if before != nil {
			if err := before(state); err != nil {
				return err
			}
		}
		who, ok := StateIdentity(state)
		if !ok {
			return fmt.Errorf("peer has no identity: %w", ErrWrongRole)
		}
		return allow(who)
	}
	if forClient := config.GetConfigForClient; forClient != nil {
		strict.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			made, err := forClient(hello)
			if err != nil || made == nil {
				return made, err
			}
			return demand(made, allow), nil
		}
	}
	return strict
}
