package tunnels

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

const (
	// maxQueued limits the input that the process has not taken.
	maxQueued = 256 << 10
	// lastWords is how long a channel may stay open, and silent, after the process has ended.
	lastWords = 3 * time.Second
)

// farEnd is the end of a tunnel in its task.
type farEnd interface {
	// In takes the input; CloseIn says that there is no more.
	In() io.Writer
	CloseIn() error
	// Outs are the outputs: stdout and, if it is apart, stderr.
	Outs() []out
	Resize(size *v1.TunnelSize) error
	// Wait returns how the process ended; nil: the end of the tunnel is that of its outputs.
	Wait() *v1.TunnelEnd
	// Close ends it.
	Close()
}

type out interface {
	io.Reader
	SetReadDeadline(at time.Time) error
}

// tunnel is one tunnel. Its goroutines end soon after close.
type tunnel struct {
	id    string
	owner owner
	task  taskid.ID
	far   farEnd

	parts sync.WaitGroup
	// over: the process has ended, and its outputs will soon.
	over atomic.Bool

	mu sync.Mutex
	// changed is closed, and replaced, when something has changed.
	changed chan struct{}
	outs    []*output
	// queue is the input from the offset taken on.
	queue   []byte
	taken   uint64
	inEOF   bool
	end     *v1.TunnelEnd
	closed  bool
	clients int // counts the streams of this tunnel; only the newest is served
}

// owner is the user whose a tunnel is.
type owner struct{ tenant, user, job string }

func newTunnel(id string, whose owner, task taskid.ID, far farEnd) *tunnel {
	t := &tunnel{id: id, owner: whose, task: task, far: far, changed: make(chan struct{})}
	var reading sync.WaitGroup
	for i, from := range far.Outs() {
		o := &output{channel: v1.TunnelChannel_STDOUT + v1.TunnelChannel_Value(i)}
		t.outs = append(t.outs, o)
		reading.Add(1)
		t.parts.Go(func() {
			defer reading.Done()
			t.read(o, from)
		})
	}
	t.parts.Go(t.write)
	t.parts.Go(func() {
		end := far.Wait()
		t.over.Store(end != nil)
		if end != nil {
			for _, from := range far.Outs() {
				_ = from.SetReadDeadline(time.Now().Add(lastWords))
			}
		} else {
			end = &v1.TunnelEnd{}
		}
		reading.Wait()
		t.mu.Lock()
		t.end = end
		t.change()
		t.mu.Unlock()
		far.Close()
	})
	return t
}

// change wakes those who wait for a change. The caller holds the lock.
func (t *tunnel) change() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// await waits, without the lock, until something has changed.
func (t *tunnel) await() {
	changed := t.changed
	t.mu.Unlock()
	<-changed
	t.mu.Lock()
}

// read reads an output until it ends.
func (t *tunnel) read(o *output, from out) {
	buf := make([]byte, 32<<10)
	for {
		if t.over.Load() {
			// The client may have been slow until now: each read has its own time.
			_ = from.SetReadDeadline(time.Now().Add(lastWords))
		}
		n, err := from.Read(buf)
		t.mu.Lock()
		for o.room() < n && !t.closed {
			t.await()
		}
		o.data = append(o.data, buf[:n]...)
		o.eof = err != nil || t.closed
		t.change()
		done := o.eof
		t.mu.Unlock()
		if done {
			return
		}
	}
}

// write passes on the input until there is no more, or the process takes no more.
func (t *tunnel) write() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		for len(t.queue) == 0 && !t.inEOF && !t.closed && t.end == nil {
			t.await()
		}
		if t.closed || t.end != nil {
			return
		}
		if len(t.queue) == 0 {
			t.mu.Unlock()
			_ = t.far.CloseIn()
			t.mu.Lock()
			return
		}
		piece := t.queue[:min(len(t.queue), maxPiece)]
		t.mu.Unlock()
		_, err := t.far.In().Write(piece)
		t.mu.Lock()
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.discard()
			return
		}
		t.queue = t.queue[len(piece):]
		t.taken += uint64(len(piece))
		t.change()
	}
}

