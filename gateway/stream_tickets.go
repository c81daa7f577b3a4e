package gateway

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/auth"
)

// queryTicket is the parameter that carries a ticket.
const queryTicket = "ticket"

// createStreamTicket makes a ticket for the caller.
func createStreamTicket(x *httpRequest) error {
	if _, err := x.decode(&v1.StreamTicketRequest{}, true); err != nil {
		return err
	}
	if x.caller.Session != nil {
		return needsToken // Event streams take the cookie themselves.
	}
	ticket, digest := auth.MintTicket()
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

// admitTicket finds the caller of a ticket, which is used up.
func (s *server) admitTicket(x *httpRequest, tickets []string) (*auth.Caller, *problem) {
	switch {
	case !x.route.stream || x.route.socket:
		return nil, &problem{http: http.StatusUnauthorized, code: "AUTH_TOKEN_MISSING", message: "a ticket opens event streams only: send an Authorization header: Bearer TOKEN"}
	case len(tickets) > 1 || len(x.r.Header["Authorization"]) > 0: // a proxy may have checked the other one
		return nil, &problem{http: http.StatusUnauthorized, code: "AUTH_TOKEN_INVALID", message: "send one ticket, and no Authorization header with it"}
	}
	ctx := auth.WithAddress(x.r.Context(), s.proxies.ClientOf(x.r))
	whose, err := s.issued.RedeemTicket(ctx, tickets[0])
	if err != nil {
		return nil, s.unchecked(x, err, "ticket", badTicket)
	}
	x.credential = [sha256.Size]byte(whose.GetTokenDigest())
	x.recheck = auth.BehindTicket(s.auth, whose)
	caller, err := x.recheck(ctx)
	if err != nil {
		return nil, s.unchecked(x, err, "ticket", badTicket)
	}
	return caller, nil
}

// unchecked returns the answer for a credential that is invalid or cannot be checked.
func (s *server) unchecked(x *httpRequest, err error, what string, invalid *problem) *problem {
	var guessed *auth.TooManyFailures
	switch {
	case errors.Is(err, auth.ErrInvalidToken):
		return invalid
	case errors.As(err, &guessed):
		return tooManyFailures(guessed.Wait, s.proxies.ClientOf(x.r))
	}
	s.log.LogAttrs(x.r.Context(), slog.LevelError, "cannot check a "+what, slog.String("event", "scaimind_coordinator_error"),
		slog.String("request_id", x.requestID), slog.String("route", x.route.name), slog.String("raw_detail", err.Error()))
	message := "the " + what + " cannot be checked now; try again"
	if what == "ticket" {
		message = "the ticket cannot be checked now, and may be used up: try again with a new one"
	}
	return &problem{http: http.StatusServiceUnavailable, code: "UNAVAILABLE", message: message, retryAfter: 1}
}

func tooManyFailures(wait time.Duration, address string) *problem {
	seconds := max(1, int(math.Ceil(wait.Seconds())))
	return &problem{
		http: http.StatusTooManyRequests, code: "RATE_LIMITED", reason: "UNKNOWN_TOKENS", retryAfter: seconds,
		message: fmt.Sprintf("too many unknown tokens from %s: try again in %d s; tokens that were valid here before are not affected", address, seconds),
	}
}
