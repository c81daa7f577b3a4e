package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/gateway/wire"
)

// problem is an answer that is an error.
type problem struct {
	http       int
	code       string // error.code
	message    string
	details    []wire.Fault
	retryAfter int // seconds; 0: none
	// reason is the label under which a denial is counted; empty: the code.
	reason string
	// more has further members of an error without an envelope: JSON, each with a comma before it.
	more []byte
	// coordinators: the coordinators refused the request, and recorded that themselves.
	coordinators bool
}

func (p *problem) Error() string { return p.code + ": " + p.message }

// invalid returns a 422 about one field, parameter or header.
func invalid(field, message string) *problem {
	return invalidBody([]wire.Fault{{Field: field, Message: message}})
}

func invalidBody(faults []wire.Fault) *problem {
	message := faults[0].Message
	if faults[0].Field != "" {
		message = faults[0].Field + ": " + message
	}
	if n := len(faults); n > 1 {
		message += " (and " + strconv.Itoa(n-1) + " more)"
	}
	return &problem{http: http.StatusUnprocessableEntity, code: "VALIDATION_ERROR", message: message, details: faults}
}

// ok answers with a message as data.
func (x *httpRequest) ok(m proto.Message) {
	x.data(func(b []byte) []byte { return wire.Append(b, m, x.hides()) })
}

// data answers with the data that appendData writes.
func (x *httpRequest) data(appendData func([]byte) []byte) {
	buf := bodies.Get().(*[]byte)
	b := (*buf)[:0]
	if !x.route.Bare {
		b = append(b, `{"status":"ok","data":`...)
	}
	start := len(b)
	b = appendData(b)
	x.made = len(b) - start
	if x.unchanged(b[start:]) {
		*buf = b
		x.empty(http.StatusNotModified)
	} else {
		if x.route.Bare {
			b = append(b, '\n')
		} else {
			b = x.appendMeta(b)
		}
		*buf = b
		x.send(x.route.Code, b)
	}
	release(buf)
}

// unchanged sets the entity tag of an answer to a GET, and reports whether the caller has the same data already. The tag is
// that of the data alone: the request id differs each time. It is weak, because the answer may be compressed.
func (x *httpRequest) unchanged(data []byte) bool {
	if x.r.Method != http.MethodGet && x.r.Method != http.MethodHead || x.route.Code != http.StatusOK {
		return false
	}
	sum := sha256.Sum256(data)
	tag := `W/"` + hex.EncodeToString(sum[:16]) + `"`
	h := x.w.Header()
	if h.Get(headerETag) != "" {
		return false // The handler has set the tag that the caller sends back with a change.
	}
	h[headerETag] = []string{tag}
	// A cache asks again before each use.
	h["Cache-Control"] = cachePrivately
	for _, line := range x.r.Header[headerIfNoneMatch] {
		for known := range strings.SplitSeq(line, ",") {
			if known = strings.TrimSpace(known); known == tag || known == tag[len("W/"):] || known == "*" {
				return true
			}
		}
	}
	return false
}

// refuse answers with an error.
func (x *httpRequest) refuse(p *problem) {
	x.noteDenial(p)
	buf := bodies.Get().(*[]byte)
	b := (*buf)[:0]
	if x.route.Bare {
		b = append(appendBare(append(b, `{"detail":`...), p), '}', '\n')
	} else {
		b = append(b, `{"status":"error","error":`...)
		b = appendProblem(b, p)
		b = x.appendMeta(b)
	}
	*buf = b
	if p.retryAfter > 0 {
		x.w.Header()["Retry-After"] = []string{strconv.Itoa(p.retryAfter)}
	}
	if p.http == http.StatusUnauthorized {
		x.w.Header()["Www-Authenticate"] = []string{"Bearer"}
	}
	x.send(p.http, b)
	release(buf)
}

func appendProblem(b []byte, p *problem) []byte {
	return appendFaults(wire.AppendString(append(b, `{"code":`...), p.code), p)
}

// appendBare writes an error as ScaiFlow published it: its codes are in lower case.
func appendBare(b []byte, p *problem) []byte {
	b = wire.AppendString(append(b, `{"error":`...), strings.ToLower(p.code))
	if len(p.more) == 0 {
		return appendFaults(b, p)
	}
	b = appendFaults(b, p)
	return append(append(b[:len(b)-1], p.more...), '}')
}

// appendFaults completes an error after its code.
func appendFaults(b []byte, p *problem) []byte {
	b = append(b, `,"message":`...)
	b = wire.AppendString(b, p.message)
	if len(p.details) > 0 {
		b = append(b, `,"details":[`...)
		for i, f := range p.details {
			if i > 0 {
				b = append(b, ',')
			}
			if f.Field == "" {
				f.Field = "body"
			}
			b = append(b, `{"field":`...)
			b = wire.AppendString(b, f.Field)
			b = append(b, `,"message":`...)
			b = wire.AppendString(b, f.Message)
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	if p.retryAfter > 0 {
		b = append(b, `,"retry_after":`...)
		b = strconv.AppendInt(b, int64(p.retryAfter), 10)
	}
	return append(b, '}')
}

func (x *httpRequest) appendMeta(b []byte) []byte {
	b = append(b, `,"meta":{"request_id":`...)
	b = wire.AppendString(b, x.requestID)
	return append(b, "}}\n"...)
}

var (
	contentTypeJSON = []string{"application/json"}
	cachePrivately  = []string{"private, no-cache"}
)

func (x *httpRequest) send(code int, body []byte) {
	h := x.w.Header()
	h["Content-Type"] = contentTypeJSON
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	x.mark(h)
	x.code = code
	x.w.WriteHeader(code)
	_, _ = x.w.Write(body) // the caller is gone
}

// nothing answers with headers only.
func (x *httpRequest) nothing() { x.empty(http.StatusNoContent) }

func (x *httpRequest) empty(code int) {
	x.mark(x.w.Header())
	x.code = code
	x.w.WriteHeader(code)
}

// mark sets the headers of every answer. An answer that reflects no state carries the newest index that this gateway has
// seen.
func (x *httpRequest) mark(h http.Header) {
	h[headerRequestID] = []string{x.requestID}
	index := x.server.sawIndex(x.answer.Index)
	h[headerIndex] = []string{strconv.FormatUint(index, 10)}
}
