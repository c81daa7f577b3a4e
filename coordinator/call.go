package coordinator

import (
	"context"
	"crypto/subtle"
	"strconv"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/pki"
)

// call is what is known of a call beside its request.
type call struct {
	tenant, user, requestID, key string
	secret, token                string
	// The caller's tokens for ScaiDrive and ScaiAtlas. They are secrets.
	driveToken, atlasToken string
	tenants                int // how many were named
	stale, forwarded       bool
	// operator: whoever checked the caller's permissions vouches that he may run the cluster.
	operator bool
	// handedOn: the leader was asked, and has noted itself what it denied.
	handedOn bool
	// upToDate: the handler has waited until all that was acknowledged before the call is applied here.
	upToDate bool
	// admitted: the call has shown that it may be made at all.
	admitted bool
	// peer is who the certificate says it is; empty without TLS.
	peer pki.Identity
	// index is the state index that the answer reflects; the handler sets it, in a session from several goroutines.
	index atomic.Uint64
}

type callKey struct{}

// callOf is the call that a handler answers. The interceptors put it there.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

func readCall(ctx context.Context) *call {
	md, _ := metadata.FromIncomingContext(ctx)
	c := &call{
		tenant: one(md, status.KeyTenant), user: one(md, status.KeyUser),
		requestID: one(md, status.KeyRequestID), key: one(md, status.KeyIdempotency), secret: one(md, status.KeySecret),
		token: one(md, status.KeyToken),
		stale: one(md, status.KeyConsistency) == status.Stale, forwarded: one(md, status.KeyForwarded) != "",
		tenants: len(md[status.KeyTenant]), operator: one(md, status.KeyOperator) != "",
		driveToken: one(md, status.KeyDriveToken), atlasToken: one(md, status.KeyAtlasToken),
	}
	c.peer, _ = pki.PeerIdentity(ctx)
	return c
}

// sign says on whose behalf a job is created.
func (c *call) sign(job *fsm.NewJob, key string) {
	job.Tenant, job.User, job.Key = c.tenant, c.user, key
	job.AutoKey = strings.HasPrefix(key, status.AutoKeyPrefix)
}

func one(md metadata.MD, key string) string {
	if v := md[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Bounds of what a caller names itself.
const (
	maxIdentity = 256
	maxKey      = 512
)

const (
	agentService    = "/scaimind.v1.AgentService/"
	operatorService = "/scaimind.v1.OperatorService/"
	healthService   = "/grpc.health.v1.Health/"
)

// admit decides whether a call may be made at all: who by, with which secret, for which tenant. Whoever has not shown that
// is told nothing, not even how this replica is.
func (s *server) admit(c *call, method string) error {
	if err := s.identify(c, method); err != nil {
		return err
	}
	c.admitted = true
	if !s.started.Load() && !answeredBeforeStart[method] {
		return notSent("%s is not up yet: %s", s.config.ID, s.beginning.text())
	}
	if err := s.retired(); err != nil {
		return err
	}
	if !tenantScoped(method) {
		return nil
	}
	switch {
	case c.tenant == "":
		return grpcstatus.Errorf(codes.InvalidArgument, "%s is missing: name the tenant", status.KeyTenant)
	case c.tenants > 1:
		return grpcstatus.Errorf(codes.InvalidArgument, "%s is there %d times: a call is made for one tenant", status.KeyTenant, c.tenants)
	case len(c.tenant) > maxIdentity || len(c.user) > maxIdentity:
		return grpcstatus.Errorf(codes.InvalidArgument, "%s and %s take at most %d bytes", status.KeyTenant, status.KeyUser, maxIdentity)
	case len(c.key) > maxKey:
		return grpcstatus.Errorf(codes.InvalidArgument, "%s takes at most %d bytes", status.KeyIdempotency, maxKey)
	}
	return nil
}

// identify checks the certificate and the secret.
func (s *server) identify(c *call, method string) error {
	if s.tls {
		if err := mayCall(c.peer, method); err != nil {
			return err
		}
	}
	if strings.HasPrefix(method, agentService) {
		return nil // Agents have no secret.
	}
	// A coordinator vouches for what it hands on: it has checked the secret itself.
	if s.config.APISecret == "" || s.tls && c.peer.Is(pki.RoleCoordinator) {
		return nil
	}
	if subtle.ConstantTimeCompare([]byte(c.secret), []byte(s.config.APISecret)) != 1 {
		return grpcstatus.Errorf(codes.Unauthenticated, "%s is missing or wrong", status.KeySecret)
	}
	return nil
}

// answeredBeforeStart are the calls that need no data.
var answeredBeforeStart = map[string]bool{
	v1.OperatorService_DescribeReplica_FullMethodName: true,
	healthpb.Health_Check_FullMethodName:              true,
}

// tenantScoped says whether a call is made for a tenant. Those that are not concern the cluster, find out whose a token is, or
// tell of callers of all tenants.
func tenantScoped(method string) bool {
	return !strings.HasPrefix(method, agentService) && !strings.HasPrefix(method, operatorService) && !strings.HasPrefix(method, healthService) &&
		method != v1.TokenService_VerifyToken_FullMethodName && method != v1.TokenService_RedeemStreamTicket_FullMethodName && method != v1.AuditService_RecordDenials_FullMethodName
}

// seal sends along what every answer carries: its index, the leader, and with a failure what became of a write. A caller
// who was not admitted gets none of it.
func (s *server) seal(ctx context.Context, c *call, err error) {
	if !c.admitted {
		return
	}
	md := make(metadata.MD, 3)
	if c.index.Load() == 0 {
		c.index.Store(s.machine.View().Index())
	}
	md[status.KeyIndex] = []string{strconv.FormatUint(c.index.Load(), 10)}
	if hint := s.leaderHint.Load(); hint != nil && *hint != "" {
		md[status.KeyLeader] = []string{*hint}
	}
	if outcome := outcomeOf(err); outcome != "" {
		md[status.KeyOutcome] = []string{outcome}
	}
	// A failure here means that the stream is gone, and with it whoever would read this.
	if err == nil {
		_ = grpc.SetHeader(ctx, md)
	}
	_ = grpc.SetTrailer(ctx, md)
}
