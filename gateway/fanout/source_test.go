package fanout

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mindcoordinator/mind/api/cursor"
)

// source is a job whose ranks print. Each stream of it merges the ranks in its own order, as coordinators do.
type source struct {
	seed   uint64
	breaks bool // streams break from time to time, and are reopened where they were

	mu      sync.Mutex
	lines   [][]string // by rank; the offset behind line i is 10*(i+1)
	over    bool
	changed chan struct{}

	opened, open, most atomic.Int64
}

func newSource(seed uint64, ranks int) *source {
	return &source{seed: seed, lines: make([][]string, ranks), changed: make(chan struct{})}
}

func (s *source) print(rank, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		s.lines[rank] = append(s.lines[rank], fmt.Sprintf("%d/%d", rank, len(s.lines[rank])))
	}
	s.wake()
}

func (s *source) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.wake()
}

func (s *source) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *source) subject(key string) Subject {
	return Subject{
		Key: key, Follow: s.follow,
		Place: func(text string) (Place, bool) {
			c, err := cursor.ParseLog(text)
			return Place{uint64(c.Attempt), c.Offsets}, err == nil
		},
		Cursor: func(p Place) string { return cursor.Log{Attempt: uint32(p.Epoch), Offsets: p.Offsets}.String() },
	}
}

func (s *source) follow(ctx context.Context, _ bool, from string, out chan<- News) {
	defer close(out)
	r := rand.New(rand.NewPCG(s.seed, uint64(s.opened.Add(1))))
	for n := s.open.Add(1); n > s.most.Load(); {
		s.most.Store(n)
	}
	defer s.open.Add(-1)
	tell := func(n News) bool {
		select {
		case out <- n:
			return true
		case <-ctx.Done():
			return false
		}
	}
	at, err := cursor.ParseLog(from)
	if err != nil {
		tell(News{Kind: Ended, Err: err})
		return
	}
	if at.Attempt == 0 {
		at.Attempt = 1
	}
	if !tell(News{Kind: Asked}) || !tell(News{Kind: Begun, Piece: Piece{Marks: []Mark{{Epoch: 1}}}}) {
		return
	}
	for {
		s.mu.Lock()
		var p Piece
		for want := 1 + r.IntN(20); len(p.Marks) < want; {
			rank := r.IntN(len(s.lines))
			before := len(p.Marks)
			for k := range len(s.lines) {
				rank := (rank + k) % len(s.lines)
				if i := int(at.Offsets[uint16(rank)] / 10); i < len(s.lines[rank]) {
					at.Offsets[uint16(rank)] += 10
					p = add(p, at, uint16(rank), s.lines[rank][i])
					break
				}
			}
			if len(p.Marks) == before {
				break
			}
		}
		over, changed := s.over, s.changed
		s.mu.Unlock()
		switch {
		case len(p.Marks) > 0:
			if !tell(News{Kind: Told, Piece: p}) {
				return
			}
			if s.breaks && r.IntN(50) == 0 && !(tell(News{Kind: Lost, Err: errors.New("gone")}) && tell(News{Kind: Asked}) && tell(News{Kind: Begun})) {
				return
			}
		case over:
			tell(News{Kind: Ended})
			return
		default:
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

func add(p Piece, at cursor.Log, rank uint16, line string) Piece {
	begin := len(p.Frames)
	p.Frames = fmt.Appendf(p.Frames, "id: %s\n", at)
	m := Mark{Epoch: uint64(at.Attempt), Part: rank, Offset: at.Offsets[rank], IDLen: len(p.Frames) - begin}
	p.Frames = fmt.Appendf(p.Frames, "data: %s\n\n", line)
	m.End = len(p.Frames)
	p.Marks = append(p.Marks, m)
	return p
}

// reader checks the events of a watcher: each line of each rank comes once and in order, with ids from which a reader
// could resume.
type reader struct {
	next map[uint16]uint64
	last string
	rest string
}

func newReader(from string) (*reader, error) {
	c, err := cursor.ParseLog(from)
	r := &reader{next: map[uint16]uint64{}, last: from}
	for rank, offset := range c.Offsets {
		r.next[rank] = offset / 10
	}
	return r, err
}

func (r *reader) take(frames []byte) error {
	text := r.rest + string(frames)
	for {
		frame, rest, ok := strings.Cut(text, "\n\n")
		if !ok {
			r.rest = text
			return nil
		}
		text = rest
		id, data, _ := strings.Cut(frame, "\n")
		var rank uint16
		var n uint64
		if _, err := fmt.Sscanf(data, "data: %d/%d", &rank, &n); err != nil {
			return fmt.Errorf("%q: %w", frame, err)
		}
		if n != r.next[rank] {
			return fmt.Errorf("line %d of rank %d came, after id %q %d should", n, rank, r.last, r.next[rank])
		}
		r.next[rank]++
		r.last = strings.TrimPrefix(id, "id: ")
		c, err := cursor.ParseLog(r.last)
		if err != nil {
			return err
		}
		for rank, lines := range r.next {
			if c.Offsets[rank] != 10*lines {
				return fmt.Errorf("id %q tells of %d lines of rank %d, %d were given", r.last, c.Offsets[rank]/10, rank, lines)
			}
		}
	}
}
