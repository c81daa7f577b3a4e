package observe

import (
	"bytes"
	"encoding/binary"
	"sync"

	"golang.org/x/sys/unix"
)

// Renames records which names in some directories were created by a rename: a checkpoint that was renamed into place is
// complete, and one that was created in place may be incomplete. The kernel reports renames (inotify), also on network
// file systems, because the task runs on this machine. No goroutine is needed: the kernel's events are read when asked
// for.
type Renames struct {
	mu   sync.Mutex
	fd   int // -1: the kernel reports nothing
	dirs map[string]*renamesDir
	wds  map[int32]*renamesDir
}

type renamesDir struct {
	wd    int32
	users int
	moved map[string]bool
}

const renamesMask = unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_CREATE | unix.IN_DELETE | unix.IN_ONLYDIR

// NewRenames asks the kernel to report renames.
func NewRenames() *Renames {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		fd = -1 // the kernel limits the instances of a user, by default to 128
	}
	return &Renames{fd: fd, dirs: make(map[string]*renamesDir), wds: make(map[int32]*renamesDir)}
}

// Close stops the reports.
func (m *Renames) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fd >= 0 {
		_ = unix.Close(m.fd)
		m.fd = -1
	}
}

// follow starts to record renames in an existing directory; the caller calls forget at the end.
func (m *Renames) follow(dir string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d, ok := m.dirs[dir]; ok {
		d.users++
		return
	}
	if m.fd < 0 {
		return
	}
	wd, err := unix.InotifyAddWatch(m.fd, dir, renamesMask)
	if err != nil {
		return
	}
	d, ok := m.wds[int32(wd)]
	if !ok { // otherwise it is the same directory by another name
		d = &renamesDir{wd: int32(wd), moved: make(map[string]bool)}
		m.wds[d.wd] = d
	}
	d.users++
	m.dirs[dir] = d
}

func (m *Renames) forget(dir string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, ok := m.dirs[dir]
	if !ok {
		return
	}
	if d.users--; d.users > 0 {
		return
	}
	for name, other := range m.dirs {
		if other == d {
			delete(m.dirs, name)
		}
	}
	delete(m.wds, d.wd)
	if m.fd >= 0 {
		_, _ = unix.InotifyRmWatch(m.fd, uint32(d.wd))
	}
}

// into reports whether the current entry with the name got it by a rename.
func (m *Renames) into(dir, name string) bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read()
	d, ok := m.dirs[dir]
	return ok && d.moved[name]
}

func (m *Renames) read() {
	buf := make([]byte, 64<<10)
	for m.fd >= 0 {
		n, err := unix.Read(m.fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		for rest := buf[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			wd := int32(binary.NativeEndian.Uint32(rest))
			mask := binary.NativeEndian.Uint32(rest[4:])
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(rest[12:]))
			name := string(bytes.TrimRight(rest[unix.SizeofInotifyEvent:size], "\x00"))
			rest = rest[size:]
			if mask&unix.IN_Q_OVERFLOW != 0 {
				for _, d := range m.wds {
					clear(d.moved)
				}
				continue
			}
			if d, ok := m.wds[wd]; ok {
				if mask&unix.IN_MOVED_TO != 0 {
					d.moved[name] = true
				} else {
					delete(d.moved, name)
				}
			}
		}
	}
}
