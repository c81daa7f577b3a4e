package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/mindcoordinator/mind/api/client"
)

// How long a coordinator may be silent before the answer begins without it:
// a job that prints nothing must still open the caller's stream.
const openSilence = time.Second

// Bytes of events that are gathered before they are written, and how long an
// upstream that is gone is looked for.
const (
	sseChunk   = 32 << 10
	sseGiveUp  = 5 * time.Minute
	sseEndText = "event: error\ndata: {\"error\":\"stream ended\"}\n\n"
)

// relay answers with the events of a feed until it ends. Errors before the
// first event are answered in the envelope.
func relay[M any](x *exchange, f feed[M]) error {
	s := x.server
	s.streams.Add(1)
	defer s.streams.Done()
	ctx, cancel := context.WithCancel(x.r.Context())
	ctx = client.WithCall(ctx, client.Call{Tenant: x.caller.Tenant, User: x.caller.User, RequestID: x.requestID})
	in := make(chan news[M], feedBacklog)
	f.longest = s.config.Timeouts.Stream
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		pump(ctx, f, sseGiveUp, in)
	}()
	defer func() {
		cancel()
		<-finished
	}()
	first, err := await(x, in)
	if err != nil {
		return err
	}
	s.metrics.streams.Inc()
	defer s.metrics.streams.Dec()
	e := events{x: x, rc: http.NewResponseController(x.w)}
	if !e.begin() {
		return nil
	}
	run(&e, f, in, first)
	return nil
}

// await waits until a coordinator has taken the call, or holds it and is
// silent. It returns the first message if that came with it.
func await[M any](x *exchange, in <-chan news[M]) (*news[M], error) {
	limit := time.NewTimer(x.server.config.Timeouts.NoLeader)
	defer limit.Stop()
	silence := time.NewTimer(time.Hour)
	defer silence.Stop()
	var broken error
	for {
		select {
		case n, ok := <-in:
			switch {
			case !ok:
				return nil, x.r.Context().Err()
			case n.kind == asked:
				silence.Reset(openSilence)
			case n.kind == begun:
				x.answer.Index = n.index
				return nil, nil
			case n.kind == lost:
				silence.Reset(time.Hour)
				broken = n.err
			case n.kind == ended && n.err != nil:
				return nil, n.err
			default:
				return &n, nil
			}
		case <-silence.C:
			return nil, nil
		case <-limit.C:
			if broken != nil {
				return nil, broken
			}
			return nil, nil
		case <-x.server.drained:
			return nil, &problem{
				http: http.StatusServiceUnavailable, code: "UNAVAILABLE", message: "this gateway is shutting down; try again", retryAfter: 1,
			}
		}
	}
}

// run writes what comes until the feed ends, the caller goes, or the gateway
// does.
func run[M any](e *events, f feed[M], in <-chan news[M], first *news[M]) {
	pause := e.x.server.config.Timeouts.Keepalive
	keepalive := time.NewTimer(pause)
	defer keepalive.Stop()
	if first != nil && !take(e, f, *first) {
		return
	}
	for {
		var n news[M]
		var ok bool
		select {
		case n, ok = <-in:
		default:
			// Nothing waits: now is the time to write.
			if !e.flush() {
				return
			}
			select {
			case n, ok = <-in:
			case <-keepalive.C:
				e.buf = append(e.buf, ": keepalive\n\n"...)
				keepalive.Reset(pause)
				continue
			case <-e.x.server.drained:
				// No error event: the caller is to come back, at another gateway.
				e.buf = append(e.buf, ": this gateway is shutting down\n\n"...)
				e.flush()
				return
			case <-e.x.r.Context().Done():
				return
			}
		}
		if !ok || !take(e, f, n) {
			return
		}
		if e.fresh {
			e.fresh = false
			keepalive.Reset(pause)
		}
	}
}

// take writes one piece of news and says whether more may follow.
func take[M any](e *events, f feed[M], n news[M]) bool {
	switch n.kind {
	case message:
		had := len(e.buf)
		e.buf = f.frames(e.buf, n.m)
		// A coordinator's sign of life is none to the caller.
		e.fresh = e.fresh || len(e.buf) > had
		if len(e.buf) >= sseChunk {
			return e.write()
		}
	case ended:
		if n.err == nil {
			e.buf = append(e.buf, sseEndText...)
		} else {
			p := e.x.translate(n.err)
			e.buf = append(e.buf, "event: error\ndata: {\"error\":\"stream ended\",\"code\":"...)
			e.buf = appendString(e.buf, p.code)
			e.buf = append(e.buf, `,"message":`...)
			e.buf = appendString(e.buf, p.message)
			e.buf = append(e.buf, "}\n\n"...)
		}
		e.flush()
		return false
	}
	return true
}

// events is the answer side of a stream.
type events struct {
	x   *exchange
	rc  *http.ResponseController
	buf []byte
	// fresh: events came since the last keepalive was put off.
	fresh bool
}

// begin sends the headers. A stream lives as long as it likes.
func (e *events) begin() bool {
	_ = e.rc.SetReadDeadline(time.Time{})
	_ = e.rc.SetWriteDeadline(time.Time{})
	h := e.x.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	e.x.mark(h)
	e.x.code = http.StatusOK
	e.x.w.WriteHeader(http.StatusOK)
	return e.rc.Flush() == nil
}

// write hands on what was gathered.
func (e *events) write() bool {
	if len(e.buf) == 0 {
		return true
	}
	_, err := e.x.w.Write(e.buf)
	e.buf = e.buf[:0]
	return err == nil
}

// flush hands on what was gathered, all the way.
func (e *events) flush() bool {
	if len(e.buf) == 0 {
		return true
	}
	return e.write() && e.rc.Flush() == nil
}
