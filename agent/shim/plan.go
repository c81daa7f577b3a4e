package shim

import "time"

// leftoverGrace is the minimum time that processes that outlive the command get, from SIGTERM to SIGKILL.
const leftoverGrace = 2 * time.Second

// StopRequest says how to stop a task.
type StopRequest struct {
	// Notice is the time from SIGUSR1 to SIGTERM; 0: SIGTERM at once, without a notice.
	Notice time.Duration
	// Term is the time from SIGTERM to SIGKILL.
	Term time.Duration
}

type action int

const (
	actNone action = iota
	actNotice
	actTerm
	actKill
)

// stopPlan decides which signal is due. It is pure: time is passed in.
type stopPlan struct {
	asked           bool
	notice          bool // due
	noticed, termed bool
	killing         bool
	termAt, killAt  time.Time
	term            time.Duration // the longest asked for
	pause           time.Duration
}

// ask adds a request. A second one can only make the end come sooner.
func (p *stopPlan) ask(now time.Time, r StopRequest) {
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

// leftovers is called when the command ended and other processes are alive.
func (p *stopPlan) leftovers(now time.Time) {
	p.notice, p.noticed = false, true
	p.ask(now, StopRequest{Term: max(p.term, leftoverGrace)})
}

// step returns what is due now, or how long nothing is.
func (p *stopPlan) step(now time.Time) (action, time.Duration) {
	switch {
	case !p.asked:
		return actNone, time.Hour
	case p.notice && !p.noticed && now.Before(p.termAt):
		p.noticed = true
		return actNotice, 0
	case now.Before(p.termAt):
		return actNone, p.termAt.Sub(now)
	case !p.termed:
		p.termed = true
		return actTerm, 0
	case now.Before(p.killAt):
		return actNone, p.killAt.Sub(now)
	case !p.killing:
		p.killing = true
		return actKill, 0
	}
	// Repeatedly: a process may have forked during the search, or be in a system call that cannot be interrupted yet.
	p.killing = false
	p.pause = min(max(2*p.pause, 2*time.Millisecond), time.Second)
	p.killAt = now.Add(p.pause)
	return actNone, p.pause
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
