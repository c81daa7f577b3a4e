package shim

import (
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// killRoom is how long before the deadline the task is killed: the kernel needs a moment for that.
const killRoom = 250 * time.Millisecond

const clockBoottime = 7

// Boottime returns the nanoseconds since the machine started, including sleep. It is the same for all processes of a
// machine.
func Boottime() int64 {
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic("read CLOCK_BOOTTIME: " + errno.Error())
	}
	return ts.Nano()
}

// enforcer enforces the deadline of a task.
type enforcer struct {
	deadline Deadline
	// begun: the task is being stopped for its deadline, and later deadlines do not count.
	begun bool
	alarm chan struct{}
	timer *os.File // nil: the kernel has none
	fd    int      // of it: asked for it, the file would block from then on
}

// close ends the alarm.
func (l *enforcer) close() {
	if l.timer != nil {
		_ = l.timer.Close()
	}
}

func (d Deadline) past() bool { return d.StopAt != 0 && Boottime() >= d.StopAt }

// silence says why a task was stopped.
func (d Deadline) silence() string {
	if d.Renewed == 0 {
		return "no coordinator answered in time"
	}
	return "no coordinator answered for " + strconv.FormatInt((Boottime()-d.Renewed)/int64(time.Second), 10) + " s"
}

// extend takes a deadline from an agent. It does not touch the alarm: if that fires too early, it is set again. So an
// extension costs almost nothing.
func (s *shim) extend(deadline Deadline) {
	if s.lease.begun {
		return
	}
	s.lease.deadline = s.lease.deadline.later(deadline)
	s.door.keep(s.lease.deadline)
	if s.lease.alarm == nil {
		s.enforce()
	}
}

// enforce does what the deadline requires now.
func (s *shim) enforce() {
	l := &s.lease
	if l.deadline.StopAt == 0 {
		return
	}
	now := Boottime()
	room := min(int64(killRoom), (l.deadline.DeadBy-l.deadline.StopAt)/4)
	switch killAt := l.deadline.DeadBy - room; {
	case now < l.deadline.StopAt:
		l.wake(l.deadline.StopAt)
	case !l.begun:
		l.begun = true
		if s.exit.Ended == 0 && !s.exit.Stopped {
			s.exit.Stopped = true
			s.exit.Failure, s.exit.Message = FailureNodeLost, "stopped by its own node: "+l.deadline.silence()
			// The log is written later: nothing here may wait for a disk.
		}
		left := time.Duration(max(0, killAt-now))
		s.plan.ask(time.Now(), StopRequest{Notice: left - left/4, Term: left / 4})
		l.wake(killAt)
	case now < killAt:
		l.wake(killAt)
	default:
		// The plan uses a clock that stops while the machine sleeps.
		s.plan.ask(time.Now(), StopRequest{})
	}
}

// wake sets the alarm to a time. A timer of the runtime would be late by the time that the machine slept.
func (l *enforcer) wake(at int64) {
	if l.alarm == nil {
		l.alarm = make(chan struct{}, 1)
		l.fd, l.timer = newTimer(l.alarm)
	}
	spec := [2]syscall.Timespec{1: syscall.NsecToTimespec(at)}
	const absolute = 1
	if l.timer != nil {
		if _, _, errno := syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, uintptr(l.fd), absolute, uintptr(unsafe.Pointer(&spec)), 0, 0, 0); errno == 0 {
			return
		}
	}
	alarm := l.alarm
	time.AfterFunc(time.Duration(max(0, at-Boottime())), func() { ring(alarm) })
}

func ring(alarm chan<- struct{}) {
	select {
	case alarm <- struct{}{}:
	default:
	}
}

// newTimer returns a timer that fires until it is closed; nil if the kernel has none.
func newTimer(alarm chan<- struct{}) (int, *os.File) {
	fd, _, errno := syscall.RawSyscall(syscall.SYS_TIMERFD_CREATE, clockBoottime, syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if errno != 0 {
		return -1, nil
	}
	file := os.NewFile(fd, "alarm")
	go func() {
		var expirations [8]byte
		for {
			if _, err := file.Read(expirations[:]); err != nil {
				return
			}
			ring(alarm)
		}
	}()
	return int(fd), file
}
