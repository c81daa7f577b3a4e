package coordinator

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
)

func (c *cluster) tokens(id string) v1.TokenServiceClient {
	return v1.NewTokenServiceClient(c.members[id].conn)
}

func digestOf(ticket string) []byte {
	digest := sha256.Sum256([]byte(ticket))
	return digest[:]
}

// A ticket that one coordinator was given is good at each of them, once; and not after the leader has changed.
func TestStreamTickets_areGoodOnceAtAnyCoordinator(t *testing.T) {
	c := startCluster(t, 3, nil)
	var tickets int
	make1 := func(at string) []byte {
		tickets++
		digest := digestOf(fmt.Sprint("ticket ", tickets))
		resp, err := c.tokens(at).CreateStreamTicket(c.ctx("t1", "", status.KeyUser, "ann", status.KeyToken, "tok_1"), &v1.CreateStreamTicketRequest{
			Digest: digest, Ticket: &v1.StreamTicket{Permissions: []string{"scaimind:view"}, TokenDigest: digestOf("token"), TenantId: "t2", UserId: "bob"},
		})
		require.NoError(t, err)
		require.WithinDuration(t, time.Now().Add(ticketLife), resp.GetExpiresAt().AsTime(), longstop)
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

	// Many at a time.
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

	// Whoever leads next does not know it; nor does the one who led, when it leads again.
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
		t.Run(name, func(t *testing.T) { requireCode(t, codes.InvalidArgument, call()) })
	}
}

func TestStreamTickets_expireAndAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table streamTickets
		of := func(tenant string) *v1.StreamTicket { return &v1.StreamTicket{TenantId: tenant} }
		n := 0
		put := func(tenant string) (ticketDigest, error) {
			n++
			digest := sha256.Sum256(fmt.Append(nil, n))
			_, err := table.put(digest, of(tenant))
			return digest, err
		}
		_, err := put("t1")
		requireCode(t, codes.Unavailable, call.ToStatus(err)) // nobody leads
		table.begin()
		first, err := put("t1")
		require.NoError(t, err)
		again, err := table.put(first, of("t1"))
		require.NoError(t, err, "the same call, made again, is the same ticket")
		require.Equal(t, time.Now().Add(ticketLife), again)
		time.Sleep(ticketLife - time.Second)
		second, err := put("t1")
		require.NoError(t, err)
		time.Sleep(time.Second)
		whose, err := table.take(first)
		require.NoError(t, err)
		require.Nil(t, whose, "it has expired")
		whose, err = table.take(second)
		require.NoError(t, err)
		require.Equal(t, "t1", whose.GetTenantId())

		for range maxTenantTickets {
			_, err := put("t1")
			require.NoError(t, err)
		}
		_, err = put("t1")
		requireCode(t, codes.ResourceExhausted, call.ToStatus(err))
		_, err = put("t2")
		require.NoError(t, err, "that is for one tenant")
		for tenant := 3; err == nil; tenant++ {
			for range maxTenantTickets {
				if _, err = put(fmt.Sprint("t", tenant)); err != nil {
					break
				}
			}
		}
		require.Len(t, table.waiting, maxTickets)
		time.Sleep(ticketLife)
		_, err = put("t1")
		require.NoError(t, err)
		require.Len(t, table.waiting, 1)
		require.Len(t, table.tenants, 1)
		require.Len(t, table.byAge, 1)

		// Those that are used leave nothing behind, though one that is not used is older.
		for range 10_000 {
			digest, err := put("t2")
			require.NoError(t, err)
			_, err = table.take(digest)
			require.NoError(t, err)
		}
		require.Len(t, table.waiting, 1)
		time.Sleep(ticketLife)
		_, _ = table.take(first)
		require.Empty(t, table.byAge)
		table.end()
		_, err = table.take(second)
		requireCode(t, codes.Unavailable, call.ToStatus(err))
	})
}
