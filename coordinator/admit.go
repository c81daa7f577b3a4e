package coordinator

import (
	"context"
	"crypto/subtle"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/methods"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/pki"
)

// admit decides whether a call may be made: by which caller, with which secret, for which tenant. A caller that has not
// proven that learns nothing, not even the state of this replica.
func (s *server) admit(c *call.Call, method string) error {
	if err := s.identify(c, method); err != nil {
		return err
	}
	c.Admitted = true
	if !s.replica.Opened() && !methods.Of(method).BeforeStart {
		return call.NotSent("%s is still starting: %s", s.config.ID, s.recovery.NotUp())
	}
	if err := s.replica.Retired(); err != nil {
		return err
	}
	if !methods.Of(method).ForTenant {
		return nil
	}
	switch {
	case c.Tenant == "":
		return grpcstatus.Errorf(codes.InvalidArgument, "%s is missing: give the tenant", status.KeyTenant)
	case c.Tenants > 1:
		return grpcstatus.Errorf(codes.InvalidArgument, "%s is given %d times: a call is made for one tenant", status.KeyTenant, c.Tenants)
	case len(c.Tenant) > call.MaxIdentity || len(c.User) > call.MaxIdentity:
		return grpcstatus.Errorf(codes.InvalidArgument, "%s and %s must have at most %d bytes", status.KeyTenant, status.KeyUser, call.MaxIdentity)
	case len(c.Key) > call.MaxKey:
		return grpcstatus.Errorf(codes.InvalidArgument, "%s must have at most %d bytes", status.KeyIdempotency, call.MaxKey)
	}
	return nil
}

// identify checks the certificate and the secret.
func (s *server) identify(c *call.Call, method string) error {
	if s.tls {
		if err := call.MayCall(c.Peer, method); err != nil {
			return err
		}
	}
	if strings.HasPrefix(method, call.AgentService) || s.tls && c.Peer.Is(pki.RoleAgent) {
		return nil // Agents have no secret: their certificates identify them.
	}
	// A coordinator is trusted with forwarded calls: it has checked the secret itself.
	if s.config.APISecret == "" || s.tls && c.Peer.Is(pki.RoleCoordinator) {
		return nil
	}
	if subtle.ConstantTimeCompare([]byte(c.Secret), []byte(s.config.APISecret)) != 1 {
		return grpcstatus.Errorf(codes.Unauthenticated, "%s is missing or wrong", status.KeySecret)
	}
	return nil
}

// seal adds the metadata of every answer: the index, the leader and, for a failure, the outcome of a write. A caller that
// was not admitted gets none of it.
func (s *server) seal(ctx context.Context, c *call.Call, err error) {
	if !c.Admitted {
		return
	}
	md := make(metadata.MD, 3)
	if c.Index.Load() == 0 {
		c.Index.Store(s.replica.View().Index())
	}
	md[status.KeyIndex] = []string{strconv.FormatUint(c.Index.Load(), 10)}
	if hint := s.replica.LeaderHint(); hint != "" {
		md[status.KeyLeader] = []string{hint}
	}
	if outcome := call.OutcomeOf(err); outcome != "" {
		md[status.KeyOutcome] = []string{outcome}
	}
	// An error means that the stream is gone, and its caller with it.
	if err == nil {
		_ = grpc.SetHeader(ctx, md)
	}
	_ = grpc.SetTrailer(ctx, md)
}
