package call

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/metadata"

	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/pki"
)

// Call has the properties of a call beside its request.
type Call struct {
	Tenant, User, RequestID, Key string
	Secret, Token                string
	// Member has the groups and roles of the user, as its gateway says: "group:ID", "role:NAME".
	Member []string
	// The caller's tokens for ScaiDrive and ScaiAtlas. They are secrets.
	DriveToken, AtlasToken string
	Tenants                int // the number of tenants in the metadata
	Stale, Forwarded       bool
	// Operator: the caller may operate the cluster; the gateway has checked it.
	Operator bool
	// HandedOn: the call was forwarded to the leader, which records denials itself.
	HandedOn bool
	// UpToDate: the handler has waited until all writes that were acknowledged before the call are applied here.
	UpToDate bool
	// Admitted: the call was admitted.
	Admitted bool
	// Method and Request are those of a write. Writes counts its commands whose answers are
	// remembered.
	Method  string
	Request any
	Writes  atomic.Int32
	// Peer is the identity in the certificate; empty without TLS.
	Peer pki.Identity
	// Index is the state index that the answer reflects; the handler sets it, in a session from several goroutines.
	Index atomic.Uint64
}

type callKey struct{}

// Of returns the call that a handler answers. The interceptors set it.
func Of(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}

// With returns a context with the call, for its handler.
func With(ctx context.Context, c *Call) context.Context { return context.WithValue(ctx, callKey{}, c) }

// Read reads the metadata of a call, and the peer's identity from the certificate.
func Read(ctx context.Context) *Call {
	md, _ := metadata.FromIncomingContext(ctx)
	c := &Call{
		Tenant: First(md, status.KeyTenant), User: First(md, status.KeyUser),
		RequestID: First(md, status.KeyRequestID), Key: First(md, status.KeyIdempotency), Secret: First(md, status.KeySecret),
		Token: First(md, status.KeyToken), Member: md[status.KeyMember],
		Stale: First(md, status.KeyConsistency) == status.Stale, Forwarded: First(md, status.KeyForwarded) != "",
		Tenants: len(md[status.KeyTenant]), Operator: First(md, status.KeyOperator) != "",
		DriveToken: First(md, status.KeyDriveToken), AtlasToken: First(md, status.KeyAtlasToken),
	}
	c.Peer, _ = pki.PeerIdentity(ctx)
	return c
}

// First returns the first value of a metadata key; empty: there is none.
func First(md metadata.MD, key string) string {
	if v := md[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Limits of a caller's texts: its name, its idempotency key, and the reason that it gives.
const (
	MaxIdentity = 256
	MaxKey      = 512
	MaxReason   = 1024
)

const (
	AgentService    = "/scaimind.v1.AgentService/"
	OperatorService = "/scaimind.v1.OperatorService/"
)
