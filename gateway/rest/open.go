package rest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/mindcoordinator/mind/gateway/auth"
)

// OpenStream counts a stream of the caller's tenant until release is called.
func (x *Request) OpenStream() (release func(), err error) {
	s := x.Server
	closed, err := s.Opened.Open(x.Caller.Tenant)
	if err != nil {
		return nil, &Problem{HTTP: http.StatusTooManyRequests, Code: "RESOURCE_EXHAUSTED", Message: err.Error(), RetryAfter: 5}
	}
	s.Streams.Add(1)
	return func() {
		closed()
		s.Streams.Done()
	}, nil
}

// Rechecks is how often the credential behind an answer that goes on is checked again.
func (x *Request) Rechecks() time.Duration {
	if x.RecheckEvery > 0 {
		return min(x.RecheckEvery, x.Server.Timeouts.StreamToken)
	}
	return x.Server.Timeouts.StreamToken
}

// MayGoOn returns nil while the token has the permissions that it had at the start. If that cannot be checked at the
// moment, it is checked later: an election does not end streams.
func (x *Request) MayGoOn(ctx context.Context) error {
	now, err := x.Recheck(auth.WithAddress(ctx, x.Server.Proxies.ClientOf(x.R)))
	switch {
	case errors.Is(err, auth.ErrInvalidToken), err == nil && (now.Tenant != x.Caller.Tenant || now.User != x.Caller.User):
		if x.Caller.Session != nil {
			return &Problem{HTTP: http.StatusUnauthorized, Code: "AUTH_TOKEN_INVALID", Message: "the session has ended: sign in again, and resume after the last id"}
		}
		return &Problem{HTTP: http.StatusUnauthorized, Code: "AUTH_TOKEN_INVALID", Message: "the token expired or was revoked: resume after the last id with a valid token"}
	case err == nil && len(x.Route.AnyOf) > 0 && !now.May(x.Route.AnyOf...),
		err == nil && slices.ContainsFunc(x.Needs, func(anyOf []string) bool { return !now.May(anyOf...) }):
		return &Problem{HTTP: http.StatusForbidden, Code: "AUTHZ_PERMISSION_DENIED", Message: "the token lost the permission to read this"}
	}
	return nil
}

// WhileAllowed returns a context that ends, with the reason as its cause, when the caller may not continue to read. The
// function ends the checks.
func (x *Request) WhileAllowed() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(x.R.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		every := time.NewTicker(x.Rechecks())
		defer every.Stop()
		for {
			select {
			case <-every.C:
			case <-ctx.Done():
				return
			}
			if err := x.MayGoOn(ctx); err != nil {
				cancel(err)
				return
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-ended
	}
}
