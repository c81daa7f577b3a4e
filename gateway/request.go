package gateway

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/api/client"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// Headers of the REST interface.
const (
	headerRequestID      = "X-Request-Id"
	headerIndex          = "X-Mind-Index"
	headerIdempotencyKey = "Idempotency-Key"
	headerTimeout        = "X-Request-Timeout"
	headerConsistency    = "X-Mind-Consistency"
	queryConsistency     = "consistency" // for callers that cannot set a header
	headerLastEventID    = "Last-Event-Id"
	headerETag           = "Etag"
	headerIfNoneMatch    = "If-None-Match"
	headerIfMatch        = "If-Match"
)

// httpRequest is one request of a caller and its answer.
type httpRequest struct {
	server    *server
	route     *route
	w         http.ResponseWriter
	r         *http.Request
	requestID string
	caller    *auth.Caller
	// credential is the SHA-256 of the token behind the request, and recheck checks it again.
	credential [sha256.Size]byte
	recheck    func(context.Context) (*auth.Caller, error)

	// needs are permissions that a stream takes beside that of its route, one of each list.
	needs [][]string

	stale  string // consistency of a stream's start; empty: linearizable
	answer client.Answer
	code   int // of the answer; 0: not started
	made   int // size of the answer's data, whether it was sent or not

	heedsIfMatch bool // the handler has read the header If-Match
}

// call returns the context for the one call that this request causes.
func (x *httpRequest) call() (context.Context, context.CancelFunc, error) {
	call, limit, err := x.prepare()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), limit)
	return client.WithCall(ctx, call), cancel, nil
}

// prepare returns the options and the timeout of the call. Writes always carry an idempotency key, created here if the
// caller gave none, so that the client may repeat a call whose outcome is unknown.
func (x *httpRequest) prepare() (call client.Call, limit time.Duration, err error) {
	timeouts := x.server.config.Timeouts
	limit, retryFor := timeouts.Request, timeouts.NoLeader
	if raw := x.r.Header.Get(headerTimeout); raw != "" {
		seconds, err := strconv.ParseFloat(raw, 64)
		if err != nil || !(seconds > 0) || seconds > timeouts.MaxRequest.Seconds() {
			return call, 0, invalid(headerTimeout, fmt.Sprintf("must be seconds, more than 0 and at most %g", timeouts.MaxRequest.Seconds()))
		}
		limit = time.Duration(seconds * float64(time.Second))
		retryFor = limit
	}
	call = client.Call{
		Tenant: x.caller.Tenant, User: x.caller.User, Token: x.caller.Token, RequestID: x.requestID, RetryFor: retryFor, Answer: &x.answer,
		Operator: x.route.operator != "" && x.caller.May(x.route.operator),
	}
	if x.route.write || x.route.Bare { // Rights on flows are of groups, also to read.
		call.Member = x.caller.Member
	}
	if x.route.write {
		if err := x.noCondition(); err != nil {
			return call, 0, err
		}
		call.IdempotencyKey, err = x.idempotencyKey()
	} else {
		call.Consistency, err = x.consistency()
	}
	if limit > timeouts.Body {
		// Otherwise the server would mistake the end of its read timeout for the end of the caller.
		_ = http.NewResponseController(x.w).SetReadDeadline(time.Time{})
	}
	if err == nil && x.server.exchanger != nil && x.route.tokens {
		limit, err = x.exchangeToken(&call, limit)
	}
	return call, limit, err
}

// ifMatch is the header If-Match, for a request that heeds it.
func (x *httpRequest) ifMatch() string {
	x.heedsIfMatch = true
	return x.r.Header.Get(headerIfMatch)
}

// noCondition refuses a write with a condition that nothing checks: its caller relies on it.
func (x *httpRequest) noCondition() error {
	if x.r.Header.Get(headerIfMatch) != "" && !x.heedsIfMatch {
		return invalid(headerIfMatch, "is not checked here: only PUT and DELETE of a flow take it (a Core has if_revision)")
	}
	if x.r.Header.Get(headerIfNoneMatch) != "" {
		return invalid(headerIfNoneMatch, "is of GET and HEAD alone: leave it out")
	}
	return nil
}

