package stream

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/mindcoordinator/mind/gateway/fanout"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// openSilence is how long a coordinator may be silent before the answer starts without its first message: the caller's
// stream must also open if a job prints nothing.
const openSilence = time.Second

// endText is the last event of a stream that was sent completely.
const endText = "event: error\ndata: {\"error\":\"stream ended\"}\n\n"

// Reader is the caller of a stream.
type Reader interface {
	// Begin is called before the first byte of the answer, and sets the common headers. The stream starts at a state index;
	// 0: unknown.
	Begin(index uint64)
	// MayGoOn returns the reason why the caller may not continue to read, or nil if it may.
	MayGoOn(ctx context.Context) error
	// Ended is called when an error ends the stream, and returns the error for the caller.
	Ended(err error) (code, message string)
}

// Times are the durations of a stream.
type Times struct {
	// NoLeader is how long the answer waits for a coordinator that accepts the call.
	NoLeader time.Duration
	// Keepalive is the interval of comments on an idle stream.
	Keepalive time.Duration
	// Recheck is how often MayGoOn is called.
	Recheck time.Duration
	// Drained is closed when streams must end because the gateway shuts down.
	Drained <-chan struct{}
}

// ErrDraining is returned if the gateway shuts down before the stream started.
var ErrDraining = errors.New("the gateway is shutting down")

// Relay writes a watcher's events to the caller until the subject ends, the caller leaves, or the gateway shuts down. An
// error means that nothing was written yet.
func Relay(ctx context.Context, w http.ResponseWriter, reader Reader, from *fanout.Watcher, times Times) error {
	e := events{ctx: ctx, w: w, rc: http.NewResponseController(w), reader: reader, times: times}
	index, err := e.await(from)
	if err != nil {
		return err
	}
	if e.begin(index) {
		e.run(from)
	}
	return nil
}

// await waits until a coordinator has accepted the call, or holds it without an answer. It takes nothing from the watcher.
func (e *events) await(w *fanout.Watcher) (index uint64, err error) {
	limit := time.NewTimer(e.times.NoLeader)
	defer limit.Stop()
	silence := time.NewTimer(time.Hour)
	defer silence.Stop()
	var broken error
	asked := false
	for {
		st := w.State()
		switch {
		case st.Ended && !st.Begun && st.Err != nil:
			if e.ctx.Err() != nil {
				return 0, e.ctx.Err()
			}
			return 0, st.Err
		case st.Begun || st.Ended:
			return st.Index, nil
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
			return 0, nil
		case <-limit.C:
			return 0, broken
		case <-e.ctx.Done():
			return 0, e.ctx.Err()
		case <-e.times.Drained:
			return 0, ErrDraining
		}
	}
}

// run writes events until the subject ends, the caller leaves, or the gateway shuts down.
func (e *events) run(w *fanout.Watcher) {
	pause := e.times.Keepalive
	keepalive := time.NewTimer(pause)
	defer keepalive.Stop()
	token := e.watchToken()
	defer token.stop()
	for {
		select {
		case <-token.over: // checked even while there is much to write
			if e.write(e.ending(token.why)) {
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
		// Nothing more is queued: flush now.
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
		case <-e.times.Drained:
			// This is no error event: the caller should reconnect, at another gateway.
			if e.write([]byte(": this gateway is shutting down\n\n")) {
				e.flush()
			}
			return
		case <-e.ctx.Done():
			return
		}
	}
}

// ending returns the last event, with the reason for the end.
func (e *events) ending(err error) []byte {
	if err == nil {
		return []byte(endText)
	}
	code, message := e.reader.Ended(err)
	b := []byte("event: error\ndata: {\"error\":\"stream ended\",\"code\":")
	b = wire.AppendString(b, code)
	b = append(b, `,"message":`...)
	b = wire.AppendString(b, message)
	return append(b, "}\n\n"...)
}

// events writes the answer of a stream.
type events struct {
	ctx    context.Context
	w      http.ResponseWriter
	rc     *http.ResponseController
	reader Reader
	times  Times
	// written: written data waits for a flush.
	written bool
}

// begin sends the headers. A stream has no time limit.
func (e *events) begin(index uint64) bool {
	_ = e.rc.SetReadDeadline(time.Time{})
	_ = e.rc.SetWriteDeadline(time.Time{})
	h := e.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("Referrer-Policy", "no-referrer") // the URL may hold a ticket
	h.Set("X-Accel-Buffering", "no")
	e.reader.Begin(index)
	e.w.WriteHeader(http.StatusOK)
	return e.rc.Flush() == nil
}

func (e *events) write(b []byte) bool {
	e.written = true
	_, err := e.w.Write(b)
	return err == nil
}

// flush sends the written data to the client.
func (e *events) flush() bool {
	if !e.written {
		return true
	}
	e.written = false
	return e.rc.Flush() == nil
}
