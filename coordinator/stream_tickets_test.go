package coordinator

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
)

func (c *cluster) tokens(id string) v1.TokenServiceClient {
	return v1.NewTokenServiceClient(c.members[id].conn)
}

func digestOf(ticket string) []byte {
	digest := sha256.Sum256([]byte(ticket))
	return digest[:]
}

// A ticket that was created at one coordinator is valid at each of them, once, and not after the leader has changed.
func TestStreamTickets_areGoodOnceAtAnyCoordinator(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		var tickets int
		make1 := func(at string) []byte {
			tickets++
			digest := digestOf(fmt.Sprint("ticket ", tickets))
			resp, err := c.tokens(at).CreateStreamTicket(c.ctx("t1", "", status.KeyUser, "ann", status.KeyToken, "tok_1"), &v1.CreateStreamTicketRequest{
				Digest: digest, Ticket: &v1.StreamTicket{Permissions: []string{"scaimind:view"}, TokenDigest: digestOf("token"), TenantId: "t2", UserId: "bob"},
			})
			require.NoError(t, err)
			require.WithinDuration(t, time.Now().Add(time.Minute), resp.GetExpiresAt().AsTime(), longstop)
			return digest
		}
		redeem := func(at string, digest []byte) (*v1.StreamTicket, error) {
			resp, err := c.tokens(at).RedeemStreamTicket(c.ctx("", ""), &v1.RedeemStreamTicketRequest{Digest: digest})
			return resp.GetTicket(), err
		}
		ids := c.running()
		for i, id := range ids {
			digest := make1(id)
			whose, err := redeem(ids[(i+1)%3], digest)
			require.NoError(t, err)
			require.Equal(t, []string{"t1", "ann", "tok_1"}, []string{whose.GetTenantId(), whose.GetUserId(), whose.GetTokenId()}, "whose it is, the call says, and not the ticket")
			require.Equal(t, []string{"scaimind:view"}, whose.GetPermissions())
			require.Equal(t, digestOf("token"), whose.GetTokenDigest())
			for _, id := range ids {
				_, err := redeem(id, digest)
				requireCode(t, codes.NotFound, err)
			}
		}

		// Concurrent redemptions.
		digest := make1(ids[0])
		var got atomic.Int64
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				if whose, err := redeem(ids[i%3], digest); err == nil && whose != nil {
					got.Add(1)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 1, got.Load())

		// The next leader does not have the ticket, nor has the former leader when it leads again.
		before := c.leader()
		kept := make1(before)
		c.lead(c.follower())
		for _, id := range ids {
			_, err := redeem(id, kept)
			requireCode(t, codes.NotFound, err)
		}
		c.lead(before)
		_, err := redeem(before, kept)
		requireCode(t, codes.NotFound, err)

		for name, call := range map[string]func() error{
			"no digest": func() error {
				_, err := c.tokens("c1").CreateStreamTicket(c.ctx("t1", ""), &v1.CreateStreamTicketRequest{Ticket: &v1.StreamTicket{}})
				return err
			},
			"nobody's": func() error {
				_, err := c.tokens("c1").CreateStreamTicket(c.ctx("t1", ""), &v1.CreateStreamTicketRequest{Digest: digestOf("x")})
				return err
			},
			"a short digest": func() error {
				_, err := c.tokens("c1").RedeemStreamTicket(c.ctx("", ""), &v1.RedeemStreamTicketRequest{Digest: []byte("x")})
				return err
			},
		} {
			requireCode(t, codes.InvalidArgument, call(), name)
		}
	})
}
