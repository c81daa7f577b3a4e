package tunnel

import (
	"io"
	"sync"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/tunnel"
)

// input keeps what was read until the task has taken it, so that it can be sent again.
type input struct {
	mu      sync.Mutex
	changed chan struct{}
	// data begins at the offset taken.
	data    []byte
	taken   uint64
	eof     bool
	stopped bool
}

func newInput(from io.Reader) *input {
	i := &input{changed: make(chan struct{}), eof: from == nil}
	if from != nil {
		go i.read(from)
	}
	return i
}

// change wakes those who wait. The caller holds the lock.
func (i *input) change() {
	close(i.changed)
	i.changed = make(chan struct{})
}

func (i *input) read(from io.Reader) {
	buf := make([]byte, tunnel.MaxPiece)
	for {
		n, err := from.Read(buf)
		i.mu.Lock()
		for len(i.data)+n > tunnel.Window && !i.stopped {
			changed := i.changed
			i.mu.Unlock()
			<-changed
			i.mu.Lock()
		}
		i.data = append(i.data, buf[:n]...)
		i.eof = err != nil
		i.change()
		done := i.eof || i.stopped
		i.mu.Unlock()
		if done {
			return
		}
	}
}

func (i *input) stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopped = true
	i.change()
}

// took drops what the task has taken.
func (i *input) took(upTo uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if upTo > i.taken && upTo <= i.taken+uint64(len(i.data)) {
		i.data = i.data[upTo-i.taken:]
		i.taken = upTo
		i.change()
	}
}

// after returns the next piece to send after an offset; nil: there is none before changed is closed.
func (i *input) after(at uint64, toldEOF bool) (piece *v1.TunnelBytes, changed <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	at = max(at, i.taken)
	rest := i.data[at-i.taken:]
	whole := len(rest) <= tunnel.MaxPiece
	if !whole {
		rest = rest[:tunnel.MaxPiece]
	}
	eof := i.eof && whole
	if len(rest) == 0 && (!eof || toldEOF) {
		return nil, i.changed
	}
	return &v1.TunnelBytes{Offset: at, Data: append([]byte(nil), rest...), Eof: eof}, nil
}
