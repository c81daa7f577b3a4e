package runner

import (
	"crypto/rand"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The sockets of shims have names in the abstract namespace: they need no file,
// whose making is a good part of a launch, and are not bound to the 107 bytes
// that a path may have. They have no permissions either, so both ends look at
// who is on the other: the same user, or root.

// socketName makes up a name that nobody can have taken before.
func socketName() string { return "@mind-shim-" + rand.Text() }

// socket makes the shim's listening socket and connects to it.
func socket(name string) (listener int, conn *os.File, err error) {
	listener, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, fmt.Errorf("make shim socket: %w", err)
	}
	if err = unix.Bind(listener, &unix.SockaddrUnix{Name: name}); err == nil {
		err = unix.Listen(listener, 8)
	}
	if err == nil {
		conn, err = dial(name)
	}
	if err != nil {
		_ = unix.Close(listener)
		return -1, nil, fmt.Errorf("bind shim socket: %w", err)
	}
	return listener, conn, nil
}

func dial(name string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("connect to shim: %w", err)
	}
	if peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err != nil || (peer.Uid != uint32(os.Geteuid()) && peer.Uid != 0) {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("connect to shim: somebody else listens at %s", name)
	}
	return os.NewFile(uintptr(fd), name), nil
}
