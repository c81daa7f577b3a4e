package confine

import "runtime"

// Thread is a thread that stays behind the walls of a task. All processes of the task are started on it, so that they are behind
// the same walls: a shell can signal and trace what the command has started. The kernel kills them when the thread ends.
type Thread struct {
	calls chan func()
	quit  chan struct{}
}

// NewThread starts a thread.
func NewThread() *Thread {
	t := &Thread{calls: make(chan func()), quit: make(chan struct{})}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for {
			select {
			case f := <-t.calls:
				f()
			case <-t.quit:
				return
			}
		}
	}()
	return t
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
