// Package fanout lets any number of watchers share the streams of coordinators.
//
// Contract: watchers of one subject read from one stream, whose newest events are kept in a ring of bounded size. A watcher
// that falls behind the ring, or starts before it, gets a stream of its own, which starts after the last event that it got.
// It joins the shared stream again when it has caught up. So each watcher gets each event once and in order, wherever it
// starts and however slow it is, and a slow watcher does not delay the others: a stream is read at the speed of its fastest
// watcher.
//
// Guarantees: the hub stores only a position for each watcher. A watcher that does not read costs at most one ring, and
// only while its stream has no other watchers. Streams end with their last watcher.
//
// Not guaranteed: that two watchers share a stream. Lines of ranks that write at the same time have a different order on
// each stream; a watcher that changes streams gets exactly what it has not seen, with ids that fit.
package fanout

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of rings and of reading ahead, in bytes of events.
type limits struct {
	// shared is the size of a ring with several watchers, alone the size of a ring with one.
	shared, alone int
	// ahead is how far a stream may be ahead of its fastest watcher.
	ahead uint64
	// near is how far (in offsets) a watcher may be ahead of a stream that it joins.
	near uint64
}

var defaults = limits{shared: 1 << 20, alone: 64 << 10, ahead: 64 << 10, near: 64 << 10}

// backlog is the number of pieces that may wait before a stream.
const backlog = 2

const (
	// settles is how long a stream must be idle until everything that existed counts as sent.
	settles = 250 * time.Millisecond
	// young is how long a stream counts as just opened, so that new watchers can share its start.
	young = time.Second
)

// Hub holds the open streams.
type Hub struct {
	ctx    context.Context
	cancel context.CancelFunc
	ends   sync.WaitGroup
	limits limits

	mu     sync.Mutex
	groups map[string]*group

	streams atomic.Int64
	fell    atomic.Int64
}

// group holds the streams of one subject, oldest first.
type group struct {
	key     string
	streams []*stream
	// several: there is more than one stream.
	several atomic.Bool
}

// New returns a hub. It must be closed.
func New() *Hub {
	h := &Hub{groups: map[string]*group{}, limits: defaults}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Close ends all streams and waits for them.
func (h *Hub) Close() {
	h.cancel()
	h.ends.Wait()
}

// Streams returns the number of open streams.
func (h *Hub) Streams() int64 { return h.streams.Load() }

// Fell returns how often a watcher fell behind the ring of its stream.
func (h *Hub) Fell() int64 { return h.fell.Load() }

// begin finds or opens a stream for a watcher at a cursor, or at the start. The caller holds mu.
func (h *Hub) begin(w *Watcher, cursor string) {
	key, opening := w.subject.Key, false
	if cursor == "" && w.subject.Opening != "" {
		opening = true
		key += "\x00" + w.subject.Opening
	}
	if w.subject.Key == "" {
		h.open(w, nil, opening, cursor)
		return
	}
	place, known := Place{}, false
	if cursor != "" {
		if place, known = w.subject.Place(cursor); !known {
			// The coordinator will report an invalid cursor.
			h.open(w, nil, false, cursor)
			return
		}
	}
	g := h.groups[key]
	if g == nil {
		g = &group{key: key}
		h.groups[key] = g
	}
	for _, s := range g.streams {
		switch {
		case opening:
			if s.whole() && w.join(s, nil) {
				return
			}
		case known:
			if s.covers(place) && w.join(s, &place) {
				return
			}
		default:
			if start, ok := s.fromStart(); ok && w.join(s, &start) {
				return
			}
		}
	}
	h.open(w, g, opening, cursor)
}

// open starts a stream with its first watcher, before the first event. The caller holds mu.
func (h *Hub) open(w *Watcher, g *group, opening bool, cursor string) {
	ctx, cancel := context.WithCancel(h.ctx)
	s := &stream{
		hub: h, group: g, subject: w.subject, opening: opening, cursor: cursor, opened: time.Now(), cancel: cancel,
		changed: make(chan struct{}), hungry: make(chan struct{}, 1),
	}
	if place, ok := w.subject.Place(cursor); ok && cursor != "" {
		s.start, s.end, s.known = place, place.clone(), true
	} else {
		s.known = cursor == "" && !opening
	}
	if g != nil {
		g.streams = append(g.streams, s)
		g.several.Store(len(g.streams) > 1)
	}
	h.streams.Add(1)
	w.join(s, nil)
	h.ends.Go(func() {
		defer cancel()
		s.run(ctx)
	})
}

// forget removes a stream, so that no watcher joins it any more. The caller holds mu.
func (h *Hub) forget(s *stream) {
	g := s.group
	if g == nil {
		return
	}
	for i, other := range g.streams {
		if other == s {
			g.streams = append(g.streams[:i:i], g.streams[i+1:]...)
			break
		}
	}
	g.several.Store(len(g.streams) > 1)
	if len(g.streams) == 0 {
		delete(h.groups, g.key)
	}
}

// leave requires that the caller holds mu.
func (h *Hub) leave(s *stream) {
	if s.watchers.Add(-1) == 0 {
		h.forget(s)
		s.cancel()
	}
}

// better finds a stream for a watcher on s: one with more watchers or, if equal, an older one. So watchers converge and
// never move back and forth.
func (h *Hub) better(key string, s *stream, place Place) *stream {
	g := h.groups[key]
	if g == nil {
		return nil
	}
	best, passed := s, g != s.group
	for _, other := range g.streams {
		if other == s {
			passed = true
			continue
		}
		more := other.watchers.Load() - best.watchers.Load()
		if g != s.group {
			// From its opening a watcher moves to any stream that all can share.
			more = 1
		}
		if (more > 0 || more == 0 && !passed) && other.covers(place) {
			best = other
			if g != s.group {
				break
			}
		}
	}
	if best == s {
		return nil
	}
	return best
}
