// Package pki makes and loads the certificates with which the components of
// Mind prove to each other who they are.
//
// Contract: one certificate authority signs one certificate for each
// component. The subject carries the identity: common name is the id (c1, n1,
// gateway), organisational unit is the role (coordinator, agent, gateway,
// operator). Both ends of a connection show a certificate, TLS 1.3 only.
//
// Guarantees: keys are ECDSA P-256, are written to files of mode 0600, and a
// file is replaced atomically. Certificates, keys and the file of authorities
// follow their files: what changes on disk is used from the next handshake on
// (a second later at most), without a restart. What is broken, or does not fit
// together, or would lock its owner out is not used: it is logged, and what was
// read before stays. To change the authority: put both certificates into the
// CA file everywhere, then reissue, then take the old one out.
//
// Not guaranteed: revocation (there is none: a certificate is good until it
// expires or its authority is taken out), and anything about connections that
// are open: they live on with what they were opened with.
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

// ErrWrongRole is wrapped by the error of a handshake whose peer proved an
// identity that may not use this door.
var ErrWrongRole = errors.New("certificate has the wrong role")

// Identity is who the other end of a connection proved to be.
type Identity struct {
	ID   string
	Role string
}

// Is reports whether the identity has one of the roles.
func (i Identity) Is(roles ...string) bool { return slices.Contains(roles, i.Role) }

// String is the form used in logs: role/id.
func (i Identity) String() string { return i.Role + "/" + i.ID }

// PeerIdentity returns the identity of the caller of a gRPC method. It is
// false when the call did not come over a verified mutual TLS connection.
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

// StateIdentity returns the identity that the peer of a TLS connection proved.
// It is false for a certificate that was not verified against the authority.
func StateIdentity(state tls.ConnectionState) (Identity, bool) {
	if len(state.VerifiedChains) == 0 || len(state.VerifiedChains[0]) == 0 {
		return Identity{}, false
	}
	who := identityOf(state.VerifiedChains[0][0])
	return who, who != Identity{}
}

// identityOf is who a certificate says it is; nobody, unless it says all of it.
func identityOf(cert *x509.Certificate) Identity {
	subject := cert.Subject
	if subject.CommonName == "" || len(subject.OrganizationalUnit) != 1 {
		return Identity{}
	}
	return Identity{ID: subject.CommonName, Role: subject.OrganizationalUnit[0]}
}

// RequireRole returns a copy of the configuration that ends the handshake when
// the peer has none of the roles. It works for both ends.
func RequireRole(config *tls.Config, roles ...string) *tls.Config {
	return demand(config, func(who Identity) error {
		if !who.Is(roles...) {
			return fmt.Errorf("peer is %s, wanted one of %v: %w", who, roles, ErrWrongRole)
		}
		return nil
	})
}

// demand adds a condition to a configuration, and to those that it makes for
// each handshake of a server: of these, what is around them does not count.
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
			return fmt.Errorf("peer shows no identity: %w", ErrWrongRole)
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
