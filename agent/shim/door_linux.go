package shim

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// door is the socket over which agents learn about the task and tell the shim to stop it. Lines of text go both ways:
//
//	to the agent:  deadline STOP-AT DEAD-BY RENEWED    started PID UNIXNANOS    exited EXIT-AS-JSON    idle (see again)
//	to the shim:   deadline STOP-AT DEAD-BY RENEWED    stop NOTICE-MS TERM-MS    remark TEXT    task NAME (if it is idle)
//
// A shell has a connection of its own (see ShellWord).
//
// An agent that connects late gets the current state at once. The deadline is sent when an agent connects, not at each
// change: agents set it.
type door struct {
	requests  chan StopRequest
	deadlines chan Deadline
	shells    chan shellEvent
	over      chan struct{} // closed when requests, deadlines and shells are not read any more
	next      chan string   // the name of the next task, from the agent of this one; closed when that agent disconnects
	remark    func(text string)

	mu       sync.Mutex
	deadline Deadline
	lines    []byte
	listener *os.File
	conns    map[*os.File]struct{}
	agent    *caller
	visited  bool // by another agent
	shut     bool
}

// openDoor serves a listening socket. Without a socket the shim still runs: the state is also on disk.
func openDoor(fd int, agent *caller, deadline Deadline, remark func(text string)) *door {
	d := &door{
		remark:   remark,
		requests: make(chan StopRequest), deadlines: make(chan Deadline), shells: make(chan shellEvent), over: make(chan struct{}), next: make(chan string, 1),
		deadline: deadline, conns: make(map[*os.File]struct{}), agent: agent,
	}
	if syscall.SetNonblock(fd, true) != nil {
		return d
	}
	// A connection that already exists is served before goroutines start.
	if agent != nil {
		if agent.file == nil && syscall.SetNonblock(agent.fd, true) == nil {
			agent.file = os.NewFile(uintptr(agent.fd), "agent")
		}
		if agent.file != nil {
			d.serve(agent.file, agent.pending)
		}
	} else if conn, ok := accept(uintptr(fd)); ok && conn != nil {
		d.serve(conn, nil)
	}
	d.listener = os.NewFile(uintptr(fd), "door")
	raw, err := d.listener.SyscallConn()
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
				time.Sleep(10 * time.Millisecond) // no file descriptors are left
				continue
			}
			d.serve(conn, nil)
		}
	}()
	return d
}

// callers is the number of connections that wait to be accepted: shells that are opened at the same time come at once.
const callers = 128

// listen creates a listening socket with a name.
func listen(name string) (int, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	if err = syscall.Bind(fd, &syscall.SockaddrUnix{Name: name}); err == nil {
		err = syscall.Listen(fd, callers)
	}
	if err != nil {
		_ = syscall.Close(fd)
		return -1, err
	}
	return fd, nil
}

// close closes the socket of an ended task. It returns the task's agent if that is still connected and no other agent
// has connected.
func (d *door) close() *caller {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = true
	if d.listener != nil {
		_ = d.listener.Close()
	}
	if d.agent == nil || d.visited {
		return nil
	}
	if _, there := d.conns[d.agent.file]; !there {
		return nil
	}
	return d.agent
}

// caller is the agent that gave an idle shim its task.
type caller struct {
	fd      int
	file    *os.File // the connection, once it was served
	pending []byte   // bytes that it sent after the name of the task
}

// awaitTask waits for the name of a task directory. It returns no caller if the agent disconnected without one.
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
		name, ok := parseTask(line[:end])
		if !ok {
			return "", nil
		}
		return name, &caller{fd: fd, pending: line[end+1:]}
	}
	return "", nil
}

// trusted checks the user of the peer: the name of the socket is not secret, and it has no permissions.
func trusted(fd int) bool {
	peer, err := syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	return err == nil && (peer.Uid == uint32(os.Geteuid()) || peer.Uid == 0)
}

