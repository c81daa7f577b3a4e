package credentials

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
	"github.com/mindcoordinator/mind/gateway/rest"
)

// createStreamTicket makes a ticket for the caller.
func (h *Handlers) createStreamTicket(x *rest.Request) error {
	if _, err := x.Decode(&v1.StreamTicketRequest{}, true); err != nil {
		return err
	}
	if x.Caller.Session != nil {
		return needsToken // Event streams take the cookie themselves.
	}
	ticket, digest := auth.MintTicket()
	whose := &v1.StreamTicket{Permissions: x.Caller.Permissions, TokenDigest: x.Credential[:], Issued: x.Caller.Issued}
	if !x.Caller.Expires.IsZero() {
		whose.TokenExpiresAt = timestamppb.New(x.Caller.Expires)
	}
	ctx, cancel, err := x.Call()
	if err != nil {
		return err
	}
	defer cancel()
	reply, err := h.tokens.CreateStreamTicket(ctx, &v1.CreateStreamTicketRequest{Digest: digest[:], Ticket: whose})
	if err != nil {
		return err
	}
	x.W.Header()["Cache-Control"] = []string{"no-store"}
	x.OK(&v1.NewStreamTicket{Ticket: ticket, ExpiresAt: reply.GetExpiresAt()})
	return nil
}

var badTicket = &rest.Problem{
	HTTP: http.StatusUnauthorized, Code: "AUTH_TOKEN_INVALID",
	Message: "the ticket is unknown, expired or used: get another one from POST /v1/stream-tickets",
}

// admitTicket finds the caller of a param.Ticket, which is used up.
func (h *Handlers) admitTicket(x *rest.Request, tickets []string) (*auth.Caller, *rest.Problem) {
	switch {
	case !x.Route.Stream || x.Route.Socket:
		return nil, &rest.Problem{HTTP: http.StatusUnauthorized, Code: "AUTH_TOKEN_MISSING", Message: "a ticket opens event streams only: send an Authorization header: Bearer TOKEN"}
	case len(tickets) > 1 || len(x.R.Header["Authorization"]) > 0: // a proxy may have checked the other one
		return nil, &rest.Problem{HTTP: http.StatusUnauthorized, Code: "AUTH_TOKEN_INVALID", Message: "send one param.Ticket, and no Authorization header with it"}
	}
	ctx := auth.WithAddress(x.R.Context(), x.Server.Proxies.ClientOf(x.R))
	whose, err := h.issued.RedeemTicket(ctx, tickets[0])
	if err != nil {
		return nil, unchecked(x, err, "ticket", badTicket)
	}
	x.Credential = [sha256.Size]byte(whose.GetTokenDigest())
	x.Recheck = auth.BehindTicket(h.known, whose)
	caller, err := x.Recheck(ctx)
	if err != nil {
		return nil, unchecked(x, err, "ticket", badTicket)
	}
	return caller, nil
}

// unchecked returns the answer for a credential that is invalid or cannot be checked.
func unchecked(x *rest.Request, err error, what string, invalid *rest.Problem) *rest.Problem {
	var guessed *auth.TooManyFailures
	switch {
	case errors.Is(err, auth.ErrInvalidToken):
		return invalid
	case errors.As(err, &guessed):
		return tooManyFailures(guessed.Wait, x.Server.Proxies.ClientOf(x.R))
	}
	x.Server.Log.LogAttrs(x.R.Context(), slog.LevelError, "cannot check a "+what, slog.String("event", "scaimind_coordinator_error"),
		slog.String("request_id", x.RequestID), slog.String("route", x.Route.Name), slog.String("raw_detail", err.Error()))
	message := "the " + what + " cannot be checked now; try again"
	if what == "ticket" {
		message = "the ticket cannot be checked now, and may be used up: try again with a new one"
	}
	return &rest.Problem{HTTP: http.StatusServiceUnavailable, Code: "UNAVAILABLE", Message: message, RetryAfter: 1}
}

func tooManyFailures(wait time.Duration, address string) *rest.Problem {
	seconds := max(1, int(math.Ceil(wait.Seconds())))
	return &rest.Problem{
		HTTP: http.StatusTooManyRequests, Code: "RATE_LIMITED", Reason: "UNKNOWN_TOKENS", RetryAfter: seconds,
		Message: fmt.Sprintf("too many unknown tokens from %s: try again in %d s; tokens that were valid here before are not affected", address, seconds),
	}
}
