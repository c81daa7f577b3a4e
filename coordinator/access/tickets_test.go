package access

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
)

func TestStreamTickets_expireAndAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newStreamTickets()
		of := func(tenant string) *v1.StreamTicket { return &v1.StreamTicket{TenantId: tenant} }
		n := 0
		put := func(tenant string) (ticketDigest, error) {
			n++
			digest := sha256.Sum256(fmt.Append(nil, n))
			_, err := table.put(digest, of(tenant))
			return digest, err
		}
		first, err := put("t1")
		require.NoError(t, err)
		again, err := table.put(first, of("t1"))
		require.NoError(t, err, "the same call, made again, is the same ticket")
		require.Equal(t, time.Now().Add(ticketLife), again)
		time.Sleep(ticketLife - time.Second)
		second, err := put("t1")
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Nil(t, table.take(first), "it has expired")
		whose := table.take(second)
		require.Equal(t, "t1", whose.GetTenantId())

		for range maxTenantTickets {
			_, err := put("t1")
			require.NoError(t, err)
		}
		_, err = put("t1")
		require.Equal(t, codes.ResourceExhausted, grpcstatus.Code(call.ToStatus(err)))
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

		// Used tickets leave nothing behind, although an unused one is older.
		for range 10_000 {
			digest, err := put("t2")
			require.NoError(t, err)
			require.NotNil(t, table.take(digest))
		}
		require.Len(t, table.waiting, 1)
		time.Sleep(ticketLife)
		table.take(first)
		require.Empty(t, table.byAge)
	})
}

// A term begins without tickets, and there are none without a leader: tickets of an earlier term cannot be used.
func TestStreamTickets_areOfOneTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{})
		digest := sha256.Sum256([]byte("ticket"))
		ctx := call.With(t.Context(), &call.Call{Tenant: "t1"})
		create := func() error {
			_, err := s.CreateStreamTicket(ctx, &v1.CreateStreamTicketRequest{Digest: digest[:], Ticket: &v1.StreamTicket{}})
			return err
		}
		redeem := func() error {
			_, err := s.RedeemStreamTicket(ctx, &v1.RedeemStreamTicketRequest{Digest: digest[:]})
			return err
		}
		lead := func() (end func()) {
			term, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				s.Lead(term)
			}()
			synctest.Wait()
			return func() {
				cancel()
				<-ended
			}
		}
		notLeading := func(err error) { require.True(t, call.MayRepeat(err), err) }
		notLeading(create())
		end := lead()
		require.NoError(t, create())
		end()
		notLeading(create())
		notLeading(redeem())
		end = lead()
		require.Equal(t, codes.NotFound, grpcstatus.Code(call.ToStatus(redeem())))
		require.NoError(t, create())
		require.NoError(t, redeem())
		end()
	})
}
