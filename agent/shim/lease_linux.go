package shim

import (
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

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

// enforcer enforces the deadline of a task with an alarm.
type enforcer struct {
	Hold
	alarm chan struct{}
	timer *os.File // nil: the kernel has none
	fd    int      // of timer; timer.Fd() would make its reads block
}

// close ends the alarm.
func (l *enforcer) close() {
	if l.timer != nil {
		_ = l.timer.Close()
	}
}

// silence returns the reason for a stop because of the deadline.
func (d Deadline) silence() string {
	if d.Renewed == 0 {
		return "no coordinator answered in time"
	}
	return "no coordinator answered for " + strconv.FormatInt((Boottime()-d.Renewed)/int64(time.Second), 10) + " s"
}

// extend takes a deadline from an agent. It does not change the alarm, so it costs almost nothing: an alarm that goes
// off too early is set again.
func (s *shim) extend(deadline Deadline) {
	if !s.lease.Extend(deadline) {
		return
	}
	s.door.keep(s.lease.Deadline)
	if s.lease.alarm == nil {
		s.enforce()
	}
}

// enforce does what the deadline requires at the moment.
func (s *shim) enforce() {
	due := s.lease.Look(Boottime())
	if due.Begins && s.exit.Ended == 0 && !s.exit.Stopped {
		s.exit.Stopped = true
		s.exit.Failure, s.exit.Message = FailureNodeLost, "stopped by its own node: "+s.lease.silence()
		// The remark is written to the log later: nothing here may wait for a disk.
	}
	if due.Ask {
		s.plan.Ask(time.Now(), due.Stop)
	}
	if due.LookAt != 0 {
		s.lease.wake(due.LookAt)
	}
}

// wake sets the alarm to a time. The runtime's timers stop while the machine sleeps, and would be late.
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

// newTimer returns a timer that sends to alarm until it is closed. It returns nil if the kernel has no such timer.
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
