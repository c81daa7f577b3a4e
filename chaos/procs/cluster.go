// Package procs runs Mind as its users do: `mind dev` and the processes that it starts, seen only through what is promised
// outside (dev.json, REST, signals). Faults are real signals to real processes, which are ended by pid and only when they
// are this package's own.
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
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Component is one process of the cluster, as dev.json names it.
type Component struct {
	ID       string   `json:"id"`
	NodeID   string   `json:"node_id"`
	PID      int      `json:"pid"`
	Argv     []string `json:"argv"`
	URL      string   `json:"url"`
	GRPCAddr string   `json:"grpc_addr"`
	HTTPAddr string   `json:"http_addr"`
	RaftAddr string   `json:"raft_addr"`
}

// Operator is how to speak gRPC to the coordinators.
type Operator struct {
	Cert   string `json:"cert_file"`
	Key    string `json:"key_file"`
	Secret string `json:"api_secret"`
}

// Info is dev.json.
type Info struct {
	Gateway      Component   `json:"gateway"`
	Token        string      `json:"token"`
	CACert       string      `json:"ca_cert"`
	Coordinators []Component `json:"coordinators"`
	Agents       []Component `json:"agents"`
	Operator     Operator    `json:"operator"`
}

// Cluster is a running `mind dev`.
type Cluster struct {
	Dir  string
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start runs `mind dev` with its state in dir and waits until it says that it is ready.
func Start(ctx context.Context, mind, dir string, args ...string) (*Cluster, error) {
	log, err := os.OpenFile(filepath.Join(dir, "mind-dev.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	data := filepath.Join(dir, "data")
	c := &Cluster{Dir: data, done: make(chan struct{})}
	c.cmd = exec.Command(mind, append([]string{"dev", "--data-dir", data}, args...)...)
	c.cmd.Stderr = log
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

// Info reads dev.json; pids change when components are restarted.
func (c *Cluster) Info() (Info, error) {
	var info Info
	text, err := os.ReadFile(filepath.Join(c.Dir, "dev.json"))
	if err != nil {
		return info, err
	}
	err = json.Unmarshal(text, &info)
	return info, err
}

// Stop sends SIGTERM to mind dev and waits for it; an exit status other than 0 is an error, as is a process left behind.
func (c *Cluster) Stop() error {
	info, err := c.Info()
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(30 * time.Second):
		_ = c.cmd.Process.Kill()
		<-c.done
		return errors.New("mind dev did not stop within 30 s of SIGTERM")
	}
	if err == nil {
		err = leftovers(info)
	}
	return errors.Join(c.err, err)
}

func leftovers(info Info) error {
	all := append(append([]Component{info.Gateway}, info.Coordinators...), info.Agents...)
	for _, p := range all {
		if p.PID > 0 && isMind(p.PID) {
			return fmt.Errorf("pid %d (%s) is left after mind dev stopped", p.PID, strings.Join(p.Argv, " "))
		}
	}
	return nil
}

func isMind(pid int) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && strings.Contains(string(text), "mind")
}

// Kill sends SIGKILL to a component.
func (c *Cluster) Kill(p Component) error { return c.Signal(p, syscall.SIGKILL) }

// Signal sends a signal to a component.
func (c *Cluster) Signal(p Component, s syscall.Signal) error {
	if p.PID <= 0 || !isMind(p.PID) {
		return fmt.Errorf("%s: pid %d is not a process of mind", p.ID+p.NodeID, p.PID)
	}
	return syscall.Kill(p.PID, s)
}

// Restart runs a killed component again from its argv. The process is a child of this one and dies with it.
func (c *Cluster) Restart(p Component) (*exec.Cmd, error) {
	log, err := os.OpenFile(filepath.Join(c.Dir, "restarted.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(p.Argv[0], p.Argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	err = cmd.Start()
	return cmd, err
}

// Leader returns the coordinator that leads, as the cluster says.
func (c *Cluster) Leader(ctx context.Context) (Component, error) {
	info, err := c.Info()
	if err != nil {
		return Component{}, err
	}
	var last error
	for ctx.Err() == nil {
		var cluster struct {
			Leader string `json:"leader"`
		}
		if last = NewREST(info).Get(ctx, "/cluster", &cluster); last == nil {
			for _, p := range info.Coordinators {
				if p.ID == cluster.Leader && p.ID != "" {
					return p, nil
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return Component{}, errors.Join(fmt.Errorf("finding the leader: %w", ctx.Err()), last)
}

// WaitBack waits until a killed component runs again under another pid and says that it is ready.
func (c *Cluster) WaitBack(ctx context.Context, killed Component) error {
	for {
		info, err := c.Info()
		if err == nil {
			for _, p := range append(info.Coordinators, info.Agents...) {
				if p.ID == killed.ID && p.NodeID == killed.NodeID && p.PID != killed.PID && Ready(ctx, p) {
					return nil
				}
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s to come back: %w", killed.ID+killed.NodeID, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Ready asks a component whether it is ready.
func Ready(ctx context.Context, p Component) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.HTTPAddr+"/health/ready", nil)
	if err != nil {
		return false
	}
	resp, err := sharedClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
