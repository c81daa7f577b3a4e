package fanout

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// stream is one stream of a coordinator, with its newest events in a ring.
type stream struct {
	hub     *Hub
	group   *group // nil: no other watcher may join
	subject Subject
	opening bool
	cursor  string // where it began
	opened  time.Time
	cancel  context.CancelFunc
	// watchers is written with the hub's mu held.
	watchers atomic.Int64
	// hungry is signaled when a watcher has read enough that more may be read.
	hungry chan struct{}

	mu sync.Mutex
	// changed is closed when there is something new.
	changed chan struct{}
	asked   bool
	begun   bool
	index   uint64
	lost    error
	ended   bool
	err     error

	// ring holds the newest pieces; first is the number of the oldest of them.
	ring  []Piece
	first uint64
	bytes int
	// start is the place before the ring and end the place behind it, if known.
	start, end Place
	known      bool
	// read is the number of bytes that were ever in the ring, front how many of them the fastest watcher got.
	read, front uint64
	// idle is when the stream ran out of events while a coordinator has the call; zero: it has events.
	idle time.Time
}

// run reads until the subject ends, or the last watcher has left.
func (s *stream) run(ctx context.Context) {
	defer s.hub.streams.Add(-1)
	in := make(chan News, backlog)
	s.hub.ends.Go(func() { s.subject.Follow(ctx, s.opening, s.cursor, in) })
	defer func() {
		s.cancel()
		for range in { // until the other has ended
		}
	}()
	settled := time.NewTimer(settles)
	defer settled.Stop()
	for {
		for !s.wanted() {
			select {
			case <-s.hungry:
			case <-ctx.Done():
				s.stop(ctx.Err())
				return
			}
		}
		select {
		case n, ok := <-in:
			if !ok {
				s.stop(ctx.Err())
				return
			}
			if s.take(n) {
				return
			}
			if len(n.Piece.Marks) > 0 || n.Kind != Told {
				settled.Reset(settles)
			}
		case <-settled.C:
			// Watchers check whether they can move to a stream with more watchers.
			s.mu.Lock()
			s.wake()
			s.mu.Unlock()
		case <-ctx.Done():
			s.stop(ctx.Err())
			return
		}
	}
}

func (s *stream) wanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read-s.front < s.hub.limits.ahead
}

func (s *stream) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// take records news, and reports whether it was the last one.
func (s *stream) take(n News) (last bool) {
	if n.Kind == Ended {
		s.stop(n.Err)
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.Kind == Told && len(n.Piece.Marks) == 0 && s.begun {
		return false // a sign of life carries no news
	}
	switch n.Kind {
	case Asked:
		s.asked = true
	case Begun:
		s.begun, s.lost = true, nil
		if n.Index > s.index {
			s.index = n.Index
		}
	case Lost:
		s.asked, s.begun, s.lost = false, false, n.Err
	case Told:
		s.asked, s.begun, s.lost = true, true, nil
	}
	if s.idle = (time.Time{}); s.begun {
		s.idle = time.Now()
	}
	if len(n.Piece.Marks) > 0 {
		s.add(n.Piece)
	}
	s.wake()
	return false
}

func (s *stream) add(p Piece) {
	for i := range p.Marks {
		s.end.pass(&p.Marks[i])
		// A watcher can join only at a known place.
		s.known = s.known && p.Marks[i].Epoch > 0
	}
	s.ring = append(s.ring, p)
	s.bytes += len(p.Frames)
	s.read += uint64(len(p.Frames))
	keep := s.hub.limits.alone
	if s.watchers.Load() > 1 || time.Since(s.opened) < young {
		keep = s.hub.limits.shared
	}
	for len(s.ring) > 1 && s.bytes-len(s.ring[0].Frames) >= keep {
		old := s.ring[0]
		for i := range old.Marks {
			s.start.pass(&old.Marks[i])
		}
		s.bytes -= len(old.Frames)
		s.ring[0] = Piece{}
		s.ring = s.ring[1:]
		s.first++
	}
}

// stop ends the stream: its watchers read the rest of the ring, and no watcher joins.
func (s *stream) stop(err error) {
	s.hub.mu.Lock()
	s.hub.forget(s)
	s.hub.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.err = true, err
	s.wake()
}

// settled reports whether nothing has arrived for a while. The caller holds mu.
func (s *stream) settled() bool { return !s.idle.IsZero() && time.Since(s.idle) >= settles }

// covers reports whether a watcher at a place can continue from the ring without missing anything, and soon.
func (s *stream) covers(place Place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.opening && s.known && !s.ended && place.has(s.start) && (place.ahead(s.end) <= s.hub.limits.near || s.settled())
}

// whole reports whether the ring still has everything since the stream was opened, just now.
func (s *stream) whole() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended && s.first == 0 && time.Since(s.opened) < young
}

// fromStart returns the place before the newest epoch, if the ring reaches back to it.
func (s *stream) fromStart() (Place, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	start := Place{Epoch: s.end.Epoch}
	ok := s.cursor == "" && !s.opening && s.known && !s.ended && start.has(s.start) && (time.Since(s.opened) < young || s.settled())
	return start, ok
}
