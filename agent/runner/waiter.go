package runner

import (
	"bufio"
	"os"
	"time"
)

// dismissPatience is how long a dismissed shim may take to end. It has nothing to do before.
const dismissPatience = 5 * time.Second

// waiter is a shim that waits for its first or another task.
type waiter struct {
	// name is the name of its first socket; empty after its first task: then it listens on the name in the
	// specification of its next task.
	name   string
	parent string
	conn   *os.File
	child  *os.Process
	gone   chan struct{} // closed when the process has ended
	// end is the state of the ended process, once gone is closed.
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

// ready waits until a shim has cleaned up after its task, whose messages were all read. It returns false if the shim
// has ended or is ending.
func ready(said *bufio.Scanner) bool { return said.Scan() && said.Text() == "idle" }
