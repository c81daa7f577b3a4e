package coordinator

import (
	"crypto/sha256"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
)

// Tokens are verified without a leader, so that callers can read the remaining state.
func TestCluster_oneAloneKnowsTokens(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, func(config *Config) { config.Timers.LeaderWait = 300 * time.Millisecond })
		digest := sha256.Sum256([]byte("sgk_secret"))
		alone := c.follower()
		tokens := v1.NewTokenServiceClient(c.members[alone].conn)
		_, err := tokens.CreateToken(c.ctx("acme", ""), &v1.CreateTokenRequest{Digest: digest[:], UserId: "ann", Permissions: []string{"scaimind:view"}})
		require.NoError(t, err)
		_, err = tokens.ListTokens(c.ctx("acme", ""), &v1.ListTokensRequest{}) // The coordinator has applied the token now.
		require.NoError(t, err)
		for _, other := range c.ids {
			if other != alone {
				c.kill(other)
			}
		}
		_, err = tokens.VerifyToken(c.ctx("", ""), &v1.VerifyTokenRequest{Digest: digest[:]})
		requireCode(t, codes.Unavailable, err)
		who, err := tokens.VerifyToken(c.ctx("", "", status.KeyConsistency, status.Stale), &v1.VerifyTokenRequest{Digest: digest[:]})
		require.NoError(t, err)
		require.Equal(t, "ann", who.GetToken().GetUserId())
	})
}

func TestCluster_tokens(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		tokens := func(id string) v1.TokenServiceClient { return v1.NewTokenServiceClient(c.members[id].conn) }
		digest := sha256.Sum256([]byte("sgk_secret"))
		at := c.follower()
		made, err := tokens(at).CreateToken(c.ctx("acme", ""), &v1.CreateTokenRequest{
			Digest: digest[:], Name: "ci", UserId: "ann", Permissions: []string{"scaimind:view"}, ExpiresInSeconds: 3600,
		})
		require.NoError(t, err)
		again, err := tokens(c.leader()).CreateToken(c.ctx("acme", ""), &v1.CreateTokenRequest{
			Digest: digest[:], Name: "ci", UserId: "ann", Permissions: []string{"scaimind:view"}, ExpiresInSeconds: 3600,
		})
		require.NoError(t, err)
		require.Equal(t, made.GetToken().GetTokenId(), again.GetToken().GetTokenId(), "a repeated create is the same token")

		for _, id := range c.ids {
			who, err := tokens(id).VerifyToken(c.ctx("", ""), &v1.VerifyTokenRequest{Digest: digest[:]})
			require.NoError(t, err)
			require.Equal(t, "acme", who.GetToken().GetTenantId())
			require.Equal(t, "ann", who.GetToken().GetUserId())
		}
		_, err = tokens(at).VerifyToken(c.ctx("", ""), &v1.VerifyTokenRequest{Digest: []byte("x")})
		requireCode(t, codes.NotFound, err)

		mine, err := tokens(at).ListTokens(c.ctx("acme", ""), &v1.ListTokensRequest{})
		require.NoError(t, err)
		require.Len(t, mine.GetTokens(), 1)
		theirs, err := tokens(at).ListTokens(c.ctx("evil", ""), &v1.ListTokensRequest{})
		require.NoError(t, err)
		require.Empty(t, theirs.GetTokens())
		_, err = tokens(at).RevokeToken(c.ctx("evil", ""), &v1.RevokeTokenRequest{TokenId: made.GetToken().GetTokenId()})
		requireCode(t, codes.NotFound, err)
		_, err = tokens(at).RevokeToken(c.ctx("acme", ""), &v1.RevokeTokenRequest{TokenId: made.GetToken().GetTokenId()})
		require.NoError(t, err)
		_, err = tokens(at).VerifyToken(c.ctx("", ""), &v1.VerifyTokenRequest{Digest: digest[:]})
		requireCode(t, codes.NotFound, err)
		_, err = tokens(at).VerifyToken(c.ctx("", "", status.KeyConsistency, status.Stale), &v1.VerifyTokenRequest{Digest: []byte("x")})
		requireCode(t, codes.NotFound, err)
		_, err = tokens(at).CreateToken(c.ctx("acme", ""), &v1.CreateTokenRequest{Digest: digest[:], Permissions: []string{"p"}, ExpiresInSeconds: -1})
		requireCode(t, codes.InvalidArgument, err)
		for _, seconds := range []int64{1 << 33, math.MaxInt64} { // In nanoseconds these would overflow.
			_, err = tokens(at).CreateToken(c.ctx("acme", ""), &v1.CreateTokenRequest{Digest: digest[:], Permissions: []string{"p"}, ExpiresInSeconds: seconds})
			requireCode(t, codes.InvalidArgument, err)
		}
	})
}
