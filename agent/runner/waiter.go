package runner

import (
	"bufio"
	"os"
	"time"
)

// dismissPatience is how long a dismissed shim may take to end; it has nothing to do.
const dismissPatience = 5 * time.Second

// waiter is a shim that waits for a task, its first or another.
type waiter struct {
	// name of its first socket; empty after its first task: then it listens under the name in the specification of its next
	// task.
	name   string
	parent string
	conn   *os.File
	child  *os.Process
	gone   chan struct{} // closed when the process has ended
	// end is how the child ended, once gone is closed.
	end *os.ProcessState
}

// dismiss ends the shim. A stopped (SIGSTOP) shim does not react.
func (w *waiter) dismiss() {
	_ = w.conn.Close()
	select {
	case <-w.gone:
		return
	case <-time.After(dismissPatience):
	}
	_ = w.child.Kill()
	<-w.gone
}

// ready waits until a shim has cleaned up after its task, of which everything was read; false: it has gone, or will.
func ready(said *bufio.Scanner) bool { return said.Scan() && said.Text() == "idle" }
