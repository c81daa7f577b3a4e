// Package doctor asks the Python of a node which trainings can run there: `python3 -m mind_runner doctor --json`.
//
// Guarantees: at most one such program runs at a time, for at most two minutes, and its answer counts for a minute. It
// gets the same variables of the agent's environment as a task, so it finds the Python that a launcher finds. If the
// node lacks Python or the runner, the answer says in a sentence what to install.
package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

const (
	// fresh is how long an answer counts.
	fresh = time.Minute
	// patience limits a run: the first import of torch reads gigabytes.
	patience = 2 * time.Minute
	// maxOutput limits how much of each of its outputs is kept.
	maxOutput = 1 << 20
	// lastWords limits the wait for the outputs of a killed program, which its child processes may keep open.
	lastWords = time.Second
)

// Doctor runs the program when it is asked.
type Doctor struct {
	// Node is the name of the node, Env the environment of the program.
	Node string
	Env  []string
	// Context ends with the agent; its end also ends a run.
	Context context.Context

	mu   sync.Mutex
	last *v1.NodeTraining
	at   time.Time
	// over is closed at the end of the run in progress; nil: there is none.
	over chan struct{}
}

// Ask returns the result of the newest run, and waits for another run if that result is more than a minute old. If the
// caller stops waiting, the run continues.
func (d *Doctor) Ask(ctx context.Context) (*v1.NodeTraining, error) {
	d.mu.Lock()
	if d.over == nil && d.last != nil && time.Since(d.at) < fresh {
		defer d.mu.Unlock()
		return proto.CloneOf(d.last), nil
	}
	if d.over == nil {
		over := make(chan struct{})
		d.over = over
		go func() {
			found := d.run()
			d.mu.Lock()
			d.last, d.at, d.over = found, time.Now(), nil
			d.mu.Unlock()
			close(over)
		}()
	}
	over := d.over
	d.mu.Unlock()
	select {
	case <-over:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return proto.CloneOf(d.last), nil
}

func (d *Doctor) run() *v1.NodeTraining {
	found, problem := d.look()
	if problem != "" {
		found = &v1.NodeTraining{Problem: problem}
	}
	found.NodeId, found.CheckedAt = d.Node, timestamppb.Now()
	return found
}

// look runs the program; problem explains why there is no answer.
func (d *Doctor) look() (found *v1.NodeTraining, problem string) {
	python, err := exec.LookPath("python3")
	if err != nil {
		return nil, fmt.Sprintf("node %s has no python3: install Python 3.10 or newer, then python3 -m pip install './python[train]' in a clone of Mind's repository", d.Node)
	}
	ctx, cancel := context.WithTimeout(d.Context, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-m", "mind_runner", "doctor", "--json")
	var out, errs limited
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = d.Env, "/", &out, &errs, lastWords
	// The process group is killed as a whole: processes that the program has started end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err = cmd.Run()
	found = &v1.NodeTraining{}
	parse := protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(lastLine(out.Bytes()), found)
	switch {
	case parse == nil && len(found.GetCells()) > 0:
		return found, "" // exit code 1 says that nothing can be trained
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Sprintf("node %s: %s -m mind_runner doctor took longer than %v: its disk or a GPU may hang", d.Node, python, patience)
	case strings.Contains(errs.String(), "No module named mind_runner"):
		return nil, fmt.Sprintf("node %s has no Python module mind_runner: run %s -m pip install './python[train]' in a clone of Mind's repository", d.Node, python)
	case err != nil:
		return nil, fmt.Sprintf("node %s: %s -m mind_runner doctor ended with %v: %.300s", d.Node, python, err, lastLine(errs.Bytes()))
	}
	return nil, fmt.Sprintf("node %s: %s -m mind_runner doctor printed no report: install the mindcoordinator that comes with this version of mind", d.Node, python)
}

// lastLine returns the last line of an output: libraries print warnings before it.
func lastLine(out []byte) []byte {
	out = bytes.TrimSpace(out)
	return bytes.ToValidUTF8(out[bytes.LastIndexByte(out, '\n')+1:], nil)
}

// limited keeps the beginning of an output.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	l.Buffer.Write(p[:min(len(p), max(0, maxOutput-l.Len()))])
	return len(p), nil
}
