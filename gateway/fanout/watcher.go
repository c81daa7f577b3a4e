package fanout

import (
	"sync"
	"time"
)

// chunk is about how many bytes of events a watcher gets at a time.
const chunk = 32 << 10

// chunks holds the buffers of watchers.
var chunks = sync.Pool{New: func() any { b := make([]byte, 0, chunk); return &b }}

// Watcher is one reader of a subject. Only one goroutine may use it at a time.
type Watcher struct {
	hub     *Hub
	subject Subject
	s       *stream
	// cursor is that of the last event that the watcher got.
	cursor []byte
	buf    *[]byte

	// piece and mark are the position in the stream, and at is the same in bytes.
	piece uint64
	mark  int
	at    uint64
	// aligned: the stream has nothing after this position that the watcher already got. Until then, place is where the
	// watcher is, and walked where the stream was at this position.
	aligned       bool
	place, walked Place
}

// State describes the stream at the end of what the watcher got.
type State struct {
	// Changed is closed when there is more to be had; nil: there is more now.
	Changed <-chan struct{}
	// Ended: nothing more will come; Err is the reason, nil if everything was sent.
	Ended bool
	Err   error
	// Asked: a coordinator has the call. Begun: it accepted the call, at Index, or there are events to read. Lost is why no
	// coordinator has the call at present.
	Asked, Begun bool
	Index        uint64
	Lost         error
}

// Watch starts to watch after a cursor, or at the start. The watcher must be closed.
func (h *Hub) Watch(subject Subject, cursor string) *Watcher {
	w := &Watcher{hub: h, subject: subject, cursor: []byte(cursor)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begin(w, cursor)
	return w
}

// Close ends the watcher.
func (w *Watcher) Close() {
	w.release()
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.hub.leave(w.s)
}

// join puts the watcher on a stream, at a place or at its start, and reports whether it did: the events that made the
// stream fit may have left its ring meanwhile, and the watcher would miss them. The caller holds the hub's mu.
func (w *Watcher) join(s *stream, place *Place) bool {
	s.mu.Lock()
	if place == nil && s.first > 0 || place != nil && !place.has(s.start) {
		s.mu.Unlock()
		return false
	}
	old := w.s
	w.s, w.piece, w.mark, w.at = s, s.first, 0, s.read-uint64(s.bytes)
	if w.aligned = place == nil; !w.aligned {
		w.place, w.walked = place.clone(), s.start.clone()
		w.aligned = w.walked.has(w.place)
	}
	s.mu.Unlock()
	s.watchers.Add(1)
	if old != nil {
		w.hub.leave(old)
	}
	return true
}

// State returns the state of the stream, whatever the watcher has read.
func (w *Watcher) State() State {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.state(w.s)
}

// state requires that the caller holds the stream's mu.
func (w *Watcher) state(s *stream) State {
	waiting := w.piece < s.first+uint64(len(s.ring))
	return State{Changed: s.changed, Ended: s.ended, Err: s.err, Asked: s.asked, Begun: s.begun || waiting, Index: s.index, Lost: s.lost}
}

// Next returns available events, about one chunk at most, and the state. The events are valid until the next call.
func (w *Watcher) Next() ([]byte, State) {
	w.release()
	w.gather()
	for {
		s := w.s
		s.mu.Lock()
		if w.piece < s.first {
			s.mu.Unlock()
			w.hub.fell.Add(1)
			w.again()
			continue
		}
		out := w.read(s)
		st := w.state(s)
		atEnd := w.piece == s.first+uint64(len(s.ring))
		if !atEnd {
			st.Changed, st.Ended, st.Err = nil, false, nil
		}
		hungry := s.read-s.front < s.hub.limits.ahead
		leave := atEnd && s.opening && !s.ended && len(w.cursor) > 0 && (s.settled() || time.Since(s.opened) > young)
		s.mu.Unlock()
		if hungry {
			select {
			case s.hungry <- struct{}{}:
			default:
			}
		}
		if leave && len(out) == 0 && w.share() {
			continue
		}
		if len(out) > 0 || st.Changed != nil || st.Ended {
			return out, st
		}
	}
}

// again starts at the watcher's place on another stream.
func (w *Watcher) again() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.hub.begin(w, string(w.cursor))
}

