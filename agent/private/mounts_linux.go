package private

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/safedir"
)

// mountInfo describes the mounts of this thread, which are the mounts of the process; see proc_pid_mountinfo(5).
const mountInfo = "/proc/thread-self/mountinfo"

// mount is a line of mountInfo.
type mount struct {
	id uint64
	// root is the mounted directory.
	root spot
	// point is the path at which it is mounted.
	point string
}

// mounts reads mountInfo when it has changed.
type mounts struct {
	mu sync.Mutex
	// fd is open on mountInfo while table is not nil. The runtime's poller must not have it: the kernel reports a
	// change only once.
	fd    int
	table []mount
}

// read returns the current mounts.
func (m *mounts) read() ([]mount, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.table != nil && !m.changed() {
		return m.table, nil
	}
	table, err := m.again()
	if err != nil {
		m.shut()
		return nil, fmt.Errorf("read the mounts: %w", err)
	}
	m.table = table
	return table, nil
}

// again reads all of mountInfo.
func (m *mounts) again() ([]mount, error) {
	if m.table == nil {
		fd, err := unix.Open(mountInfo, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		m.fd, m.table = fd, []mount{}
	}
	if _, err := unix.Seek(m.fd, 0, io.SeekStart); err != nil {
		return nil, err
	}
	var text []byte
	for part := make([]byte, 64<<10); ; {
		n, err := unix.Read(m.fd, part)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, err
		case n == 0:
			return parse(string(text))
		default:
			text = append(text, part[:n]...)
		}
	}
}

// changed asks the kernel whether a mount was added or removed since the last call.
func (m *mounts) changed() bool {
	poll := []unix.PollFd{{Fd: int32(m.fd), Events: unix.POLLPRI}}
	n, err := unix.Poll(poll, 0)
	return err != nil || n > 0
}

func (m *mounts) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shut()
}

func (m *mounts) shut() {
	if m.table != nil {
		_ = unix.Close(m.fd)
		m.table = nil
	}
}

// parse reads the text of mountInfo.
func parse(text string) (table []mount, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			return nil, fmt.Errorf("a line of %s has %d fields", mountInfo, len(fields))
		}
		id, err := strconv.ParseUint(fields[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("a line of %s begins with %q", mountInfo, fields[0])
		}
		table = append(table, mount{id: id, root: spot{fields[2], unescape(fields[3])}, point: unescape(fields[4])})
	}
	return table, nil
}

// unescape replaces the octal codes of spaces, tabs, line ends and backslashes.
func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

// locate returns the spot of a path without links. If its last parts do not exist, it returns the spot of the part that
// does.
func locate(table []mount, path string) (spot, error) {
	var stat unix.Statx_t
	exists := path
	for {
		err := unix.Statx(unix.AT_FDCWD, exists, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &stat)
		if err == nil {
			break
		}
		// A file server may not let root in.
		if err != unix.ENOENT && err != unix.EACCES || exists == filepath.Dir(exists) {
			return spot{}, &os.PathError{Op: "statx", Path: exists, Err: err}
		}
		exists = filepath.Dir(exists)
	}
	for _, m := range table {
		if m.id != stat.Mnt_id {
			continue
		}
		rel, err := filepath.Rel(m.point, path)
		if err != nil || !filepath.IsLocal(rel) {
			return spot{}, fmt.Errorf("%s is not below the mount point %s", path, m.point)
		}
		return spot{m.root.device, filepath.Join(m.root.path, rel)}, nil
	}
	return spot{}, fmt.Errorf("no mount contains %s", path)
}

// below returns the directories that are mounted below a directory.
func below(table []mount, dir string) (spots []spot) {
	for _, m := range table {
		// Names of the kernel are clean: most mounts are told by their first bytes.
		if m.point != dir && (strings.HasPrefix(m.point, dir) && safedir.Within(m.point, dir)) {
			spots = append(spots, m.root)
		}
	}
	return spots
}
