package shim

import "time"

// leftoverGrace is the minimum time from SIGTERM to SIGKILL for processes that outlive the command.
const leftoverGrace = 2 * time.Second

// StopRequest is a request to stop a task.
type StopRequest struct {
	// Notice is the time from SIGUSR1 to SIGTERM; 0: SIGTERM at once, without a notice.
	Notice time.Duration
	// Term is the time from SIGTERM to SIGKILL.
	Term time.Duration
}

// Action is a step of a stop.
type Action int

// The actions that StopPlan.Step returns.
const (
	ActNone Action = iota
	ActNotice
	ActTerm
	ActKill
)

// StopPlan decides which signal is due. It is pure: times are passed in. The shim and simulations use it.
type StopPlan struct {
	asked           bool
	notice          bool // due
	noticed, termed bool
	killing         bool
	termAt, killAt  time.Time
	term            time.Duration // the longest requested one
	pause           time.Duration
}

// Ask adds a request. A later request can only make the end come sooner.
func (p *StopPlan) Ask(now time.Time, r StopRequest) {
	p.term = max(p.term, r.Term)
	termAt := now.Add(max(0, r.Notice))
	killAt := termAt.Add(max(0, r.Term))
	if !p.asked {
		p.asked, p.termAt, p.killAt = true, termAt, killAt
		p.notice = r.Notice > 0
		return
	}
	p.termAt = earlier(p.termAt, termAt)
	p.killAt = earlier(p.killAt, killAt)
}

// leftovers is called when the command has ended and other processes of the task have not.
func (p *StopPlan) leftovers(now time.Time) {
	p.notice, p.noticed = false, true
	p.Ask(now, StopRequest{Term: max(p.term, leftoverGrace)})
}

// Step returns the action that is due, or the time until one is.
func (p *StopPlan) Step(now time.Time) (Action, time.Duration) {
	switch {
	case !p.asked:
		return ActNone, time.Hour
	case p.notice && !p.noticed && now.Before(p.termAt):
		p.noticed = true
		return ActNotice, 0
	case now.Before(p.termAt):
		return ActNone, p.termAt.Sub(now)
	case !p.termed:
		p.termed = true
		return ActTerm, 0
	case now.Before(p.killAt):
		return ActNone, p.killAt.Sub(now)
	case !p.killing:
		p.killing = true
		return ActKill, 0
	}
	// SIGKILL is sent repeatedly: a process may have forked during the search, or be in a system call that cannot be
	// interrupted yet.
	p.killing = false
	p.pause = min(max(2*p.pause, 2*time.Millisecond), time.Second)
	p.killAt = now.Add(p.pause)
	return ActNone, p.pause
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
