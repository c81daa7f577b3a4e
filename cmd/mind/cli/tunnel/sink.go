package tunnel

import (
	"context"
	"io"
	"sync"
)

// maxUnwritten limits the output that is here and not written: more than the agent sends before it hears that its bytes are.
const maxUnwritten = 4 << 20

// sink writes one channel of the output, so that a reader that pauses keeps nobody from reading the connection.
type sink struct {
	to io.Writer

	mu      sync.Mutex
	changed chan struct{}
	// data is the output from the offset written on.
	data    []byte
	written uint64
	eof     bool
	err     error
	stopped bool
}

// newSink makes a sink for a writer. wrote is called after each write.
func newSink(to io.Writer, wrote func(err error)) *sink {
	s := &sink{to: to, changed: make(chan struct{})}
	go s.run(wrote)
	return s
}

// change wakes those who wait. The caller holds the lock.
func (s *sink) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// run writes until the output has ended, a write fails, or the sink is stopped. A write that blocks ends with the program, or when
// its writer is closed.
func (s *sink) run(wrote func(err error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.err == nil {
		for len(s.data) == 0 && !s.eof && !s.stopped {
			changed := s.changed
			s.mu.Unlock()
			<-changed
			s.mu.Lock()
		}
		if s.stopped || len(s.data) == 0 {
			break
		}
		piece := s.data[:min(len(s.data), 64<<10)]
		s.mu.Unlock()
		n, err := s.to.Write(piece)
		s.mu.Lock()
		s.data, s.written, s.err = s.data[n:], s.written+uint64(n), err
		s.change()
		wrote(err)
	}
	if closer, ok := s.to.(interface{ CloseWrite() error }); ok && s.eof && s.err == nil {
		_ = closer.CloseWrite() // the other end may have gone
	}
	s.eof = true
	s.change()
}

// take takes output from an offset on, and skips the part that was here before. It returns false if some is missing between, or if it is
// too much.
func (s *sink) take(offset uint64, data []byte, eof bool) (ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	have := s.written + uint64(len(s.data))
	switch {
	case s.err != nil:
		return true, s.err
	case offset > have:
		return false, nil
	case offset+uint64(len(data)) > have:
		s.data = append(s.data, data[have-offset:]...)
	}
	s.eof = s.eof || eof
	s.change()
	return len(s.data) <= maxUnwritten, nil
}

// done returns how much was written.
func (s *sink) done() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

// flush waits until all output that is here was written, or ctx ends.
func (s *sink) flush(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.data) > 0 && s.err == nil && ctx.Err() == nil {
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		s.mu.Lock()
	}
	return s.err
}

func (s *sink) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.change()
}
