package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/agent/runner"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/tasklog"
	"github.com/mindcoordinator/mind/chaos/check"
)

// Behaviour describes what the program of a task does. Argv encodes it as a command line, and parse decodes that.
type Behaviour struct {
	// Run is how long it works, Exit the exit code after that.
	Run  time.Duration
	Exit int
	// Linger is how long it takes to end after SIGTERM; Stubborn programs wait for SIGKILL.
	Linger   time.Duration
	Stubborn bool
	// Save is how often it saves a checkpoint; 0: never.
	Save time.Duration
}

// Argv returns the command line of a program with the behaviour.
func (b Behaviour) Argv() []string {
	return []string{
		"virtual", "run=" + b.Run.String(), "exit=" + strconv.Itoa(b.Exit), "linger=" + b.Linger.String(),
		"stubborn=" + strconv.FormatBool(b.Stubborn), "save=" + b.Save.String(),
	}
}

func parseBehaviour(argv []string) (b Behaviour, err error) {
	if len(argv) == 0 || argv[0] != "virtual" {
		return b, fmt.Errorf("%q is no program of this world", argv)
	}
	for _, arg := range argv[1:] {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "run":
			b.Run, err = time.ParseDuration(value)
		case "exit":
			b.Exit, err = strconv.Atoi(value)
		case "linger":
			b.Linger, err = time.ParseDuration(value)
		case "stubborn":
			b.Stubborn, err = strconv.ParseBool(value)
		case "save":
			b.Save, err = time.ParseDuration(value)
		}
		if err != nil {
			return b, fmt.Errorf("argument %q: %w", arg, err)
		}
	}
	return b, nil
}

// process is a task's program together with its shim. One goroutine runs it; others send it requests.
type process struct {
	machine *Machine
	dir     string // of the task, as a path that is valid in all lives
	spec    shim.Spec
	does    Behaviour
	life    *check.Life
	pid     int

	requests chan func()
	killed   chan struct{} // the machine lost power
	done     chan struct{}

	// The fields below belong to the process's own goroutine.
	started         time.Time
	deadline        shim.Deadline
	lapsed          bool // it is being stopped because of its deadline
	stopped, termed bool
	termAt, killAt  time.Time
	term            time.Duration
	endAt           time.Time // when its work is done, or it ends after a signal
	saveAt          time.Time
	saves           int
	exit            shim.Exit
	followers       []*handle
}

// run runs the process to its end.
func (p *process) run() {
	defer close(p.done)
	for {
		now := time.Now()
		if p.step(now) {
			p.over(now)
			return
		}
		timer := time.NewTimer(max(0, p.next().Sub(now)))
		select {
		case f := <-p.requests:
			f()
		case <-timer.C:
		case <-p.killed:
			timer.Stop()
			p.machine.world.End(p.life, -1, "the power went")
			return
		}
		timer.Stop()
	}
}

// step does the actions that are due. end reports whether the process has ended.
func (p *process) step(now time.Time) (end bool) {
	if d := p.deadline; d.StopAt != 0 {
		clock := p.machine.Clock()
		// Like the real shim, it kills the program a little before that must be dead.
		killAt := d.DeadBy - min(int64(250*time.Millisecond), (d.DeadBy-d.StopAt)/4)
		switch {
		case clock < d.StopAt:
		case !p.lapsed:
			p.lapsed = true
			if !p.stopped {
				p.exit.Stopped, p.exit.Failure = true, shim.FailureNodeLost
				p.exit.Message = "stopped by its own node: no coordinator answered in time"
			}
			left := time.Duration(max(0, killAt-clock))
			p.ask(now, shim.StopRequest{Notice: left - left/4, Term: left / 4})
		case clock >= killAt:
			p.ask(now, shim.StopRequest{})
		}
	}
	if p.stopped && !now.Before(p.termAt) && !p.termed {
		p.termed = true
		if !p.does.Stubborn {
			p.endAt = now.Add(p.does.Linger)
			p.exit.Code, p.exit.Signal = 128+15, 15
		}
	}
	switch {
	case p.stopped && !now.Before(p.killAt):
		p.exit.Code, p.exit.Signal = 128+9, 9
		return true
	case !p.endAt.IsZero() && !now.Before(p.endAt):
		return true
	case p.endAt.IsZero() && !now.Before(p.started.Add(p.does.Run)):
		p.exit.Code = p.does.Exit
		return true
	}
	if p.does.Save > 0 && !now.Before(p.saveAt) {
		p.save()
		p.saveAt = now.Add(p.does.Save)
	}
	return false
}

