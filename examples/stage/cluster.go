// Package stage has what the stories of examples share: a cluster of real processes whose leader may be killed, a client of its REST
// API, the streams of a training, and the lines of a story.
package stage

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

// Cluster is a running `mind dev`.
type Cluster struct {
	// Info is the content of dev.json. The pid of a coordinator that was started again is the new one.
	Info devcluster.Info
	// ReadyIn is how long the cluster took to be ready.
	ReadyIn time.Duration

	mind    string
	dir     string
	log     string
	command *exec.Cmd
	ended   chan struct{}
	err     error
	revived []*exec.Cmd
}

// apart starts a process in a process group of its own, so that an interrupt from a terminal reaches only this program,
// which then stops the processes in order.
var apart = &syscall.SysProcAttr{Setpgid: true}

// Start starts a cluster of three coordinators, two nodes with 8 simulated GPUs each, and a gateway.
func Start(ctx context.Context, mind, dir, log string) (*Cluster, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	c := &Cluster{mind: mind, dir: dir, log: log, ended: make(chan struct{})}
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
		c.ReadyIn = time.Since(began)
		c.Info, err = devcluster.ReadInfo(dir)
		if err == nil {
			return c, nil
		}
	case <-c.ended:
		text, _ := os.ReadFile(log)
		return nil, fmt.Errorf("mind dev ended before it was ready (%w):\n%s", c.err, text)
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, errors.Join(err, c.Stop(context.Background()))
}

// Target returns a coordinator that may be killed. Its pid was checked to be that coordinator's.
func (c *Cluster) Target(id string) (Target, error) {
	for _, r := range c.Info.Coordinators {
		if r.ID != id {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", r.Pid))
		if err != nil || !slices.Equal(strings.Split(strings.TrimRight(string(text), "\x00"), "\x00"), r.Argv) {
			return Target{}, fmt.Errorf("pid %d is not %s", r.Pid, id)
		}
		return Target{r}, nil
	}
	return Target{}, fmt.Errorf("dev.json names no coordinator %q", id)
}

// Target is a coordinator that may be killed.
type Target struct{ devcluster.CoordinatorInfo }

// Kill sends SIGKILL.
func (t Target) Kill() error { return syscall.Kill(t.Pid, syscall.SIGKILL) }

// revive starts a killed coordinator again, with its arguments in dev.json.
func (c *Cluster) revive(r Target) error {
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
	for i := range c.Info.Coordinators {
		if at := &c.Info.Coordinators[i]; at.ID == r.ID {
			at.Pid = cmd.Process.Pid
		}
	}
	return nil
}

// Stop ends the cluster with SIGTERM, and returns an error if a process is left.
func (c *Cluster) Stop(ctx context.Context) error {
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
func (c *Cluster) leftovers() error {
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

// Sleep waits, unless the cluster or ctx ends before.
func (c *Cluster) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ended:
		return errors.New("mind dev ended by itself")
	case <-time.After(d):
		return nil
	}
}

// Mind runs a command of mind as a user would, and returns its output.
func (c *Cluster) Mind(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.mind, args...)
	cmd.Env = append(os.Environ(), "MIND_ADDR="+c.Info.Gateway.URL, "MIND_TOKEN="+c.Info.Token)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("mind %s: %w: %s", args[0], err, complaint.String())
	}
	return strings.TrimSpace(string(out)), nil
}
