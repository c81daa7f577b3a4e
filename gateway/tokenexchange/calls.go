package tokenexchange

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/mindcoordinator/mind/api/client"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// Calls adds tokens to the calls that requests cause.
type Calls struct {
	Exchanger *Exchanger
	// IssuedOnly lets callers whose tokens cannot be exchanged continue without exchanged tokens; otherwise they are refused.
	IssuedOnly bool
}

// AddTokens adds tokens for ScaiDrive and ScaiAtlas to the call, and returns its remaining timeout.
func (c Calls) AddTokens(x *rest.Request, call *client.Call, limit time.Duration) (time.Duration, error) {
	s := x.Server
	if !x.Caller.Issued {
		if c.IssuedOnly {
			s.Metrics.Exchanges.WithLabelValues("skipped").Inc()
			return limit, nil
		}
		if x.Caller.Session != nil {
			return 0, failed(x, "session", errNotExchangeable)
		}
		return 0, failed(x, "not_exchangeable", errNotExchangeable)
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(x.R.Context(), limit)
	defer cancel()
	tokens, err := c.Exchanger.Mint(ctx, rest.Bearer(x.R))
	took := time.Since(start)
	s.Metrics.ExchangeSeconds.Observe(took.Seconds())
	switch {
	case err == nil:
		s.Metrics.Exchanges.WithLabelValues("ok").Inc()
		call.DriveToken, call.AtlasToken = tokens.Drive, tokens.Atlas
		return limit - took, nil
	case errors.Is(err, ErrRefused):
		return 0, failed(x, "refused", err)
	case errors.Is(err, ErrUnreachable):
		return 0, failed(x, "unreachable", err)
	}
	return 0, failed(x, "bad_answer", err)
}

var errNotExchangeable = errors.New("the issuer did not issue the caller's token")

// failureText has the messages for callers; the log has the details.
var failureText = map[string]string{
	"not_exchangeable": "an API token cannot be exchanged; use the token of your sign-in (a JSON web token of the issuer)",
	"session":          "a session has no token to exchange; send the token of your sign-in (a JSON web token of the issuer) in an Authorization header",
	"refused":          "the authorization server refused your token; sign in again, and if that does not help, contact its operators",
	"unreachable":      "the authorization server cannot be reached now; try again",
	"bad_answer":       "the authorization server's answer was not valid; the gateway's log has the details under the request id",
}

// failed returns the published answer: 500, whatever the reason.
func failed(x *rest.Request, outcome string, err error) *rest.Problem {
	x.Server.Metrics.Exchanges.WithLabelValues(outcome).Inc()
	if x.R.Context().Err() == nil { // otherwise the caller hung up, which is not a failure
		x.Server.Log.LogAttrs(x.R.Context(), slog.LevelWarn, "a token exchange failed", slog.String("event", "scaimind_token_exchange_failed"),
			slog.String("request_id", x.RequestID), slog.String("tenant_id", x.Tenant()), slog.String("route", x.Route.Name),
			slog.String("outcome", outcome), slog.String("raw_detail", err.Error()))
	}
	return &rest.Problem{
		HTTP: http.StatusInternalServerError, Code: "TOKEN_EXCHANGE_FAILED",
		Message: "cannot get a token for ScaiDrive and ScaiAtlas: " + failureText[outcome],
	}
}
