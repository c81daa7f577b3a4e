package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/devcluster"
)

// cluster is a running `mind dev`.
type cluster struct {
	dir     string
	log     string
	command *exec.Cmd
	info    devcluster.Info
	readyIn time.Duration
	ended   chan struct{}
	err     error
	revived []*exec.Cmd
}

// apart starts a process in a process group of its own, so that an interrupt from a terminal reaches only this program,
// which then stops the processes in order.
var apart = &syscall.SysProcAttr{Setpgid: true}

func startCluster(ctx context.Context, mind, dir, log string) (*cluster, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	c := &cluster{dir: dir, log: log, ended: make(chan struct{})}
	c.command = exec.Command(mind, "dev", "--data-dir", dir, "--http", "127.0.0.1:0", "--gpus", "8xH100")
	c.command.Stderr = out
	c.command.SysProcAttr = apart
	stdout, err := c.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := c.command.Start(); err != nil {
		return nil, fmt.Errorf("starting mind dev: %w", err)
	}
	ready := make(chan struct{})
	go func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "ready ") {
				close(ready)
			}
		}
		c.err = c.command.Wait()
		close(c.ended)
	}()
	select {
	case <-ready:
		c.readyIn = time.Since(began)
		c.info, err = devcluster.ReadInfo(dir)
		if err == nil {
			return c, nil
		}
	case <-c.ended:
		text, _ := os.ReadFile(log)
		return nil, fmt.Errorf("mind dev ended before it was ready (%w):\n%s", c.err, text)
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, errors.Join(err, c.stop(context.Background()))
}

// kill sends SIGKILL to a coordinator, after it has checked that the pid still is that coordinator's.
func (c *cluster) kill(id string) (devcluster.CoordinatorInfo, error) {
	for _, r := range c.info.Coordinators {
		if r.ID != id {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", r.Pid))
		if err != nil || !slices.Equal(strings.Split(strings.TrimRight(string(text), "\x00"), "\x00"), r.Argv) {
			return r, fmt.Errorf("pid %d is not %s", r.Pid, id)
		}
		return r, syscall.Kill(r.Pid, syscall.SIGKILL)
	}
	return devcluster.CoordinatorInfo{}, fmt.Errorf("dev.json names no coordinator %q", id)
}

// revive starts a killed coordinator again, with its arguments in dev.json.
func (c *cluster) revive(r devcluster.CoordinatorInfo) error {
	log, err := os.OpenFile(filepath.Join(c.dir, "logs", r.ID+".log"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(r.Argv[0], r.Argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = apart
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s again: %w", r.ID, err)
	}
	c.revived = append(c.revived, cmd)
	return nil
}

// stop ends the cluster with SIGTERM, and returns an error if a process is left.
func (c *cluster) stop(ctx context.Context) error {
	select {
	case <-c.ended:
		return nil
	default:
	}
	if err := c.command.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping mind dev: %w", err)
	}
	select {
	case <-c.ended:
	case <-ctx.Done():
	case <-time.After(30 * time.Second):
	}
	select {
	case <-c.ended:
	default:
		_ = c.command.Process.Kill()
		return errors.New("mind dev did not stop within 30 s of SIGTERM")
	}
	if c.err != nil {
		return fmt.Errorf("mind dev did not end well (%w); see %s", c.err, c.log)
	}
	for _, cmd := range c.revived {
		_ = cmd.Wait() // mind dev has ended it, because it has the arguments of one of its processes
	}
	return c.leftovers()
}

// leftovers returns an error if some process has the data directory in its command line or environment.
func (c *cluster) leftovers() error {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	for _, p := range dirs {
		if filepath.Base(p) == strconv.Itoa(os.Getpid()) {
			continue
		}
		for _, file := range []string{"cmdline", "environ"} {
			text, _ := os.ReadFile(filepath.Join(p, file))
			if bytes.Contains(text, []byte(c.dir+"/")) {
				return fmt.Errorf("process %s is left: %s", filepath.Base(p), bytes.ReplaceAll(text, []byte{0}, []byte(" ")))
			}
		}
	}
	return nil
}
