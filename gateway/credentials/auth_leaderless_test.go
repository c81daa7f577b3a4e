package credentials_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// Without a leader, stale reads still work, also with an API token. While there is a leader, only the leader decides
// whether a token is valid.
func TestTokens_withoutALeader(t *testing.T) {
	for name, tc := range map[string]struct {
		leader, alone codes.Code
		want          int
	}{
		"the leader knows it":                                {codes.OK, codes.NotFound, 200},
		"the leader does not know it (any more)":             {codes.NotFound, codes.OK, 401},
		"no leader, and a coordinator that knows it":         {codes.Unavailable, codes.OK, 200},
		"no leader, and a coordinator that does not know it": {codes.Unavailable, codes.NotFound, 503}, // it may be behind
		"nobody can say":                                     {codes.Unavailable, codes.Unavailable, 503},
		"the leader fails, which says nothing of the others": {codes.Internal, codes.OK, 503},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := gatewaytest.NewCoordinator(t)
				c.On("VerifyToken", func(ctx context.Context, _ any) (any, error) {
					md, _ := metadata.FromIncomingContext(ctx)
					code := tc.leader
					if v := md[status.KeyConsistency]; len(v) == 1 && v[0] == status.Stale {
						code = tc.alone
					}
					if code != codes.OK {
						return nil, grpcstatus.Error(code, "as the test has it")
					}
					return &v1.VerifyTokenResponse{Token: &v1.Token{TenantId: "acme", UserId: "ann", Permissions: []string{auth.PermissionView}}}, nil
				})
				g := gatewaytest.NewGate(t, gatewaytest.Config(c))
				begin := time.Now()
				a := g.Do("GET", rest.Prefix+"/queue?consistency=stale", "", "Authorization", "Bearer "+auth.MintToken())
				require.Equal(t, tc.want, a.Code, a.Body)
				require.LessOrEqual(t, time.Since(begin), 11*time.Second)
			})
		})
	}
}
