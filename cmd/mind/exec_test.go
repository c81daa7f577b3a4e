package main

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/mindcoordinator/mind/devcluster"
)

// sleeper submits a job that runs until the cluster is stopped, and waits until it runs.
func (d *mindDev) sleeper(t *testing.T) string {
	t.Helper()
	stdout, stderr, code := d.cli(t, "submit", "--gpus", "1", "--", "sleep", "600")
	require.Zero(t, code, stderr)
	id := strings.TrimSpace(stdout)
	require.Eventually(t, func() bool {
		stdout, _, _ := d.cli(t, "job", id)
		return strings.Contains(stdout, "TRAINING")
	}, time.Minute, 20*time.Millisecond)
	return id
}

// command is mind exec, not started yet.
func (d *mindDev) command(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.Command(theBinary(t), append([]string{"exec"}, args...)...)
	cmd.Env = append(os.Environ(), "MIND_DEV="+d.dir, "MIND_ADDR=", "MIND_TOKEN=", "TERM=xterm-test")
	return cmd
}

func TestExec_commandsAndShells(t *testing.T) {
	d := startDev(t, "--coordinators", "1", "--agents", "1")
	id := d.sleeper(t)

	stdout, stderr, code := d.cli(t, "exec", id, "--", "sh", "-c", "echo out $CUDA_VISIBLE_DEVICES; echo err >&2; exit 9")
	require.Equal(t, 9, code)
	require.Equal(t, "out 0\n", stdout)
	require.Equal(t, "err\n", stderr)
	_, stderr, code = d.cli(t, "exec", id, "--", "no-such-program")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, `program "no-such-program" was not found on node n1`)
	_, stderr, code = d.cli(t, "exec", "job_zzz", "--", "true")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "there is no job job_zzz")
	_, stderr, code = d.cli(t, "exec", id, "true")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "write -- between")

	t.Run("bytes are exact", func(t *testing.T) {
		data := make([]byte, 4<<20)
		_, _ = rand.Read(data)
		cmd := d.command(t, id, "--", "cat")
		cmd.Stdin = bytes.NewReader(data)
		out, err := cmd.Output()
		require.NoError(t, err)
		require.Equal(t, sha256.Sum256(data), sha256.Sum256(out))
	})
	t.Run("in a terminal", func(t *testing.T) { d.inATerminal(t, id) })
	t.Run("50 at once", func(t *testing.T) { d.fiftyAtOnce(t) })
	d.stop(t)
}

// fiftyAtOnce starts 50 shells in 4 jobs, which all run at a time.
func (d *mindDev) fiftyAtOnce(t *testing.T) {
	jobs := []string{d.sleeper(t), d.sleeper(t), d.sleeper(t), d.sleeper(t)}
	var all sync.WaitGroup
	gate, failed := make(chan struct{}), make(chan string, 50)
	var started sync.WaitGroup
	for i := range 50 {
		started.Add(1)
		all.Go(func() {
			cmd := d.command(t, jobs[i%4], "--", "sh", "-c", fmt.Sprintf("echo begun; read x; echo $x %d", i))
			var said bytes.Buffer
			cmd.Stderr = &said
			in, _ := cmd.StdinPipe()
			out, _ := cmd.StdoutPipe()
			err := cmd.Start()
			line := make([]byte, len("begun\n"))
			if err == nil {
				_, err = io.ReadFull(out, line)
			}
			started.Done()
			<-gate
			_, _ = io.WriteString(in, "hello\n")
			rest, _ := io.ReadAll(out)
			if want := fmt.Sprintf("hello %d\n", i); err != nil || cmd.Wait() != nil || string(rest) != want {
				failed <- fmt.Sprintf("%d: %v %q %s", i, err, rest, said.String())
			}
		})
	}
	started.Wait()
	close(gate)
	all.Wait()
	close(failed)
	var faults []string
	for fault := range failed {
		faults = append(faults, fault)
	}
	require.Empty(t, faults)
}

// screen is a terminal with a program in it.
type screen struct {
	t      *testing.T
	master *os.File
	seen   bytes.Buffer
}

// openScreen makes a terminal; slave is the end for the program.
func openScreen(t *testing.T, rows, columns uint16) (*screen, *os.File) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	require.Zero(t, errno)
	s := &screen{t: t, master: os.NewFile(uintptr(fd), "master")}
	t.Cleanup(func() { _ = s.master.Close() })
	s.resize(rows, columns)
	return s, os.NewFile(peer, "slave")
}

