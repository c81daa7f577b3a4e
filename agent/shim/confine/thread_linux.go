package confine

import (
	"os"
	"runtime"
	"syscall"
)

// Thread is a thread that stays behind the walls of a task. All processes of the task are started on it, so that they are behind
// the same walls: a shell can signal and trace what the command has started. The kernel kills them when the thread ends.
type Thread struct {
	calls chan func()
	quit  chan struct{}
}

// NewThread starts a thread.
func NewThread() *Thread {
	t := &Thread{calls: make(chan func()), quit: make(chan struct{})}
	go t.serve(make(chan struct{}))
	return t
}

// serve runs the functions, on a thread that ends with the goroutine. It closes taken when it has one.
func (t *Thread) serve(taken chan struct{}) {
	runtime.LockOSThread()
	if syscall.Gettid() == os.Getpid() {
		// The main thread lives as long as the process, and is the one that others see in /proc. It is kept until another goroutine has
		// another thread.
		next := make(chan struct{})
		go t.serve(next)
		<-next
		runtime.UnlockOSThread()
		close(taken)
		return
	}
	close(taken)
	for {
		select {
		case f := <-t.calls:
			f()
		case <-t.quit:
			return
		}
	}
}

// Do runs a function on the thread. It returns false if the thread has ended.
func (t *Thread) Do(f func()) bool {
	done := make(chan struct{})
	select {
	case t.calls <- func() { defer close(done); f() }:
		<-done
		return true
	case <-t.quit:
		return false
	}
}

// Close ends the thread, after the function that runs.
func (t *Thread) Close() {
	if t != nil {
		close(t.quit)
	}
}
