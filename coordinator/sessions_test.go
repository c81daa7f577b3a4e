package coordinator

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
)

func (c *cluster) sessions(id string) v1.SessionServiceClient {
	return v1.NewSessionServiceClient(c.members[id].conn)
}

func TestCluster_sessions(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		at := c.follower()
		ann := c.ctx("acme", "", status.KeyUser, "ann", status.KeyMember, "group:g1", status.KeyMember, "role:lead")
		sign := func(secret string) *v1.Session {
			made, err := c.sessions(at).CreateSession(ann, &v1.CreateSessionRequest{
				Digest: digestOf(secret), Permissions: []string{"scaimind:view"}, Address: "10.0.0.1", UserAgent: "Firefox",
			})
			require.NoError(t, err)
			return made.GetSession()
		}
		first, second := sign("one"), sign("two")
		require.Equal(t, first.GetSessionId(), sign("one").GetSessionId(), "the same request again is the same session")
		require.WithinDuration(t, time.Now().Add(12*time.Hour), first.GetExpiresAt().AsTime(), longstop)
		for _, id := range c.ids {
			who, err := c.sessions(id).VerifySessions(c.ctx("", ""), &v1.VerifySessionsRequest{Digests: [][]byte{digestOf("two"), []byte("x"), digestOf("one"), digestOf("three")}})
			require.NoError(t, err)
			require.Len(t, who.GetSessions(), 4)
			require.Equal(t, second.GetSessionId(), who.GetSessions()[0].GetSession().GetSessionId())
			require.Equal(t, []string{"group:g1", "role:lead"}, who.GetSessions()[2].GetMember())
			require.Equal(t, []string{"acme", "ann"}, []string{who.GetSessions()[2].GetSession().GetTenantId(), who.GetSessions()[2].GetSession().GetUserId()})
			require.Nil(t, who.GetSessions()[1].GetSession())
			require.Nil(t, who.GetSessions()[3].GetSession())
		}
		for _, digests := range [][][]byte{nil, make([][]byte, 1001)} {
			_, err := c.sessions(at).VerifySessions(c.ctx("", ""), &v1.VerifySessionsRequest{Digests: digests})
			requireCode(t, codes.InvalidArgument, err)
		}

		bob := c.ctx("acme", "", status.KeyUser, "bob")
		list := func(who string, all bool) int {
			mine, err := c.sessions(at).ListSessions(c.ctx("acme", "", status.KeyUser, who), &v1.ListSessionsRequest{All: all})
			require.NoError(t, err)
			return len(mine.GetSessions())
		}
		require.Equal(t, []int{2, 0, 2}, []int{list("ann", false), list("bob", false), list("bob", true)})
		others, err := c.sessions(at).ListSessions(c.ctx("evil", "", status.KeyUser, "ann"), &v1.ListSessionsRequest{All: true})
		require.NoError(t, err)
		require.Empty(t, others.GetSessions())

		_, err = c.sessions(at).RevokeSession(bob, &v1.RevokeSessionRequest{SessionId: first.GetSessionId()})
		requireCode(t, codes.NotFound, err)
		_, err = c.sessions(at).RevokeSession(c.ctx("evil", "", status.KeyUser, "ann"), &v1.RevokeSessionRequest{SessionId: first.GetSessionId(), AnyUser: true})
		requireCode(t, codes.NotFound, err)
		_, err = c.sessions(at).RevokeSession(bob, &v1.RevokeSessionRequest{SessionId: "tok_1"})
		requireCode(t, codes.NotFound, err)
		_, err = c.sessions(at).RevokeSession(ann, &v1.RevokeSessionRequest{SessionId: first.GetSessionId()})
		require.NoError(t, err)
		_, err = c.sessions(at).RevokeSession(bob, &v1.RevokeSessionRequest{SessionId: second.GetSessionId(), AnyUser: true})
		require.NoError(t, err)
		who, err := c.sessions(c.leader()).VerifySessions(c.ctx("", ""), &v1.VerifySessionsRequest{Digests: [][]byte{digestOf("one"), digestOf("two")}})
		require.NoError(t, err)
		require.Nil(t, who.GetSessions()[0].GetSession())
		require.Nil(t, who.GetSessions()[1].GetSession())
	})
}