func (s *screen) resize(rows, columns uint16) {
	require.NoError(s.t, unix.IoctlSetWinsize(int(s.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}))
}

func (s *screen) typed(text string) {
	_, err := s.master.WriteString(text)
	require.NoError(s.t, err)
}

// shows reads until the screen has shown a text after what it was asked for last.
func (s *screen) shows(text string) {
	s.t.Helper()
	buf := make([]byte, 4096)
	for !strings.Contains(s.seen.String(), text) {
		n, err := s.master.Read(buf)
		s.seen.Write(buf[:n])
		require.NoError(s.t, err, "%q", s.seen.String())
	}
	s.seen.Reset()
}

func (d *mindDev) inATerminal(t *testing.T, id string) {
	s, slave := openScreen(t, 30, 90)
	defer slave.Close()
	before, err := term.GetState(int(slave.Fd()))
	require.NoError(t, err)
	start := func(args ...string) *exec.Cmd {
		cmd := d.command(t, append([]string{id}, args...)...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		require.NoError(t, cmd.Start())
		return cmd
	}
	cmd := start("--", "sh", "-i")
	s.typed("stty size; echo $TERM\r")
	s.shows("30 90\r\nxterm-test\r\n")
	s.resize(41, 133)
	// The new size travels beside the keys.
	s.typed("while [ \"$(stty size)\" != '41 133' ]; do sleep 0.01; done; echo resi''zed\r")
	s.shows("resized")
	s.typed("sh -c 'trap \"echo cau''ght; exit\" INT; echo wai''ting; while :; do sleep 0.01; done'\r")
	s.shows("waiting")
	s.typed("\x03")
	s.shows("caught")
	s.typed("exit 6\r")
	require.Error(t, cmd.Wait())
	require.Equal(t, 6, cmd.ProcessState.ExitCode())

	cmd = start("--", "sh", "-i")
	s.typed("echo rea''dy\r")
	s.shows("ready")
	s.typed("~.")
	require.Error(t, cmd.Wait())
	require.Equal(t, 130, cmd.ProcessState.ExitCode())
	after, err := term.GetState(int(slave.Fd()))
	require.NoError(t, err)
	require.Equal(t, before, after, "the terminal is as it was")
}

// A shell goes on, without gap or repeat, when each coordinator and the gateway die in turn.
func TestExec_survivesWhatRelaysIt(t *testing.T) {
	d := startDev(t, "--restart", "--agents", "1")
	id := d.sleeper(t)
	data := make([]byte, 4<<20)
	_, _ = rand.Read(data)
	cmd := d.command(t, id, "--", "cat")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	require.NoError(t, cmd.Start())
	sum := sha256.New()
	const piece = 64 << 10
	for at := 0; at < len(data); at += piece {
		switch n := at / piece; n {
		case 10, 20, 30:
			d.kill(t, d.pids(t).Coordinators[n/10-1].Pid)
		case 40, 50:
			d.kill(t, d.pids(t).Gateway.Pid)
		}
		_, err := in.Write(data[at : at+piece])
		require.NoError(t, err)
		_, err = io.CopyN(sum, out, piece)
		require.NoError(t, err, "%s", &errs)
	}
	require.NoError(t, in.Close())
	_, err = io.Copy(sum, out)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait(), "%s", &errs)
	require.Equal(t, sha256.Sum256(data), [32]byte(sum.Sum(nil)))
	d.stop(t)
}

func (d *mindDev) pids(t *testing.T) devcluster.Info {
	info, err := devcluster.ReadInfo(d.dir)
	require.NoError(t, err)
	return info
}

// kill kills a component, and waits until it was started again.
func (d *mindDev) kill(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Eventually(t, func() bool {
		info := d.pids(t)
		if info.Gateway.Pid == pid {
			return false
		}
		for _, c := range info.Coordinators {
			if c.Pid == pid {
				return false
			}
		}
		stdout, _, code := d.cli(t, "raft", "peers")
		return code == 0 && strings.Count(stdout, " leader ") == 1 && strings.Count(stdout, " follower ") == 2
	}, time.Minute, 50*time.Millisecond)
}
