// Package procs runs Mind like its users: `mind dev` and the processes that it starts, used only through the promised
// interfaces (dev.json, REST, signals). Faults are real signals to real processes. Processes are ended by pid, and only
// the cluster's own.
package procs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/agent/isolation/leveltest"
)

// Cluster is a running cluster.
type Cluster struct {
	// Dir has its state, the logs of its components, and dev.json.
	Dir string

	http *http.Client
	// supervised: a supervisor starts killed components again.
	supervised bool
	// launch starts a component again.
	launch func(Component) (*exec.Cmd, error)

	// cmd is the supervisor, if this process started it.
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start runs `mind dev` with its state in dir and waits until it reports that it is ready.
func Start(ctx context.Context, mind, dir string, args ...string) (*Cluster, error) {
	log, err := os.OpenFile(filepath.Join(dir, "mind-dev.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	data := filepath.Join(dir, "data")
	c := &Cluster{Dir: data, done: make(chan struct{}), http: sharedClient, supervised: slices.Contains(args, "--restart")}
	c.launch = c.relaunch
	if level := leveltest.Level(); level != "" && !slices.Contains(args, "--isolation") {
		args = append(slices.Clone(args), "--isolation", string(level))
	}
	c.cmd = exec.Command(mind, append([]string{"dev", "--data-dir", data}, args...)...)
	c.cmd.Stderr = log
	// An interrupt from the keyboard must end the attack first, and then the cluster in an orderly way.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting mind dev: %w", err)
	}
	ready := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if url, ok := strings.CutPrefix(lines.Text(), "ready "); ok {
				ready <- url
			}
		}
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	select {
	case <-ready:
		return c, nil
	case <-c.done:
		return nil, fmt.Errorf("mind dev ended before it was ready: %w; see %s", c.err, log.Name())
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("mind dev did not become ready: %w; see %s", ctx.Err(), log.Name()), c.Stop())
	}
}

// Attach attaches to a running `mind dev`, by its dev.json or the folder of that file. It must be on this machine, with
// a process for each component.
func Attach(devJSON string) (*Cluster, error) {
	dir := devJSON
	if fi, err := os.Stat(devJSON); err == nil && !fi.IsDir() {
		dir = filepath.Dir(devJSON)
	}
	c := &Cluster{Dir: dir, http: sharedClient}
	c.launch = c.relaunch
	info, err := c.Info()
	if err != nil {
		return nil, fmt.Errorf("there is no cluster in %s: is `mind dev` running? (%w)", dir, err)
	}
	if !isMind(info.PID) {
		return nil, fmt.Errorf("%s names pid %d, which is no `mind dev` any more: start it again", filepath.Join(dir, "dev.json"), info.PID)
	}
	for _, p := range info.all() {
		if p.PID == info.PID {
			return nil, errors.New("this cluster runs in one process (--in-process): nothing in it can be killed alone; start `mind dev` without that")
		}
	}
	argv := strings.Split(commandLine(strconv.Itoa(info.PID)), "\x00")
	c.supervised = slices.Contains(argv, "--restart") || slices.Contains(argv, "--restart=true")
	return c, nil
}

// Assemble returns a cluster whose processes the caller runs: launch starts a component, and client reaches the gateway
// and the components. It writes dev.json into dir.
func Assemble(dir string, info Info, launch func(Component) (*exec.Cmd, error), client *http.Client) (*Cluster, error) {
	text, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "dev.json"), text, 0o600); err != nil {
		return nil, err
	}
	return &Cluster{Dir: dir, http: client, launch: launch}, nil
}

// REST returns a client of the cluster's gateway.
func (c *Cluster) REST() (*REST, error) {
	info, err := c.Info()
	if err != nil {
		return nil, err
	}
	r := NewREST(info)
	r.http = c.http
	return r, nil
}

// Stop sends SIGTERM to mind dev and waits for its end. An exit status other than 0, or a process that is left behind,
// is an error.
func (c *Cluster) Stop() error {
	if c.cmd == nil {
		return errors.New("this cluster belongs to somebody else")
	}
	info, err := c.Info()
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(time.Minute):
		_ = c.cmd.Process.Kill()
		<-c.done
		return errors.New("mind dev did not stop within a minute of SIGTERM")
	}
	if err == nil {
		err = leftovers(info)
	}
	return errors.Join(c.err, err)
}

func leftovers(info Info) error {
	for _, p := range info.all() {
		if runs(p.PID, p.Argv) {
			return fmt.Errorf("pid %d (%s) is left after mind dev stopped", p.PID, strings.Join(p.Argv, " "))
		}
	}
	return nil
}
