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
	// name of the socket that it was started with; empty when it has had a task:
	// it listens under the name in the specification of its next one.
	name   string
	parent string
	conn   *os.File
	child  *os.Process
	gone   chan struct{} // closed when the process has ended
}

// dismiss ends the shim. One that is stopped does not hear of it.
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

// ready waits until a shim, of which all was read up to the end of its task, has put that away; false: it has gone, or will.
func ready(said *bufio.Scanner) bool { return said.Scan() && said.Text() == "idle" }
