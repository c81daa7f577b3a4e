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

// mint puts tokens for ScaiDrive and ScaiAtlas into the call, and returns the time that is left for it.
func (x *exchange) mint(call *client.Call, limit time.Duration) (time.Duration, error) {
	s := x.server
	if !x.caller.Issued {
		if s.config.ExchangeIssuedOnly {
			s.metrics.Exchanges.WithLabelValues("skipped").Inc()
			return limit, nil
		}
		return 0, x.notMinted("not_exchangeable", errNotExchangeable)
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
		return 0, x.notMinted("refused", err)
	case errors.Is(err, tokenexchange.ErrUnreachable):
		return 0, x.notMinted("unreachable", err)
	}
	return 0, x.notMinted("bad_answer", err)
}

var errNotExchangeable = errors.New("the caller's token is none of the issuer's")

// notMintedWhy is what a caller is told; the log has the rest.
var notMintedWhy = map[string]string{
	"not_exchangeable": "an API token cannot be exchanged for one; use a token of your sign-in (a JSON web token of the issuer)",
	"refused":          "the authorization server does not give one for your token; sign in anew, and if that does not help, ask whoever runs it",
	"unreachable":      "the authorization server cannot be asked now; try again",
	"bad_answer":       "the authorization server gave none that can be used; the request id leads to the details in the gateway's log",
}

// notMinted answers as published: 500, whatever the reason.
func (x *exchange) notMinted(outcome string, err error) *problem {
	x.server.metrics.Exchanges.WithLabelValues(outcome).Inc()
	if x.r.Context().Err() == nil { // else the caller hung up, and nobody failed
		x.server.log.LogAttrs(x.r.Context(), slog.LevelWarn, "a token exchange failed", slog.String("event", "scaimind_token_exchange_failed"),
			slog.String("request_id", x.requestID), slog.String("tenant_id", x.tenant()), slog.String("route", x.route.name),
			slog.String("outcome", outcome), slog.String("raw_detail", err.Error()))
	}
	return &problem{
		http: http.StatusInternalServerError, code: "TOKEN_EXCHANGE_FAILED",
		message: "no token for ScaiDrive and ScaiAtlas could be had for you: " + notMintedWhy[outcome],
	}
}