// next returns when the next action is due.
func (p *process) next() time.Time {
	at := p.started.Add(p.does.Run)
	sooner := func(t time.Time) {
		if !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	if p.termed && !p.does.Stubborn || !p.endAt.IsZero() {
		at = p.endAt
	}
	if p.stopped {
		if !p.termed {
			sooner(p.termAt)
		}
		sooner(p.killAt)
	}
	if p.does.Save > 0 {
		sooner(p.saveAt)
	}
	if d := p.deadline; d.StopAt != 0 {
		if !p.lapsed {
			sooner(p.machine.when(d.StopAt))
		} else {
			sooner(p.machine.when(d.DeadBy - min(int64(250*time.Millisecond), (d.DeadBy-d.StopAt)/4)))
		}
	}
	return at
}

// ask adds a request to stop; a later request can only make the end come sooner.
func (p *process) ask(now time.Time, r shim.StopRequest) {
	p.exit.Stopped = true
	p.term = max(p.term, r.Term)
	termAt := now.Add(max(0, r.Notice))
	killAt := termAt.Add(max(0, r.Term))
	if !p.stopped {
		p.stopped, p.termAt, p.killAt = true, termAt, killAt
		if r.Notice > 0 && p.does.Save > 0 {
			p.save() // programs save their state on a notice
		}
		return
	}
	if termAt.Before(p.termAt) {
		p.termAt = termAt
	}
	if killAt.Before(p.killAt) {
		p.killAt = killAt
	}
}

// extend takes a deadline from an agent.
func (p *process) extend(d shim.Deadline) {
	if p.lapsed || p.machine.immortal {
		return
	}
	p.deadline.StopAt = max(p.deadline.StopAt, d.StopAt)
	p.deadline.DeadBy = max(p.deadline.DeadBy, d.DeadBy)
	p.deadline.Renewed = max(p.deadline.Renewed, d.Renewed)
}

// save writes a checkpoint: a directory that is renamed into place when it is complete.
func (p *process) save() {
	if p.spec.CheckpointDir == "" {
		return
	}
	p.saves++
	name := fmt.Sprintf("checkpoint-%d-%d-%d", p.spec.Rank, p.spec.Attempt, p.saves)
	// The process must not use the link of the agent's life, which is removed when the agent crashes.
	dir := TruePath(p.spec.CheckpointDir)
	tmp := filepath.Join(dir, "tmp-"+name)
	if os.MkdirAll(tmp, 0o700) == nil && os.WriteFile(filepath.Join(tmp, "weights"), []byte(name), 0o600) == nil {
		_ = os.Rename(tmp, filepath.Join(dir, name))
	}
}

// over ends the process. It writes the exit to disk before it reports it.
func (p *process) over(now time.Time) {
	p.exit.Pid, p.exit.Started, p.exit.Ended = p.pid, p.started.UnixNano(), now.UnixNano()
	log := tasklog.NewWriter(p.dir, tasklog.Limits{})
	lines := log.Stream(tasklog.Stdout)
	for i := range p.life.Lines {
		lines.Write(now, fmt.Appendf(nil, "%s line %d of %d\n", p.spec.JobID, i+1, p.life.Lines))
	}
	log.Close(now)
	_ = os.WriteFile(filepath.Join(p.dir, shim.ExitFile), p.exit.JSON(), 0o600)
	why := "its work was done"
	switch {
	case p.lapsed:
		why = "its deadline"
	case p.exit.Stopped:
		why = "it was told to stop"
	}
	p.machine.world.End(p.life, p.exit.Code, why)
	for _, h := range p.followers {
		h.tell(runner.Event{Exit: &p.exit})
	}
}

// request makes the process run f. It returns false if the process has ended.
func (p *process) request(f func()) bool {
	select {
	case p.requests <- f:
		return true
	case <-p.done:
		return false
	}
}
