package shim

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// door is the socket over which agents learn what happens to the task and tell
// the shim to stop it. Lines of text go both ways:
//
//	to the agent:  deadline STOP-AT DEAD-BY RENEWED    started PID UNIXNANOS    exited EXIT-AS-JSON
//	to the shim:   deadline STOP-AT DEAD-BY RENEWED    stop NOTICE-MS TERM-MS    task NAME (to one that waits)
//
// An agent that connects late is told the present state at once. The deadline is told to those who connect, not at each
// change: it is an agent that brings it.
type door struct {
	requests  chan StopRequest
	deadlines chan Deadline

	mu       sync.Mutex
	deadline Deadline
	lines    []byte
	conns    map[*os.File]struct{}
}

// openDoor serves the listening socket that the shim inherited. Without one it
// runs all the same: the state is on disk, too.
func openDoor(fd int, first *caller, deadline Deadline) *door {
	d := &door{requests: make(chan StopRequest), deadlines: make(chan Deadline), deadline: deadline, conns: make(map[*os.File]struct{})}
	if syscall.SetNonblock(fd, true) != nil {
		return d
	}
	// A connection that is waiting already is served before goroutines start.
	if first != nil {
		if syscall.SetNonblock(first.fd, true) == nil {
			d.serve(os.NewFile(uintptr(first.fd), "agent"), first.pending)
		}
	} else if conn, ok := accept(uintptr(fd)); ok && conn != nil {
		d.serve(conn, nil)
	}
	listener := os.NewFile(uintptr(fd), "door")
	raw, err := listener.SyscallConn()
	if err != nil {
		return d
	}
	go func() {
		for {
			var conn *os.File
			err := raw.Read(func(fd uintptr) (done bool) {
				conn, done = accept(fd)
				return done
			})
			if err != nil {
				return
			}
			if conn == nil {
				time.Sleep(10 * time.Millisecond) // out of descriptors
				continue
			}
			d.serve(conn, nil)
		}
	}()
	return d
}

// caller is the agent that a waiting shim was given its task by.
type caller struct {
	fd      int
	pending []byte // what it said after that
}

// awaitTask waits for the name of a task directory. There is no caller when
// the agent went away without one.
func awaitTask(listener int) (name string, _ *caller) {
	fd := -1
	for fd < 0 {
		nfd, _, err := syscall.Accept4(listener, syscall.SOCK_CLOEXEC)
		switch {
		case err == syscall.EINTR || err == syscall.ECONNABORTED:
		case err != nil:
			return "", nil
		case !trusted(nfd):
			_ = syscall.Close(nfd)
		default:
			fd = nfd
		}
	}
	var line []byte
	buf := make([]byte, 512)
	for len(line) < 2*len(buf) {
		n, err := syscall.Read(fd, buf)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return "", nil
		}
		line = append(line, buf[:n]...)
		end := bytes.IndexByte(line, '\n')
		if end < 0 {
			continue
		}
		word, task, _ := bytes.Cut(line[:end], []byte{' '})
		if string(word) != "task" || len(task) == 0 || task[0] == '.' || bytes.IndexByte(task, '/') >= 0 {
			return "", nil
		}
		return string(task), &caller{fd: fd, pending: line[end+1:]}
	}
	return "", nil
}

// trusted looks at who is on the other end: the name of the socket is no
// secret, and it has no permissions.
func trusted(fd int) bool {
	peer, err := syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	return err == nil && (peer.Uid == uint32(os.Geteuid()) || peer.Uid == 0)
}

// accept returns done when the wait is over, with a connection or without.
func accept(fd uintptr) (conn *os.File, done bool) {
	nfd, _, err := syscall.Accept4(int(fd), syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK)
	switch err {
	case nil:
		if !trusted(nfd) {
			_ = syscall.Close(nfd)
			return nil, false
		}
		return os.NewFile(uintptr(nfd), "agent"), true
	case syscall.EAGAIN, syscall.EINTR, syscall.ECONNABORTED:
		return nil, false
	}
	return nil, true
}

func (d *door) serve(conn *os.File, pending []byte) {
	d.mu.Lock()
	d.conns[conn] = struct{}{}
	if d.deadline != (Deadline{}) {
		d.send(conn, []byte(d.deadline.Line()))
	}
	d.send(conn, d.lines)
	d.mu.Unlock()
	go func() {
		d.listen(conn, pending)
		d.mu.Lock()
		delete(d.conns, conn)
		d.mu.Unlock()
		_ = conn.Close()
	}()
}

// announce tells everybody who is or will be connected.
func (d *door) announce(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(append(d.lines, line...), '\n')
	for conn := range d.conns {
		d.send(conn, []byte(line+"\n"))
	}
}

// keep has the deadline told to who connects from now on.
func (d *door) keep(deadline Deadline) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deadline = deadline
}

// send never waits long: an agent that does not read can ask again.
func (d *door) send(conn *os.File, data []byte) {
	if len(data) == 0 {
		return
	}
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = conn.Write(data)
}

func (d *door) listen(conn *os.File, pending []byte) {
	buf := make([]byte, 256)
	for {
		for {
			end := bytes.IndexByte(pending, '\n')
			if end < 0 {
				break
			}
			if request, ok := parseStop(pending[:end]); ok {
				d.requests <- request
			} else if deadline, ok := ParseDeadline(string(pending[:end])); ok {
				d.deadlines <- deadline
			}
			pending = pending[end+1:]
		}
		if len(pending) > 1024 {
			return
		}
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		pending = append(pending, buf[:n]...)
	}
}

func parseStop(line []byte) (StopRequest, bool) {
	fields := bytes.Fields(line)
	if len(fields) != 3 || string(fields[0]) != "stop" {
		return StopRequest{}, false
	}
	notice, err1 := strconv.ParseInt(string(fields[1]), 10, 32)
	term, err2 := strconv.ParseInt(string(fields[2]), 10, 32)
	if err1 != nil || err2 != nil {
		return StopRequest{}, false
	}
	return StopRequest{Notice: time.Duration(notice) * time.Millisecond, Term: time.Duration(term) * time.Millisecond}, true
}
