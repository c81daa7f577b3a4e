package runner

import (
	"crypto/rand"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Sockets of shims have names in the abstract namespace: they need no file, which saves a large part of the time of a
// launch, and no path, which is limited to 107 bytes. They have no permissions either, so both ends check the peer: it
// must be the same user, or root.

// socketName returns an unused name.
func socketName() string { return "@mind-shim-" + rand.Text() }

// socket makes the shim's listening socket and connects to it.
func socket(name string) (listener int, conn *os.File, err error) {
	listener, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, fmt.Errorf("make shim socket: %w", err)
	}
	if err = unix.Bind(listener, &unix.SockaddrUnix{Name: name}); err == nil {
		err = unix.Listen(listener, callers)
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

// callers is the number of connections that wait for a shim to accept them.
const callers = 128

// dialTime is how long a connection waits for room among these.
const dialTime = 2 // seconds

func dial(name string) (*os.File, error) {
	// It blocks at first: a non-blocking socket would fail at once while many callers wait.
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	if err := connect(fd, name); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("connect to shim: %w", err)
	}
	if peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err != nil || (peer.Uid != uint32(os.Geteuid()) && peer.Uid != 0) {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("connect to shim: another user's process listens at %s", name)
	}
	return os.NewFile(uintptr(fd), name), nil
}

func connect(fd int, name string) error {
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: dialTime}); err != nil {
		return err
	}
	err := unix.Connect(fd, &unix.SockaddrUnix{Name: name})
	for err == unix.EINTR {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: name})
	}
	if err != nil {
		return err
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{}); err != nil {
		return err
	}
	return unix.SetNonblock(fd, true)
}