// discard takes all further input for nothing: the process reads no more of it, and its end is told as it comes.
func (t *tunnel) discard() {
	for !t.closed && t.end == nil {
		if n := len(t.queue); n > 0 {
			t.queue = nil
			t.taken += uint64(n)
			t.change()
		}
		t.await()
	}
}

// take takes a message of the client.
func (t *tunnel) take(in *v1.TunnelInput) error {
	if size := in.GetSize(); size != nil {
		_ = t.far.Resize(size) // it has no terminal, or has ended
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.received(in.GetStdoutReceived(), in.GetStderrReceived())
	bytes := in.GetBytes()
	if bytes == nil {
		return nil
	}
	have := t.taken + uint64(len(t.queue))
	switch data := bytes.GetData(); {
	case bytes.GetChannel() != v1.TunnelChannel_STDIN:
		return status.Error(codes.InvalidArgument, "input is for stdin")
	case bytes.GetOffset() > have:
		return status.Errorf(codes.FailedPrecondition, "input from byte %d on, and %d bytes are here: some are missing", bytes.GetOffset(), have)
	case have-bytes.GetOffset() >= uint64(len(data)):
		// All of it came before.
	case t.inEOF:
		return status.Error(codes.InvalidArgument, "input after its end")
	default:
		data = data[have-bytes.GetOffset():]
		if len(t.queue)+len(data) > maxQueued {
			return status.Errorf(codes.InvalidArgument, "more than %d bytes of input before they were taken", maxQueued)
		}
		t.queue = append(t.queue, data...)
	}
	t.inEOF = t.inEOF || bytes.GetEof()
	t.change()
	return nil
}

// received drops the output that the client has. The caller holds the lock.
func (t *tunnel) received(offsets ...uint64) {
	for i, o := range t.outs {
		o.received(offsets[i])
	}
	t.change()
}

// close ends the tunnel, and returns when its goroutines have ended.
func (t *tunnel) close() {
	t.mu.Lock()
	t.closed = true
	t.change()
	t.mu.Unlock()
	t.far.Close()
	t.parts.Wait()
}

// client is one stream of the tunnel's client.
type client struct {
	*tunnel
	number int
	// sent are the offsets after what was sent, by channel, and told is the input of which was said that it was taken.
	sent    []uint64
	toldEOF []bool
	told    uint64
}

// attach makes a stream the one that is served.
func (t *tunnel) attach(opening *v1.TunnelOpening) (*client, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	offsets := []uint64{opening.GetStdoutReceived(), opening.GetStderrReceived()}
	for i, o := range t.outs {
		if offsets[i] < o.start || offsets[i] > o.end() {
			return nil, status.Errorf(codes.FailedPrecondition, "the tunnel cannot go on at byte %d: it has bytes %d to %d", offsets[i], o.start, o.end())
		}
	}
	t.received(offsets...)
	t.clients++
	return &client{tunnel: t, number: t.clients, sent: offsets[:len(t.outs)], toldEOF: make([]bool, len(t.outs)), told: t.taken}, nil
}

var errReplaced = status.Error(codes.FailedPrecondition, "another connection goes on with this tunnel")

// next returns the next message for the client; or, without one, a channel that is closed when there may be one.
func (c *client) next() (*v1.TunnelOutput, <-chan struct{}, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.number != c.clients {
		return nil, nil, errReplaced
	}
	if c.closed {
		return nil, nil, status.Error(codes.NotFound, "the tunnel was closed")
	}
	if c.told != c.taken {
		c.told = c.taken
		return &v1.TunnelOutput{StdinReceived: c.taken}, nil, nil
	}
	ended := c.end != nil
	for i, o := range c.outs {
		if piece := o.after(c.sent[i], c.toldEOF[i]); piece != nil {
			c.sent[i] = piece.GetOffset() + uint64(len(piece.GetData()))
			c.toldEOF[i] = piece.GetEof()
			return &v1.TunnelOutput{Bytes: piece}, nil, nil
		}
		ended = ended && c.toldEOF[i]
	}
	if ended {
		return &v1.TunnelOutput{End: c.end}, nil, nil
	}
	return nil, c.changed, nil
}
