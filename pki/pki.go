// Package pki creates and loads the certificates with which Mind's components authenticate each other.
//
// Contract: one certificate authority signs one certificate for each
// component. The subject carries the identity: common name is the id (c1, n1,
// gateway), organisational unit is the role (coordinator, agent, gateway,
// operator). Both ends of a connection show a certificate, TLS 1.3 only.
//
// Guarantees: keys are ECDSA P-256, are written to files of mode 0600, and a
// file is replaced atomically. Certificates, keys and the file of authorities follow their files: a change on disk is used
// from the next handshake on (at most a second later), without a restart. A file that is damaged, does not match the
// others, or would lock its owner out is logged, and the previous one stays in use. To change the authority: put both
// certificates into the CA file everywhere, then reissue, then remove the old one.
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

// The roles a certificate can carry.
const (
	RoleCoordinator = "coordinator"
	RoleAgent       = "agent"
	RoleGateway     = "gateway"
	RoleOperator    = "operator"
)

// ErrWrongRole is wrapped by the error of a handshake whose peer has a role that may not use this connection.
var ErrWrongRole = errors.New("certificate has the wrong role")

// Identity is the authenticated identity of the other end of a connection.
type Identity struct {
	ID   string
	Role string
}

// Is reports whether the identity has one of the roles.
func (i Identity) Is(roles ...string) bool { return slices.Contains(roles, i.Role) }

// String is the form used in logs: role/id.
func (i Identity) String() string { return i.Role + "/" + i.ID }

// PeerIdentity returns the identity of the caller of a gRPC method. It is false if the call did not come over a verified
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

// StateIdentity returns the identity of the peer of a TLS connection. It is false for a certificate that was not verified
// against the authority.
func StateIdentity(state tls.ConnectionState) (Identity, bool) {
	if len(state.VerifiedChains) == 0 || len(state.VerifiedChains[0]) == 0 {
		return Identity{}, false
	}
	who := identityOf(state.VerifiedChains[0][0])
	return who, who != Identity{}
}

// identityOf returns the identity in a certificate; false unless it is complete.
func identityOf(cert *x509.Certificate) Identity {
	subject := cert.Subject
	if subject.CommonName == "" || len(subject.OrganizationalUnit) != 1 {
		return Identity{}
	}
	return Identity{ID: subject.CommonName, Role: subject.OrganizationalUnit[0]}
}

// RequireRole returns a copy of the configuration that fails the handshake if the peer has none of the roles. It works for
// both ends.
func RequireRole(config *tls.Config, roles ...string) *tls.Config {
	return demand(config, func(who Identity) error {
		if !who.Is(roles...) {
			return fmt.Errorf("peer is %s, wanted one of %v: %w", who, roles, ErrWrongRole)
		}
		return nil
	})
}

// demand adds a condition to a configuration, and to those that it makes for each handshake of a server, which replace the
// outer one.
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
