package gateway

import (
	"net/http"
	"time"

	"github.com/mindcoordinator/mind/gateway/fanout"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// How long a coordinator may be silent before the answer begins without it:
// a job that prints nothing must still open the caller's stream.
const openSilence = time.Second

// How long an upstream that is gone is looked for, and how a stream ends.
const (
	sseGiveUp  = 5 * time.Minute
	sseEndText = "event: error\ndata: {\"error\":\"stream ended\"}\n\n"
)

// relay answers with the events of a subject until it ends. Errors before the
// first event are answered in the envelope.
func relay(x *exchange, subject fanout.Subject, cursor string) error {
	s := x.server
	s.streams.Add(1)
	defer s.streams.Done()
	w := s.hub.Watch(subject, cursor)
	defer w.Close()
	if err := await(x, w); err != nil {
		return err
	}
	s.metrics.streams.Inc()
	defer s.metrics.streams.Dec()
	e := events{x: x, rc: http.NewResponseController(x.w)}
	if e.begin() {
		e.run(w)
	}
	return nil
}

// await waits until a coordinator has taken the call, or holds it and is
// silent. Nothing is taken from the watcher.
func await(x *exchange, w *fanout.Watcher) error {
	limit := time.NewTimer(x.server.config.Timeouts.NoLeader)
	defer limit.Stop()
	silence := time.NewTimer(time.Hour)
	defer silence.Stop()
	var broken error
	asked := false
	for {
		st := w.State()
		switch {
		case st.Ended && !st.Begun && st.Err != nil:
			if x.r.Context().Err() != nil {
				return x.r.Context().Err()
			}
			return st.Err
		case st.Begun || st.Ended:
			x.answer.Index = st.Index
			return nil
		case st.Asked && !asked:
			silence.Reset(openSilence)
		case !st.Asked && asked:
			silence.Reset(time.Hour)
		}
		asked = st.Asked
		if st.Lost != nil {
			broken = st.Lost
		}
		select {
		case <-st.Changed:
		case <-silence.C:
			return nil
		case <-limit.C:
			return broken
		case <-x.r.Context().Done():
			return x.r.Context().Err()
		case <-x.server.drained:
			return &problem{
				http: http.StatusServiceUnavailable, code: "UNAVAILABLE", message: "this gateway is shutting down; try again", retryAfter: 1,
			}
		}
	}
}

// run writes what comes until the subject ends, the caller goes, or the gateway
// does.
func (e *events) run(w *fanout.Watcher) {
	pause := e.x.server.config.Timeouts.Keepalive
	keepalive := time.NewTimer(pause)
	defer keepalive.Stop()
	token := e.watchToken()
	defer token.stop()
	for {
		select {
		case <-token.over: // However much there is to write.
			e.x.noteDenial(token.why)
			if e.write(e.closing(token.why)) {
				e.flush()
			}
			return
		default:
		}
		frames, st := w.Next()
		if len(frames) > 0 {
			if !e.write(frames) {
				return
			}
			keepalive.Reset(pause)
		}
		if st.Ended {
			if e.write(e.ending(st.Err)) {
				e.flush()
			}
			return
		}
		if st.Changed == nil {
			continue
		}
		// Nothing waits: now is the time to hand it on.
		if !e.flush() {
			return
		}
		select {
		case <-st.Changed:
		case <-token.over:
		case <-keepalive.C:
			if !e.write([]byte(": keepalive\n\n")) {
				return
			}
			keepalive.Reset(pause)
		case <-e.x.server.drained:
			// No error event: the caller is to come back, at another gateway.
			if e.write([]byte(": this gateway is shutting down\n\n")) {
				e.flush()
			}
			return
		case <-e.x.r.Context().Done():
			return
		}
	}
}

// ending is the last event: why there are no more.
func (e *events) ending(err error) []byte {
	if err == nil {
		return []byte(sseEndText)
	}
	return e.closing(e.x.translate(err))
}

// closing is the last event of a stream that something ended.
func (e *events) closing(p *problem) []byte {
	b := []byte("event: error\ndata: {\"error\":\"stream ended\",\"code\":")
	b = wire.AppendString(b, p.code)
	b = append(b, `,"message":`...)
	b = wire.AppendString(b, p.message)
	return append(b, "}\n\n"...)
}

// events is the answer side of a stream.
type events struct {
	x  *exchange
	rc *http.ResponseController
	// written: something waits for a flush.
	written bool
}

// begin sends the headers. A stream lives as long as it likes.
func (e *events) begin() bool {
	_ = e.rc.SetReadDeadline(time.Time{})
	_ = e.rc.SetWriteDeadline(time.Time{})
	h := e.x.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("Referrer-Policy", "no-referrer") // the URL may hold a ticket
	h.Set("X-Accel-Buffering", "no")
	e.x.mark(h)
	e.x.code = http.StatusOK
	e.x.w.WriteHeader(http.StatusOK)
	return e.rc.Flush() == nil
}

func (e *events) write(b []byte) bool {
	e.written = true
	_, err := e.x.w.Write(b)
	return err == nil
}

// flush hands on what was written, all the way.
func (e *events) flush() bool {
	if !e.written {
		return true
	}
	e.written = false
	return e.rc.Flush() == nil
}
