package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/devcluster/proc"
)

// With some mutants a process is not ended: a test that notices this leaves processes behind, in their own sessions and
// without parents. So each run has a keeper above it, which adopts orphaned processes, and ends all of them.

// keepWord is the argument that makes this program a keeper of the command after it.
const keepWord = "keep"

// kept runs a command below a keeper and returns its output. No process of it is left then, also if ctx ended it.
func kept(ctx context.Context, dir, name string, args ...string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{keepWord, name}, args...)...)
	cmd.Dir = dir
	// An interrupt at the terminal must only reach this process, which tells the keeper.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// keep runs a command, ends the processes that it leaves, and returns its exit code.
func keep(args []string) int {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "keeping processes:", err)
		return 1
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var err error
	select {
	case err = <-ended:
	case <-told:
		_ = cmd.Process.Kill()
		err = <-ended
	}
	endChildren()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return exit.ExitCode()
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// endChildren kills children until there are none: the children of a killed process become this process's.
func endChildren() {
	for {
		for _, p := range proc.All() {
			if p.Parent == os.Getpid() {
				_ = syscall.Kill(p.Pid, syscall.SIGKILL)
			}
		}
		if _, err := syscall.Wait4(-1, nil, 0, nil); errors.Is(err, syscall.ECHILD) {
			return
		}
	}
}