// accept accepts a connection. done reports whether the wait is over, with a connection or without.
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
	brought := d.agent != nil && conn == d.agent.file
	if d.shut {
		d.mu.Unlock()
		_ = conn.Close()
		return
	}
	d.visited = d.visited || !brought
	d.conns[conn] = struct{}{}
	if d.deadline != (Deadline{}) {
		d.send(conn, []byte(d.deadline.Line()))
	}
	d.send(conn, d.lines)
	d.mu.Unlock()
	go func() {
		task, rest := d.listen(conn, pending)
		if brought && task != "" {
			d.agent.pending = rest
			d.next <- task
			return
		}
		d.ask(shellEvent{conn: conn})
		d.mu.Lock()
		delete(d.conns, conn)
		d.mu.Unlock()
		_ = conn.Close()
		if brought {
			close(d.next)
		}
	}()
}

// ask passes on an event of a shell. It returns false if the task is over.
func (d *door) ask(e shellEvent) bool {
	select {
	case d.shells <- e:
		return true
	case <-d.over:
		e.close()
		return false
	}
}

// announce sends a line to all present and future connections.
func (d *door) announce(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(append(d.lines, line...), '\n')
	for conn := range d.conns {
		d.send(conn, []byte(line+"\n"))
	}
}

// keep stores the deadline for future connections.
func (d *door) keep(deadline Deadline) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deadline = deadline
}

// send sends data to an agent, and never blocks for long: an agent that does not read can connect again.
func (d *door) send(conn *os.File, data []byte) {
	if len(data) == 0 {
		return
	}
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = conn.Write(data)
}

// listen reads an agent's messages until it disconnects or names another task; rest are the bytes that it sent after
// that.
func (d *door) listen(conn *os.File, pending []byte) (task string, rest []byte) {
	buf := make([]byte, 256)
	var wanted shellEvent // the descriptors of a request for a shell
	defer wanted.close()
	for {
		for {
			if size, rest, ok := shellSize(pending); ok {
				if len(rest) < size {
					break
				}
				e := shellEvent{conn: conn, request: &Shell{}, fds: wanted.fds}
				wanted.fds = nil
				if !e.request.decode(rest[:size]) {
					e.close()
					return "", nil
				}
				if !d.ask(e) {
					return "", nil
				}
				pending = rest[size:]
				continue
			}
			end := bytes.IndexByte(pending, '\n')
			if end < 0 {
				break
			}
			line := pending[:end]
			pending = pending[end+1:]
			if request, ok := parseStop(line); ok {
				select {
				case d.requests <- request:
				case <-d.over:
				}
			} else if deadline, ok := ParseDeadline(string(line)); ok {
				select {
				case d.deadlines <- deadline:
				case <-d.over:
				}
			} else if text, ok := bytes.CutPrefix(line, []byte("remark ")); ok {
				d.remark(string(text))
			} else if name, ok := parseTask(line); ok {
				return name, pending
			}
		}
		if _, _, shell := shellSize(pending); !shell && len(pending) > 1024 || len(wanted.fds) > 3 {
			return "", nil
		}
		var n int
		var err error
		n, wanted.fds, err = receive(conn, buf, wanted.fds)
		if err != nil {
			return "", nil
		}
		pending = append(pending, buf[:n]...)
	}
}

// shellSize parses the line of a request for a shell at the beginning of what an agent has sent.
func shellSize(pending []byte) (size int, rest []byte, ok bool) {
	line, rest, whole := bytes.Cut(pending, []byte{'\n'})
	number, ok := bytes.CutPrefix(line, []byte(ShellWord+" "))
	if !whole || !ok {
		return 0, nil, false
	}
	size, err := strconv.Atoi(string(number))
	return size, rest, err == nil && size > 0 && size <= MaxShell
}

func parseTask(line []byte) (name string, ok bool) {
	word, task, _ := bytes.Cut(line, []byte{' '})
	if string(word) != "task" || len(task) == 0 || task[0] == '.' || bytes.IndexByte(task, '/') >= 0 {
		return "", false
	}
	return string(task), true
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
