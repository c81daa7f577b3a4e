package shim

import (
	"bytes"
	"strconv"
	"time"
)

// Lease is the lease of a task; package lease computes it. The shim enforces the latest deadline that it got, even
// without the agent. The other fields are kept for the next agent.
type Lease struct {
	// Ns and StopNs are the lease and the time for a stop, in nanoseconds.
	Ns, StopNs  int64
	Replaceable bool
	// Deadline is the deadline at the launch.
	Deadline
}

// Deadline is when a task must end. All values are nanoseconds of Boottime: neither clock changes nor sleep of the machine
// affect them.
type Deadline struct {
	// StopAt is when the shim starts to stop the task, DeadBy when no process of it may be left. A stop is never canceled.
	// 0: never.
	StopAt, DeadBy int64
	// Renewed is when the last acknowledged renewal was sent; it is used in messages only.
	Renewed int64
}

const deadlineWord = "deadline"

// Line formats the deadline as a line.
func (d Deadline) Line() string {
	return deadlineWord + " " + strconv.FormatInt(d.StopAt, 10) + " " + strconv.FormatInt(d.DeadBy, 10) + " " + strconv.FormatInt(d.Renewed, 10) + "\n"
}

// ParseDeadline parses a result of Line, without the line end.
func ParseDeadline(line string) (Deadline, bool) {
	fields := bytes.Fields([]byte(line))
	if len(fields) != 4 || string(fields[0]) != deadlineWord {
		return Deadline{}, false
	}
	var d Deadline
	ok := parseNumbers(fields[1:], &d.StopAt, &d.DeadBy, &d.Renewed) && d.StopAt > 0 && d.DeadBy >= d.StopAt
	return d, ok
}

// later returns the later of two deadlines: agents only set deadlines that they are entitled to, and two agents may be
// connected for a while, one of them about to end.
func (d Deadline) later(other Deadline) Deadline {
	return Deadline{StopAt: max(d.StopAt, other.StopAt), DeadBy: max(d.DeadBy, other.DeadBy), Renewed: max(d.Renewed, other.Renewed)}
}

// Past reports whether the stop should have begun.
func (d Deadline) Past(now int64) bool { return d.StopAt != 0 && now >= d.StopAt }

// Hold decides when a task must be stopped because of its deadline. It is pure: times are passed in. The shim and
// simulations use it.
type Hold struct {
	Deadline
	// begun: the task is being stopped because of the deadline, and later deadlines do not count.
	begun bool
}

// killRoom is how long before its DeadBy a task is killed: the kernel needs a moment for that.
const killRoom = 250 * time.Millisecond

// Extend takes a deadline from an agent. It returns false if that is too late.
func (h *Hold) Extend(deadline Deadline) bool {
	if h.begun {
		return false
	}
	h.Deadline = h.later(deadline)
	return true
}

// Due describes what a deadline requires.
type Due struct {
	// Begins: the stop begins now.
	Begins bool
	// Ask: pass Stop to the StopPlan's Ask.
	Ask  bool
	Stop StopRequest
	// LookAt is when to call Look again; 0: there is no need to.
	LookAt int64
}

// Look returns what the deadline requires at a time.
func (h *Hold) Look(now int64) Due {
	if h.StopAt == 0 {
		return Due{}
	}
	room := min(int64(killRoom), (h.DeadBy-h.StopAt)/4)
	switch killAt := h.DeadBy - room; {
	case now < h.StopAt:
		return Due{LookAt: h.StopAt}
	case !h.begun:
		h.begun = true
		left := time.Duration(max(0, killAt-now))
		return Due{Begins: true, Ask: true, Stop: StopRequest{Notice: left - left/4, Term: left / 4}, LookAt: killAt}
	case now < killAt:
		return Due{LookAt: killAt}
	}
	// The plan's clock stops while the machine sleeps, so the kill is requested directly.
	return Due{Ask: true}
}

func parseNumbers(fields [][]byte, into ...*int64) bool {
	for i, field := range fields {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return false
		}
		*into[i] = n
	}
	return true
}

func (l Lease) text() string {
	replaceable := "0 "
	if l.Replaceable {
		replaceable = "1 "
	}
	line := l.Line()
	return strconv.FormatInt(l.Ns, 10) + " " + strconv.FormatInt(l.StopNs, 10) + " " + replaceable + line[len(deadlineWord)+1:len(line)-1]
}

func (l *Lease) parse(text string) bool {
	fields := bytes.Fields([]byte(text))
	if len(fields) != 6 {
		return false
	}
	var replaceable int64
	ok := parseNumbers(fields, &l.Ns, &l.StopNs, &replaceable, &l.StopAt, &l.DeadBy, &l.Renewed)
	l.Replaceable = replaceable != 0
	return ok
}