// share moves from the opening to a stream that all can share.
func (w *Watcher) share() bool {
	if _, ok := w.subject.Place(string(w.cursor)); !ok || w.subject.Key == "" {
		return false
	}
	w.again()
	return true
}

// gather moves to a stream with more watchers, if that is possible without missing anything.
func (w *Watcher) gather() {
	s := w.s
	if s.group == nil || !s.opening && !s.group.several.Load() || len(w.cursor) == 0 {
		return
	}
	place, ok := w.place, !w.aligned
	if !ok {
		place, ok = w.subject.Place(string(w.cursor))
	}
	if !ok {
		return
	}
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if to := w.hub.better(w.subject.Key, s, place); to != nil {
		w.join(to, &place)
	}
}

func (w *Watcher) release() {
	if w.buf != nil {
		if cap(*w.buf) <= 2*chunk {
			*w.buf = (*w.buf)[:0]
			chunks.Put(w.buf)
		}
		w.buf = nil
	}
}

// read copies the next events, so that the watcher does not pin what the ring drops. The caller holds the stream's mu.
func (w *Watcher) read(s *stream) []byte {
	end := s.first + uint64(len(s.ring))
	if w.piece == end {
		return nil
	}
	w.buf = chunks.Get().(*[]byte)
	out := *w.buf
	for w.piece < end && len(out) < chunk {
		p := &s.ring[w.piece-s.first]
		if w.aligned {
			out = w.frames(p, out)
		} else {
			out = w.frame(p, out)
		}
		if w.mark == len(p.Marks) {
			w.piece, w.mark = w.piece+1, 0
		}
	}
	*w.buf = out
	s.front = max(s.front, w.at)
	return out
}

// frames copies as many frames as fit.
func (w *Watcher) frames(p *Piece, out []byte) []byte {
	begin := w.begin(p)
	from := w.mark
	for w.mark < len(p.Marks) && (w.mark == from || len(out)+p.Marks[w.mark].End-begin <= chunk) {
		w.mark++
	}
	for i := w.mark - 1; i >= from; i-- {
		start := 0
		if i > 0 {
			start = p.Marks[i-1].End
		}
		if c := id(p.Frames[start:p.Marks[i].End], &p.Marks[i]); c != nil {
			w.cursor = append(w.cursor[:0], c...)
			break
		}
	}
	end := p.Marks[w.mark-1].End
	w.at += uint64(end - begin)
	return append(out, p.Frames[begin:end]...)
}

// frame copies one frame if the watcher did not get it yet, with an id for the place of this watcher.
func (w *Watcher) frame(p *Piece, out []byte) []byte {
	begin, m := w.begin(p), &p.Marks[w.mark]
	frame := p.Frames[begin:m.End]
	w.mark++
	w.at += uint64(len(frame))
	// A frame that does not move the place, such as a line about missing output, cannot be recognized as already sent.
	moves := !w.walked.seen(m)
	w.walked.pass(m)
	given := w.place.seen(m) && (moves || m.Epoch < w.place.Epoch)
	if !given {
		w.place.pass(m)
		if m.IDLen > 0 {
			w.cursor = append(w.cursor[:0], w.subject.Cursor(w.place)...)
			out = append(out, idField...)
			out = append(out, w.cursor...)
			out = append(out, '\n')
		}
		out = append(out, frame[m.IDLen:]...)
	}
	w.aligned = w.walked.has(w.place)
	return out
}

// begin is the start of the next frame to copy.
func (w *Watcher) begin(p *Piece) int {
	if w.mark == 0 {
		return 0
	}
	return p.Marks[w.mark-1].End
}
