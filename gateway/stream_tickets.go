package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/guesses"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// A browser's EventSource cannot send a token. A page that has one gets a ticket for it, and puts that into the URL of one event
// stream. The leader of the coordinators keeps tickets, so that one that was made at one gateway is good at each, and at one only.

const (
	// ticketStart is what tickets begin with.
	ticketStart = "sst_"
	queryTicket = "ticket"
	// redeemWithin is how long it may take to find out whose a ticket is.
	redeemWithin = 10 * time.Second
)

// createStreamTicket makes a ticket for the caller.
func createStreamTicket(x *exchange) error {
	if _, err := x.decode(&v1.StreamTicketRequest{}, true); err != nil {
		return err
	}
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	ticket := ticketStart + base64.RawURLEncoding.EncodeToString(secret[:])
	digest := sha256.Sum256([]byte(ticket))
	whose := &v1.StreamTicket{Permissions: x.caller.Permissions, TokenDigest: x.credential[:], Issued: x.caller.Issued}
	if !x.caller.Expires.IsZero() {
		whose.TokenExpiresAt = timestamppb.New(x.caller.Expires)
	}
	ctx, cancel, err := x.call()
	if err != nil {
		return err
	}
	defer cancel()
	reply, err := x.server.tokens.CreateStreamTicket(ctx, &v1.CreateStreamTicketRequest{Digest: digest[:], Ticket: whose})
	if err != nil {
		return err
	}
	x.w.Header()["Cache-Control"] = []string{"no-store"}
	x.ok(&v1.NewStreamTicket{Ticket: ticket, ExpiresAt: reply.GetExpiresAt()})
	return nil
}

var badTicket = &problem{
	http: http.StatusUnauthorized, code: "AUTH_TOKEN_INVALID",
	message: "the ticket is unknown, expired or used: get another one from POST /v1/stream-tickets",
}

// admitTicket says who comes with a ticket, which is used up by that.
func (s *server) admitTicket(x *exchange, tickets []string) (*Caller, *problem) {
	switch {
	case !x.route.stream:
		return nil, &problem{http: http.StatusUnauthorized, code: "AUTH_TOKEN_MISSING", message: "a ticket opens event streams only: send an Authorization header: Bearer TOKEN"}
	case len(tickets) > 1 || len(x.r.Header["Authorization"]) > 0: // Whoever stands in front may have looked at another one.
		return nil, &problem{http: http.StatusUnauthorized, code: "AUTH_TOKEN_INVALID", message: "send one ticket, and no Authorization header with it"}
	case !strings.HasPrefix(tickets[0], ticketStart):
		return nil, badTicket
	}
	ctx := withAddress(x.r.Context(), s.proxies.clientOf(x.r))
	whose, err := s.redeem(ctx, sha256.Sum256([]byte(tickets[0])))
	if err != nil {
		return nil, s.unchecked(x, err, "ticket", badTicket)
	}
	x.credential = [sha256.Size]byte(whose.GetTokenDigest())
	x.recheck = s.tokenOf(whose)
	caller, err := x.recheck(ctx)
	if err != nil {
		return nil, s.unchecked(x, err, "ticket", badTicket)
	}
	return caller, nil
}

// redeem asks the leader whose a ticket is, and takes it away. One that nobody knows is a guess.
func (s *server) redeem(ctx context.Context, digest [sha256.Size]byte) (*v1.StreamTicket, error) {
	look, wait := s.issued.guesses.Begin(time.Now(), addressOf(ctx), digest)
	if look == nil {
		return nil, &tooManyGuesses{wait}
	}
	ctx, cancel := context.WithTimeout(ctx, redeemWithin)
	defer cancel()
	reply, err := s.tokens.RedeemStreamTicket(client.WithCall(ctx, client.Call{RetryFor: redeemWithin}), &v1.RedeemStreamTicketRequest{Digest: digest[:]})
	switch {
	case err == nil && len(reply.GetTicket().GetTokenDigest()) == sha256.Size:
		look.Done(guesses.Good)
		return reply.GetTicket(), nil
	case err == nil, grpcstatus.Code(err) == codes.NotFound:
		look.Done(guesses.Bad)
		return nil, ErrInvalidToken
	}
	look.Done(guesses.Undecided)
	return nil, err
}

// tokenOf looks at the token behind a ticket, when the stream is opened and again and again: the ticket gives what the token does.
func (s *server) tokenOf(whose *v1.StreamTicket) func(context.Context) (*Caller, error) {
	digests, known := s.auth.(DigestAuthenticator)
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

// unchecked is the answer when a credential is not good, or nobody can say.
func (s *server) unchecked(x *exchange, err error, what string, invalid *problem) *problem {
	var guessed *tooManyGuesses
	switch {
	case errors.Is(err, ErrInvalidToken):
		return invalid
	case errors.As(err, &guessed):
		return guessed.problem(s.proxies.clientOf(x.r))
	}
	s.log.LogAttrs(x.r.Context(), slog.LevelError, "cannot check a "+what, slog.String("event", "scaimind_coordinator_error"),
		slog.String("request_id", x.requestID), slog.String("route", x.route.name), slog.String("raw_detail", err.Error()))
	message := "the token cannot be checked now; try again"
	if what == "ticket" {
		message = "the ticket cannot be checked now, and may be used up: try again with a new one"
	}
	return &problem{http: http.StatusServiceUnavailable, code: "UNAVAILABLE", message: message, retryAfter: 1}
}
