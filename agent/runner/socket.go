package runner

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/shim"
)

// address returns a name for the socket in dir that is short however long the
// path of dir is: a unix address holds 107 bytes only.
func address(dirfd int) *unix.SockaddrUnix {
	return &unix.SockaddrUnix{Name: "/proc/self/fd/" + strconv.Itoa(dirfd) + "/" + shim.SocketFile}
}

// socket makes the shim's listening socket and connects to it.
func socket(dir string) (listener int, conn *os.File, err error) {
	dirfd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, nil, fmt.Errorf("open task directory: %w", err)
	}
	defer unix.Close(dirfd)
	listener, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, fmt.Errorf("make shim socket: %w", err)
	}
	if err = unix.Bind(listener, address(dirfd)); err == nil {
		err = unix.Listen(listener, 8)
	}
	if err == nil {
		conn, err = dial(dirfd)
	}
	if err != nil {
		_ = unix.Close(listener)
		return -1, nil, fmt.Errorf("bind shim socket: %w", err)
	}
	return listener, conn, nil
}

func connect(dir string) (*os.File, error) {
	dirfd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open task directory: %w", err)
	}
	defer unix.Close(dirfd)
	return dial(dirfd)
}

func dial(dirfd int) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	if err := unix.Connect(fd, address(dirfd)); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("connect to shim: %w", err)
	}
	return os.NewFile(uintptr(fd), shim.SocketFile), nil
}
