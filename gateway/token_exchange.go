package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/mindcoordinator/mind/api/client"
	"github.com/mindcoordinator/mind/gateway/tokenexchange"
)

// exchangeToken adds tokens for ScaiDrive and ScaiAtlas to the call, and returns its remaining timeout.
func (x *httpRequest) exchangeToken(call *client.Call, limit time.Duration) (time.Duration, error) {
	s := x.server
	if !x.caller.Issued {
		if s.config.ExchangeIssuedOnly {
			s.metrics.Exchanges.WithLabelValues("skipped").Inc()
			return limit, nil
		}
		if x.caller.Session != nil {
			return 0, x.exchangeFailed("session", errNotExchangeable)
		}
		return 0, x.exchangeFailed("not_exchangeable", errNotExchangeable)
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(x.r.Context(), limit)
	defer cancel()
	tokens, err := s.exchanger.Mint(ctx, bearer(x.r))
	took := time.Since(start)
	s.metrics.ExchangeSeconds.Observe(took.Seconds())
	switch {
	case err == nil:
		s.metrics.Exchanges.WithLabelValues("ok").Inc()
		call.DriveToken, call.AtlasToken = tokens.Drive, tokens.Atlas
		return limit - took, nil
	case errors.Is(err, tokenexchange.ErrRefused):
		return 0, x.exchangeFailed("refused", err)
	case errors.Is(err, tokenexchange.ErrUnreachable):
		return 0, x.exchangeFailed("unreachable", err)
	}
	return 0, x.exchangeFailed("bad_answer", err)
}

var errNotExchangeable = errors.New("the issuer did not issue the caller's token")

// exchangeFailureText has the messages for callers; the log has the details.
var exchangeFailureText = map[string]string{
	"not_exchangeable": "an API token cannot be exchanged; use the token of your sign-in (a JSON web token of the issuer)",
	"session":          "a session has no token to exchange; send the token of your sign-in (a JSON web token of the issuer) in an Authorization header",
	"refused":          "the authorization server refused your token; sign in again, and if that does not help, contact its operators",
	"unreachable":      "the authorization server cannot be reached now; try again",
	"bad_answer":       "the authorization server's answer was not valid; the gateway's log has the details under the request id",
}

// exchangeFailed returns the published answer: 500, whatever the reason.
func (x *httpRequest) exchangeFailed(outcome string, err error) *problem {
	x.server.metrics.Exchanges.WithLabelValues(outcome).Inc()
	if x.r.Context().Err() == nil { // otherwise the caller hung up, which is not a failure
		x.server.log.LogAttrs(x.r.Context(), slog.LevelWarn, "a token exchange failed", slog.String("event", "scaimind_token_exchange_failed"),
			slog.String("request_id", x.requestID), slog.String("tenant_id", x.tenant()), slog.String("route", x.route.name),
			slog.String("outcome", outcome), slog.String("raw_detail", err.Error()))
	}
	return &problem{
		http: http.StatusInternalServerError, code: "TOKEN_EXCHANGE_FAILED",
		message: "cannot get a token for ScaiDrive and ScaiAtlas: " + exchangeFailureText[outcome],
	}
}
