package rest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/gateway/wire"
)

// bodies holds buffers for request bodies and answers.
var bodies = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

// Larger buffers are left to the garbage collector.
const maxPooled = 256 << 10

// Release gives back a body that was read.
func Release(b *[]byte) {
	if cap(*b) <= maxPooled {
		*b = (*b)[:0]
		bodies.Put(b)
	}
}

// This much of an oversized body is still read: a caller that is still writing would not see the answer.
const maxDiscard = 16 << 20

// Body reads the request body. The caller releases it.
func (x *Request) Body() (*[]byte, error) {
	if encoding := x.R.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, &Problem{
			HTTP: http.StatusUnsupportedMediaType, Code: "UNSUPPORTED_MEDIA_TYPE",
			Message: fmt.Sprintf("the body is encoded as %s, and bodies are read as they are: send it without Content-Encoding", wire.Printable(encoding)),
		}
	}
	limit := x.Route.bodyLimit(x.Server.Limits)
	tooLarge := func() error {
		_, _ = io.CopyN(io.Discard, x.R.Body, maxDiscard)
		return &Problem{
			HTTP: http.StatusRequestEntityTooLarge, Code: "PAYLOAD_TOO_LARGE",
			Message: fmt.Sprintf("the body is larger than %d bytes", limit),
		}
	}
	if x.R.ContentLength > limit {
		return nil, tooLarge()
	}
	buf := bodies.Get().(*[]byte)
	b := (*buf)[:0]
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := x.R.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		*buf = b
		if int64(len(b)) > limit {
			Release(buf)
			return nil, tooLarge()
		}
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			Release(buf)
			return nil, &Problem{
				HTTP: http.StatusBadRequest, Code: "INVALID_ARGUMENT", Message: "the body ended early or did not arrive in time",
			}
		}
	}
}

// Decode reads the body into m. If it may be empty, an empty one is an empty object.
func (x *Request) Decode(m proto.Message, mayBeEmpty bool, without ...string) (ignored []string, err error) {
	body, err := x.Body()
	if err != nil {
		return nil, err
	}
	defer Release(body)
	if mayBeEmpty && len(*body) == 0 {
		return nil, nil
	}
	faults, ignored := wire.Decode(*body, m, without...)
	if len(faults) > 0 {
		return nil, InvalidBody(faults)
	}
	return ignored, nil
}
