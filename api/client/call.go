package client

import (
	"context"
	"strconv"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/mindcoordinator/mind/api/status"
)

// Call holds the caller and the options of a call.
type Call struct {
	Tenant string
	User   string
	// Member has the groups and roles of the user: "group:ID", "role:NAME".
	Member []string
	// Token is the id of the API token that the caller used.
	Token          string
	RequestID      string
	IdempotencyKey string
	// Consistency is status.Linearizable (when empty) or status.Stale.
	Consistency string
	// Operator says that the caller may operate the cluster; the gateway has checked it.
	Operator bool
	// DriveToken and AtlasToken are the caller's tokens for ScaiDrive and ScaiAtlas; empty: none were requested for this
	// call.
	DriveToken string
	AtlasToken string
	// RetryFor limits how long failed tries are repeated, from the start of the call; 0: until the context ends.
	RetryFor time.Duration
	// Answer, when set, is filled in; it must not be shared by calls that run
	// at the same time.
	Answer *Answer
}

// Answer describes the result of a call beside its reply.
type Answer struct {
	// Index is the state index that the answer reflects; 0 when unknown.
	Index uint64
	// Outcome is the outcome of a failed call: status.NotSent if no try had an effect, status.Unknown if one may have
	// had, or the value of status.KeyOutcome that a coordinator gave as its reason.
	Outcome string
	// Tries is the number of tries, at least 1.
	Tries int
}

type callKey struct{}

// WithCall returns a context for one call. Metadata that is already in the context is sent, too.
func WithCall(ctx context.Context, call Call) context.Context {
	return context.WithValue(ctx, callKey{}, &call)
}

var noCall Call

func callOf(ctx context.Context) *Call {
	if call, ok := ctx.Value(callKey{}).(*Call); ok {
		return call
	}
	return &noCall
}

// outgoing adds the metadata of the call.
func (c *Client) outgoing(ctx context.Context, call *Call) context.Context {
	var buf [18]string
	kv := buf[:0]
	if call.Operator {
		kv = append(kv, status.KeyOperator, "1")
	}
	for _, p := range [...][2]string{
		{status.KeySecret, c.config.Secret},
		{status.KeyTenant, call.Tenant},
		{status.KeyUser, call.User},
		{status.KeyToken, call.Token},
		{status.KeyRequestID, call.RequestID},
		{status.KeyIdempotency, call.IdempotencyKey},
		{status.KeyConsistency, call.Consistency},
		{status.KeyDriveToken, call.DriveToken},
		{status.KeyAtlasToken, call.AtlasToken},
	} {
		if p[1] != "" {
			kv = append(kv, p[0], p[1])
		}
	}
	for _, m := range call.Member {
		kv = append(kv, status.KeyMember, m)
	}
	if len(kv) == 0 {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, kv...)
}

// hasKey reports whether the call carries an idempotency key, set in either way.
func hasKey(ctx context.Context, call *Call) bool {
	if call.IdempotencyKey != "" {
		return true
	}
	md, ok := metadata.FromOutgoingContext(ctx)
	return ok && len(md.Get(status.KeyIdempotency)) > 0
}

func one(md metadata.MD, key string) string {
	if v := md[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func parseIndex(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
