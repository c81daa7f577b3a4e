package rest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/api/client"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/param"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// Headers of the REST interface.
const (
	HeaderRequestID      = "X-Request-Id"
	HeaderIndex          = "X-Mind-Index"
	HeaderIdempotencyKey = "Idempotency-Key"
	HeaderTimeout        = "X-Request-Timeout"
	HeaderConsistency    = "X-Mind-Consistency"
	HeaderLastEventID    = "Last-Event-Id"
	HeaderETag           = "Etag"
	HeaderIfNoneMatch    = "If-None-Match"
	HeaderIfMatch        = "If-Match"
)

// Request is one request of a caller and its answer.
type Request struct {
	Server    *Server
	Route     *Route
	W         http.ResponseWriter
	R         *http.Request
	RequestID string
	// Caller has the names and permissions of the caller; nil on a route that needs no token.
	Caller *auth.Caller
	// Credential is the SHA-256 of the token behind the request, and Recheck checks it again.
	Credential [sha256.Size]byte
	Recheck    func(context.Context) (*auth.Caller, error)
	// RecheckEvery is how often a stream does that, at least; 0: as the configuration says.
	RecheckEvery time.Duration

	// Needs are permissions that a stream takes beside that of its route, one of each list.
	Needs [][]string

	// Answer is filled in by the call to a coordinator.
	Answer client.Answer
	Code   int // of the answer; 0: not started
	Made   int // size of the answer's data, whether it was sent or not

	heedsIfMatch bool // the handler has read the header If-Match
}

// NewRequest returns a request of a route, with its id.
func NewRequest(server *Server, route *Route, w http.ResponseWriter, r *http.Request) *Request {
	return &Request{Server: server, Route: route, W: w, R: r, RequestID: requestIDOf(r)}
}

// Call returns the context for the one call that this request causes.
func (x *Request) Call() (context.Context, context.CancelFunc, error) {
	call, limit, err := x.Prepare()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(x.R.Context(), limit)
	return client.WithCall(ctx, call), cancel, nil
}

// Prepare returns the options and the timeout of the call. Writes always carry an idempotency key, created here if the
// caller gave none, so that the client may repeat a call whose outcome is unknown.
func (x *Request) Prepare() (call client.Call, limit time.Duration, err error) {
	timeouts := x.Server.Timeouts
	limit, retryFor := timeouts.Request, timeouts.NoLeader
	if raw := x.R.Header.Get(HeaderTimeout); raw != "" {
		seconds, err := strconv.ParseFloat(raw, 64)
		if err != nil || !(seconds > 0) || seconds > timeouts.MaxRequest.Seconds() {
			return call, 0, Invalid(HeaderTimeout, fmt.Sprintf("must be seconds, more than 0 and at most %g", timeouts.MaxRequest.Seconds()))
		}
		limit = time.Duration(seconds * float64(time.Second))
		retryFor = limit
	}
	call = client.Call{
		Tenant: x.Caller.Tenant, User: x.Caller.User, Token: x.Caller.Token, RequestID: x.RequestID, RetryFor: retryFor, Answer: &x.Answer,
		Operator: x.Route.Operator != "" && x.Caller.May(x.Route.Operator),
	}
	if x.Route.Write || x.Route.Bare { // Rights on flows are of groups, also to read.
		call.Member = x.Caller.Member
	}
	if x.Route.Write {
		if err := x.noCondition(); err != nil {
			return call, 0, err
		}
		call.IdempotencyKey, err = x.idempotencyKey()
	} else {
		call.Consistency, err = x.Consistency()
	}
	if limit > timeouts.Body {
		// Otherwise the server would mistake the end of its read timeout for the end of the caller.
		_ = http.NewResponseController(x.W).SetReadDeadline(time.Time{})
	}
	if err == nil && x.Server.Exchange != nil && x.Route.Tokens {
		limit, err = x.Server.Exchange(x, &call, limit)
	}
	return call, limit, err
}

// IfMatch is the header If-Match, for a request that heeds it.
func (x *Request) IfMatch() string {
	x.heedsIfMatch = true
	return x.R.Header.Get(HeaderIfMatch)
}

// noCondition refuses a write with a condition that nothing checks: its caller relies on it.
func (x *Request) noCondition() error {
	if x.R.Header.Get(HeaderIfMatch) != "" && !x.heedsIfMatch {
		return Invalid(HeaderIfMatch, "is not checked here: only PUT and DELETE of a flow take it (a Core has if_revision)")
	}
	if x.R.Header.Get(HeaderIfNoneMatch) != "" {
		return Invalid(HeaderIfNoneMatch, "is of GET and HEAD alone: leave it out")
	}
	return nil
}

func (x *Request) idempotencyKey() (string, error) {
	if len(x.R.Header[HeaderIdempotencyKey]) > 1 { // A proxy may have checked the other value.
		return "", Invalid(HeaderIdempotencyKey, "is given twice")
	}
	key := x.R.Header.Get(HeaderIdempotencyKey)
	if key == "" && len(x.R.Header[HeaderIdempotencyKey]) == 0 {
		// Never the request id: a caller may send one id with many requests.
		return status.AutoKeyPrefix + RandomID(), nil
	}
	if !wire.CallersKey(key) {
		return "", Invalid(HeaderIdempotencyKey, wire.KeyRule)
	}
	return key, nil
}

func (x *Request) Consistency() (string, error) {
	where, v := HeaderConsistency, x.R.Header.Get(HeaderConsistency)
	if v == "" {
		where, v = param.Consistency.Name, x.R.URL.Query().Get(param.Consistency.Name)
	}
	switch v {
	case "", status.Linearizable:
		return "", nil
	case status.Stale:
		return v, nil
	}
	return "", Invalid(where, "must be linearizable or stale")
}

const hexDigits = "0123456789abcdef"

func RandomID() string {
	var b [32]byte
	for half := range 2 {
		n := rand.Uint64()
		for i := range 16 {
			b[half*16+i] = hexDigits[n>>(4*i)&15]
		}
	}
	return string(b[:])
}

// Hides reports whether answers to this caller omit secrets. The coordinators cannot do this: they know the caller, but not
// the caller's permissions.
func (x *Request) Hides() bool {
	return x.Caller == nil || !x.Caller.May(x.Route.Secrets...)
}

// requestIDOf returns the caller's request id if it is valid.
func requestIDOf(r *http.Request) string {
	id := r.Header.Get(HeaderRequestID)
	if id == "" || len(id) > 128 {
		return "req_" + RandomID()[:20]
	}
	for i := range len(id) {
		c := id[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' || c == ':') {
			return "req_" + RandomID()[:20]
		}
	}
	return id
}

// Bearer returns the token of a request; empty: none, or of an unknown kind.
func Bearer(r *http.Request) string {
	const scheme = "bearer "
	headers := r.Header["Authorization"]
	if len(headers) != 1 { // A proxy may have checked the other one.
		return ""
	}
	header := headers[0]
	if len(header) <= len(scheme) || !strings.EqualFold(header[:len(scheme)], scheme) {
		return ""
	}
	return strings.TrimSpace(header[len(scheme):])
}
