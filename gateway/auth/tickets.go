package auth

import (
	"context"
	"crypto/sha256"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/authlimit"
)

// A browser's EventSource cannot send a token. A page that has a token gets a ticket for it, and puts the ticket into the
// URL of one event stream. The leader keeps the tickets, so a ticket made at one gateway is valid at every gateway, but
// only once.

const (
	// TicketStart is the prefix of tickets.
	TicketStart = "sst_"
	// redeemWithin limits the time for redeeming a ticket.
	redeemWithin = 10 * time.Second
)

// MintTicket creates a random ticket, and the digest under which the coordinators keep it.
func MintTicket() (ticket string, digest [sha256.Size]byte) {
	ticket = mint(TicketStart)
	return ticket, sha256.Sum256([]byte(ticket))
}

// RedeemTicket redeems a ticket at the leader, which removes it. An unknown ticket counts as a guess.
func (t *APITokens) RedeemTicket(ctx context.Context, ticket string) (*v1.StreamTicket, error) {
	if !strings.HasPrefix(ticket, TicketStart) {
		return nil, ErrInvalidToken
	}
	digest := sha256.Sum256([]byte(ticket))
	look, wait := t.limit.Begin(time.Now(), AddressOf(ctx), digest)
	if look == nil {
		return nil, &TooManyFailures{wait}
	}
	ctx, cancel := context.WithTimeout(ctx, redeemWithin)
	defer cancel()
	reply, err := t.service.RedeemStreamTicket(client.WithCall(ctx, client.Call{RetryFor: redeemWithin}), &v1.RedeemStreamTicketRequest{Digest: digest[:]})
	switch {
	case err == nil && len(reply.GetTicket().GetTokenDigest()) == sha256.Size:
		look.Done(authlimit.Good)
		return reply.GetTicket(), nil
	case err == nil, grpcstatus.Code(err) == codes.NotFound:
		look.Done(authlimit.Bad)
		return nil, ErrInvalidToken
	}
	look.Done(authlimit.Undecided)
	return nil, err
}

// BehindTicket returns a function that checks the token behind a ticket. It is called when the stream opens and
// periodically: a ticket allows only what its token allows.
func BehindTicket(who Authenticator, whose *v1.StreamTicket) func(context.Context) (*Caller, error) {
	digests, known := who.(DigestAuthenticator)
	return func(ctx context.Context) (*Caller, error) {
		if !whose.GetIssued() && known {
			now, err := digests.AuthenticateDigest(ctx, [sha256.Size]byte(whose.GetTokenDigest()))
			if err == nil && (now.Tenant != whose.GetTenantId() || now.User != whose.GetUserId()) {
				return nil, ErrInvalidToken
			}
			return now, err
		}
		if ends := whose.GetTokenExpiresAt(); ends != nil && !time.Now().Before(ends.AsTime()) {
			return nil, ErrInvalidToken
		}
		return &Caller{
			Tenant: whose.GetTenantId(), User: whose.GetUserId(), Permissions: whose.GetPermissions(), Issued: whose.GetIssued(), Token: whose.GetTokenId(),
		}, nil
	}
}
