package rest

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/gateway/wire"
)

// OK answers with a message as data.
func (x *Request) OK(m proto.Message) {
	x.Data(func(b []byte) []byte { return wire.Append(b, m, x.Hides()) })
}

// Data answers with the data that appendData writes.
func (x *Request) Data(appendData func([]byte) []byte) {
	buf := bodies.Get().(*[]byte)
	b := (*buf)[:0]
	if !x.Route.Bare {
		b = append(b, `{"status":"ok","data":`...)
	}
	start := len(b)
	b = appendData(b)
	x.Made = len(b) - start
	if x.unchanged(b[start:]) {
		*buf = b
		x.Empty(http.StatusNotModified)
	} else {
		if x.Route.Bare {
			b = append(b, '\n')
		} else {
			b = x.appendMeta(b)
		}
		*buf = b
		x.Send(x.Route.Code, b)
	}
	Release(buf)
}

// unchanged sets the entity tag of an answer to a GET, and reports whether the caller has the same data already. The tag is
// that of the data alone: the request id differs each time. It is weak, because the answer may be compressed.
func (x *Request) unchanged(data []byte) bool {
	if x.R.Method != http.MethodGet && x.R.Method != http.MethodHead || x.Route.Code != http.StatusOK {
		return false
	}
	sum := sha256.Sum256(data)
	tag := `W/"` + hex.EncodeToString(sum[:16]) + `"`
	h := x.W.Header()
	if h.Get(HeaderETag) != "" {
		return false // The handler has set the tag that the caller sends back with a change.
	}
	h[HeaderETag] = []string{tag}
	// A cache asks again before each use.
	h["Cache-Control"] = cachePrivately
	for _, line := range x.R.Header[HeaderIfNoneMatch] {
		for known := range strings.SplitSeq(line, ",") {
			if known = strings.TrimSpace(known); known == tag || known == tag[len("W/"):] || known == "*" {
				return true
			}
		}
	}
	return false
}

// Refuse answers with an error.
func (x *Request) Refuse(p *Problem) {
	x.NoteDenial(p)
	buf := bodies.Get().(*[]byte)
	b := (*buf)[:0]
	if x.Route.Bare {
		b = append(p.appendBare(append(b, `{"detail":`...)), '}', '\n')
	} else {
		b = append(b, `{"status":"error","error":`...)
		b = p.Append(b)
		b = x.appendMeta(b)
	}
	*buf = b
	if p.RetryAfter > 0 {
		x.W.Header()["Retry-After"] = []string{strconv.Itoa(p.RetryAfter)}
	}
	if p.HTTP == http.StatusUnauthorized {
		x.W.Header()["Www-Authenticate"] = []string{"Bearer"}
	}
	x.Send(p.HTTP, b)
	Release(buf)
}

func (x *Request) appendMeta(b []byte) []byte {
	b = append(b, `,"meta":{"request_id":`...)
	b = wire.AppendString(b, x.RequestID)
	return append(b, "}}\n"...)
}

var (
	contentTypeJSON = []string{"application/json"}
	cachePrivately  = []string{"private, no-cache"}
)

func (x *Request) Send(code int, body []byte) {
	h := x.W.Header()
	h["Content-Type"] = contentTypeJSON
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	x.Mark(h)
	x.Code = code
	x.W.WriteHeader(code)
	_, _ = x.W.Write(body) // the caller is gone
}

// Nothing answers with headers only.
func (x *Request) Nothing() { x.Empty(http.StatusNoContent) }

func (x *Request) Empty(code int) {
	x.Mark(x.W.Header())
	x.Code = code
	x.W.WriteHeader(code)
}

// Mark sets the headers of every answer. An answer that reflects no state carries the newest index that this gateway has
// seen.
func (x *Request) Mark(h http.Header) {
	h[HeaderRequestID] = []string{x.RequestID}
	index := x.Server.sawIndex(x.Answer.Index)
	h[HeaderIndex] = []string{strconv.FormatUint(index, 10)}
}
