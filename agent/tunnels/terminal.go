package tunnels

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// openTerminal makes a terminal: the end that the agent holds, and the one for the process.
func openTerminal(size *v1.TunnelSize) (master, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a terminal: open /dev/ptmx: %w", err)
	}
	master = os.NewFile(uintptr(fd), "terminal")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		_ = master.Close()
		return nil, nil, fmt.Errorf("make a terminal: unlock it: %w", err)
	}
	// By its number, and not by a name in /dev/pts, which may be of another mount.
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, uintptr(unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC))
	if errno != 0 {
		_ = master.Close()
		return nil, nil, fmt.Errorf("make a terminal: open its other end: %w", errno)
	}
	slave = os.NewFile(peer, "terminal of the process")
	_ = resize(master, size) // programs cope with a terminal without a size
	return master, slave, nil
}

// resize sets the size of a terminal, and tells the processes in its foreground.
func resize(master *os.File, size *v1.TunnelSize) error {
	if size.GetRows() == 0 || size.GetColumns() == 0 {
		return nil
	}
	raw, err := master.SyscallConn()
	if err != nil {
		return err
	}
	to := &unix.Winsize{Row: uint16(min(size.GetRows(), 1<<15)), Col: uint16(min(size.GetColumns(), 1<<15))}
	var set error
	err = raw.Control(func(fd uintptr) { set = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, to) })
	if err != nil {
		return err
	}
	return set
}