// A list has the newest sessions, however many there are.
func TestCluster_manySessions(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		var newest string
		for n := range 1010 {
			made, err := c.sessions(at).CreateSession(c.ctx("acme", "", status.KeyUser, fmt.Sprint("u", n%20)), &v1.CreateSessionRequest{Digest: digestOf(fmt.Sprint(n))})
			require.NoError(t, err)
			newest = made.GetSession().GetSessionId()
		}
		list, err := c.sessions(at).ListSessions(c.ctx("acme", ""), &v1.ListSessionsRequest{All: true})
		require.NoError(t, err)
		require.Len(t, list.GetSessions(), 1000)
		require.Equal(t, newest, list.GetSessions()[0].GetSessionId())
		require.Equal(t, "u10", list.GetSessions()[999].GetUserId())
	})
}

// A session ends with the credential that it came from, and its use is recorded.
func TestCluster_sessionsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		at := c.follower()
		verify := func(secret string) *v1.Session {
			who, err := c.sessions(at).VerifySessions(c.ctx("", ""), &v1.VerifySessionsRequest{Digests: [][]byte{digestOf(secret)}})
			require.NoError(t, err)
			return who.GetSessions()[0].GetSession()
		}
		sign := func(secret, token string, ends *timestamppb.Timestamp) (*v1.Session, error) {
			headers := []string{status.KeyUser, "ann"}
			if token != "" {
				headers = append(headers, status.KeyToken, token)
			}
			made, err := c.sessions(at).CreateSession(c.ctx("acme", "", headers...), &v1.CreateSessionRequest{Digest: digestOf(secret), ExpiresAt: ends})
			return made.GetSession(), err
		}
		token, err := c.tokens(at).CreateToken(c.ctx("acme", ""), &v1.CreateTokenRequest{Digest: digestOf("token"), UserId: "ann", Permissions: []string{"scaimind:view"}})
		require.NoError(t, err)
		id := token.GetToken().GetTokenId()
		made, err := sign("one", id, nil)
		require.NoError(t, err)
		require.Equal(t, []string{"scaimind:view"}, made.GetPermissions())
		require.Equal(t, id, made.GetTokenId())
		_, err = sign("two", "", timestamppb.New(time.Now().Add(time.Minute)))
		require.NoError(t, err)
		_, err = sign("three", "", timestamppb.New(time.Now()))
		requireCode(t, codes.FailedPrecondition, err)
		_, err = sign("three", "tok_7", nil)
		requireCode(t, codes.FailedPrecondition, err)
		_, err = sign("three", "nobody's", nil)
		requireCode(t, codes.NotFound, err)

		require.NotNil(t, verify("one"))
		require.NotNil(t, verify("two"))
		time.Sleep(2 * time.Minute) // The uses of a minute are recorded together.
		require.NotNil(t, verify("one").GetLastUsedAt())
		require.Nil(t, verify("two"), "its time is over")
		_, err = c.tokens(at).RevokeToken(c.ctx("acme", ""), &v1.RevokeTokenRequest{TokenId: id})
		require.NoError(t, err)
		require.Nil(t, verify("one"))
	})
}

// Sessions are verified without a leader, so that callers can read the remaining state.
func TestCluster_oneAloneKnowsSessions(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, func(config *Config) { config.Timers.LeaderWait = 300 * time.Millisecond })
		alone := c.follower()
		_, err := c.sessions(alone).CreateSession(c.ctx("acme", "", status.KeyUser, "ann"), &v1.CreateSessionRequest{Digest: digestOf("one")})
		require.NoError(t, err)
		_, err = c.sessions(alone).ListSessions(c.ctx("acme", ""), &v1.ListSessionsRequest{}) // The coordinator has applied the session now.
		require.NoError(t, err)
		for _, other := range c.ids {
			if other != alone {
				c.kill(other)
			}
		}
		question := &v1.VerifySessionsRequest{Digests: [][]byte{digestOf("one")}}
		_, err = c.sessions(alone).VerifySessions(c.ctx("", ""), question)
		requireCode(t, codes.Unavailable, err)
		who, err := c.sessions(alone).VerifySessions(c.ctx("", "", status.KeyConsistency, status.Stale), question)
		require.NoError(t, err)
		require.Equal(t, "ann", who.GetSessions()[0].GetSession().GetUserId())
	})
}
