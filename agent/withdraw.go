package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskfile"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// withdrawnFile, in a task directory, says that the coordinators did not want the task any more while it still ran. What it
// does from then on is not told: another attempt may be at work.
const withdrawnFile = "withdrawn"

// withdraw notes that a task is not wanted any more. It runs on the owner's goroutine.
func (a *agent) withdraw(t *task) {
	t.disowned = true
	a.outbox.drop(t.key.ref())
	if t.state == queued {
		return // nothing of it is there
	}
	if err := taskfile.Replace(t.dir, withdrawnFile, nil); err != nil && !errors.Is(err, fs.ErrNotExist) {
		// The next agent finds out when it gets its orders.
		a.log.Error("cannot write down that a task is not wanted any more", "dir", t.dir, "error", err)
	}
}

// stayWithdrawn is for a task that an earlier agent had been told to stop.
func (a *agent) stayWithdrawn(t *task) {
	if _, err := os.Lstat(filepath.Join(t.dir, withdrawnFile)); err != nil {
		return
	}
	t.disowned = true
	request := stopRequest(v1.StopReason_STALE, maxTerm)
	t.stop = &shim.StopRequest{Notice: request.Notice, Term: request.Term}
}
