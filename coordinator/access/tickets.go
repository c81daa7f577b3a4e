package access

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
)

const (
	// ticketLife is how long a ticket is valid.
	ticketLife = time.Minute
	// maxTickets and maxTenantTickets limit the unused tickets.
	maxTickets       = 50_000
	maxTenantTickets = 5_000
	// maxTicketPermissions limits the data that a ticket keeps about its owner.
	maxTicketPermissions = 64
)

type ticketDigest [sha256.Size]byte

// streamTickets are the unused tickets of one term. They exist only in the memory of the term's leader. So no ticket
// can be used twice, even if that leader fails, and none outlives the term (docs/decisions/0007).
type streamTickets struct {
	mu      sync.Mutex
	waiting map[ticketDigest]*streamTicket
	tenants map[string]int
	// byAge has the digests in the order of their expiry, including used ones.
	byAge []*streamTicket
}

type streamTicket struct {
	digest  ticketDigest
	whose   *v1.StreamTicket
	expires time.Time
}

func newStreamTickets() *streamTickets {
	return &streamTickets{waiting: map[ticketDigest]*streamTicket{}, tenants: map[string]int{}}
}

// put stores a ticket, and returns when it expires.
func (t *streamTickets) put(digest ticketDigest, whose *v1.StreamTicket) (time.Time, error) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(now)
	if len(t.waiting) >= maxTickets || t.tenants[whose.GetTenantId()] >= maxTenantTickets {
		return time.Time{}, call.Errorf(codes.ResourceExhausted, "too many unused tickets (at most %d per tenant): use them, or wait until they expire", maxTenantTickets)
	}
	if t.waiting[digest] != nil { // the same call, repeated
		return t.waiting[digest].expires, nil
	}
	ticket := &streamTicket{digest, whose, now.Add(ticketLife)}
	t.waiting[digest] = ticket
	t.tenants[whose.GetTenantId()]++
	t.byAge = append(t.byAge, ticket)
	return ticket.expires, nil
}

// take removes a ticket and returns it; nil: there is none.
func (t *streamTickets) take(digest ticketDigest) *v1.StreamTicket {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(now)
	ticket := t.waiting[digest]
	if ticket == nil {
		return nil
	}
	t.drop(ticket)
	return ticket.whose
}

// sweep removes expired tickets.
func (t *streamTickets) sweep(now time.Time) {
	for len(t.byAge) > 0 && (!now.Before(t.byAge[0].expires) || t.waiting[t.byAge[0].digest] != t.byAge[0]) {
		if old := t.byAge[0]; t.waiting[old.digest] == old {
			t.drop(old)
		}
		t.byAge[0] = nil
		t.byAge = t.byAge[1:]
	}
}

func (t *streamTickets) drop(ticket *streamTicket) {
	delete(t.waiting, ticket.digest)
	tenant := ticket.whose.GetTenantId()
	if t.tenants[tenant]--; t.tenants[tenant] == 0 {
		delete(t.tenants, tenant)
	}
}

// CreateStreamTicket stores a ticket that a gateway issued for one of its callers.
func (s *Service) CreateStreamTicket(ctx context.Context, req *v1.CreateStreamTicketRequest) (*v1.CreateStreamTicketResponse, error) {
	if len(req.GetDigest()) != sha256.Size {
		return nil, call.Bad("digest", "must be the SHA-256 of the ticket")
	}
	c, whose := call.Of(ctx), req.GetTicket()
	if whose == nil || len(whose.GetPermissions()) > maxTicketPermissions || len(whose.GetTokenDigest()) > sha256.Size {
		return nil, call.Bad("ticket", "must name its tenant and user")
	}
	whose.TenantId, whose.UserId, whose.TokenId = c.Tenant, c.User, c.Token
	term := s.term.Load()
	if term == nil {
		return nil, errNotLeading
	}
	expires, err := term.tickets.put(ticketDigest(req.GetDigest()), whose)
	if err != nil {
		return nil, err
	}
	return &v1.CreateStreamTicketResponse{ExpiresAt: timestamppb.New(expires)}, nil
}

// RedeemStreamTicket returns the owner of a ticket, once.
func (s *Service) RedeemStreamTicket(_ context.Context, req *v1.RedeemStreamTicketRequest) (*v1.RedeemStreamTicketResponse, error) {
	if len(req.GetDigest()) != sha256.Size {
		return nil, call.Bad("digest", "must be the SHA-256 of the ticket")
	}
	term := s.term.Load()
	if term == nil {
		return nil, errNotLeading
	}
	whose := term.tickets.take(ticketDigest(req.GetDigest()))
	if whose == nil {
		return nil, call.Errorf(codes.NotFound, "the ticket does not exist, has expired or was used")
	}
	return &v1.RedeemStreamTicketResponse{Ticket: whose}, nil
}
