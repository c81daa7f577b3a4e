// Package output reads what the command of a task prints, into its log.
//
// Contract: New makes the pipes, Start reads them until all their other ends are closed, and Wait waits for that. Errors is asked
// after Wait.
package output

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/agent/tasklog"
)

const (
	// quiet is how long an incomplete line is held back: progress bars and prompts print no line end for a long time.
	quiet = time.Second
	// tailBytes is how much of the end of stderr is kept for the diagnosis: enough for the tracebacks of some ranks.
	tailBytes = 64 << 10
)

// Output reads the output of a command.
type Output struct {
	log   *tasklog.Writer
	pipes [2]*os.File
	tail  []byte // of stderr; read after Wait only
	done  chan struct{}
}

// New creates the pipes and returns the command's ends.
func New(log *tasklog.Writer) (o *Output, ends [2]int, err error) {
	o = &Output{log: log, done: make(chan struct{})}
	for i := range ends {
		var fds [2]int
		if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
			return nil, ends, err
		}
		if err := syscall.SetNonblock(fds[0], true); err != nil {
			return nil, ends, err
		}
		o.pipes[i] = os.NewFile(uintptr(fds[0]), "output")
		ends[i] = fds[1]
	}
	return o, ends, nil
}

// Start reads the pipes until the last process that has an end of them closes it.
func (o *Output) Start() {
	var both sync.WaitGroup
	both.Add(2)
	go func() {
		defer both.Done()
		o.pump(o.pipes[0], o.log.Stream(tasklog.Stdout), nil)
	}()
	go func() {
		defer both.Done()
		o.pump(o.pipes[1], o.log.Stream(tasklog.Stderr), &o.tail)
	}()
	go func() {
		both.Wait()
		close(o.done)
	}()
}

// Wait waits for the end of the output. It returns false if that does not come in time. When all processes are gone,
// the rest of the pipes can be read at once; only a stuck disk, or a foreign process that holds a pipe open, makes it
// wait.
func (o *Output) Wait(limit time.Duration) bool {
	select {
	case <-o.done:
		return true
	case <-time.After(limit / 2):
	}
	for _, pipe := range o.pipes {
		_ = pipe.SetReadDeadline(time.Unix(1, 0))
	}
	select {
	case <-o.done:
	case <-time.After(limit / 2):
	}
	return false
}

// Errors returns the end of stderr, after it was read completely.
func (o *Output) Errors() []byte {
	select {
	case <-o.done:
		return o.tail
	default:
		return nil
	}
}

// source is the end of a pipe that the output comes from.
type source interface {
	io.ReadCloser
	SetReadDeadline(at time.Time) error
}

func (o *Output) pump(pipe source, stream *tasklog.Stream, tail *[]byte) {
	defer pipe.Close()
	buf := make([]byte, 32<<10)
	armed, began := false, false
	for {
		// The time of an incomplete line begins with it: one that was waiting before may have ended meanwhile.
		if waiting := stream.Waiting(); waiting != armed || waiting && began {
			armed = waiting
			deadline := time.Time{}
			if armed {
				deadline = time.Now().Add(quiet)
			}
			_ = pipe.SetReadDeadline(deadline)
		}
		n, err := pipe.Read(buf)
		began = bytes.IndexByte(buf[:n], '\n') >= 0
		if n > 0 {
			stream.Write(time.Now(), buf[:n])
			if tail != nil {
				*tail = keepTail(*tail, buf[:n])
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && stream.Waiting() {
			stream.Flush(time.Now())
			continue
		}
		if err != nil {
			for stream.Waiting() {
				stream.Flush(time.Now())
			}
			return
		}
	}
}

func keepTail(tail, p []byte) []byte {
	if len(p) >= tailBytes {
		return append(tail[:0], p[len(p)-tailBytes:]...)
	}
	if over := len(tail) + len(p) - tailBytes; over > 0 {
		tail = append(tail[:0], tail[over:]...)
	}
	return append(tail, p...)
}