func (x *httpRequest) idempotencyKey() (string, error) {
	if len(x.r.Header[headerIdempotencyKey]) > 1 { // A proxy may have checked the other value.
		return "", invalid(headerIdempotencyKey, "is given twice")
	}
	key := x.r.Header.Get(headerIdempotencyKey)
	if key == "" && len(x.r.Header[headerIdempotencyKey]) == 0 {
		// Never the request id: a caller may send one id with many requests.
		return status.AutoKeyPrefix + randomID(), nil
	}
	if !wire.CallersKey(key) {
		return "", invalid(headerIdempotencyKey, wire.KeyRule)
	}
	return key, nil
}

func (x *httpRequest) consistency() (string, error) {
	where, v := headerConsistency, x.r.Header.Get(headerConsistency)
	if v == "" {
		where, v = queryConsistency, x.r.URL.Query().Get(queryConsistency)
	}
	switch v {
	case "", status.Linearizable:
		return "", nil
	case status.Stale:
		return v, nil
	}
	return "", invalid(where, "must be linearizable or stale")
}

const hexDigits = "0123456789abcdef"

func randomID() string {
	var b [32]byte
	for half := range 2 {
		n := rand.Uint64()
		for i := range 16 {
			b[half*16+i] = hexDigits[n>>(4*i)&15]
		}
	}
	return string(b[:])
}

// hides reports whether answers to this caller omit secrets. The coordinators cannot do this: they know the caller, but not
// the caller's permissions.
func (x *httpRequest) hides() bool {
	return x.caller == nil || !x.caller.May(x.route.secrets...)
}

// requestIDOf returns the caller's request id if it is valid.
func requestIDOf(r *http.Request) string {
	id := r.Header.Get(headerRequestID)
	if id == "" || len(id) > 128 {
		return "req_" + randomID()[:20]
	}
	for i := range len(id) {
		c := id[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' || c == ':') {
			return "req_" + randomID()[:20]
		}
	}
	return id
}

// bodies holds buffers for request bodies and answers.
var bodies = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

// Larger buffers are left to the garbage collector.
const maxPooled = 256 << 10

func release(b *[]byte) {
	if cap(*b) <= maxPooled {
		*b = (*b)[:0]
		bodies.Put(b)
	}
}

// This much of an oversized body is still read: a caller that is still writing would not see the answer.
const maxDiscard = 16 << 20

// body reads the request body. The caller releases it.
func (x *httpRequest) body() (*[]byte, error) {
	if encoding := x.r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, &problem{
			http: http.StatusUnsupportedMediaType, code: "UNSUPPORTED_MEDIA_TYPE",
			message: fmt.Sprintf("the body is encoded as %s, and bodies are read as they are: send it without Content-Encoding", wire.Printable(encoding)),
		}
	}
	limit := x.route.bodyLimit(x.server.config.Limits)
	tooLarge := func() error {
		_, _ = io.CopyN(io.Discard, x.r.Body, maxDiscard)
		return &problem{
			http: http.StatusRequestEntityTooLarge, code: "PAYLOAD_TOO_LARGE",
			message: fmt.Sprintf("the body is larger than %d bytes", limit),
		}
	}
	if x.r.ContentLength > limit {
		return nil, tooLarge()
	}
	buf := bodies.Get().(*[]byte)
	b := (*buf)[:0]
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := x.r.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		*buf = b
		if int64(len(b)) > limit {
			release(buf)
			return nil, tooLarge()
		}
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			release(buf)
			return nil, &problem{
				http: http.StatusBadRequest, code: "INVALID_ARGUMENT", message: "the body ended early or did not arrive in time",
			}
		}
	}
}
