package procs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// pause is the pause between polls of a state without events.
const pause = 20 * time.Millisecond

// Kill sends SIGKILL to a component.
func (c *Cluster) Kill(p Component) error { return c.Signal(p, syscall.SIGKILL) }

// Signal sends a signal to a component.
func (c *Cluster) Signal(p Component, s syscall.Signal) error {
	if p.PID <= 0 || !isMind(p.PID) {
		return fmt.Errorf("%s: pid %d is not a process of mind", p.Name(), p.PID)
	}
	return syscall.Kill(p.PID, s)
}

// WaitGone waits until the process of a component has ended.
func (c *Cluster) WaitGone(ctx context.Context, p Component) error {
	return poll(ctx, p.Name()+" to end", func() bool { return !runs(p.PID, p.Argv) && !exiting(p.PID) })
}

// Supervised reports whether a supervisor starts killed components again.
func (c *Cluster) Supervised() bool { return c.supervised }

// Restart starts a killed component again. Its process is a child of this one.
func (c *Cluster) Restart(p Component) (*exec.Cmd, error) { return c.launch(p) }

// relaunch runs the component's argv like `mind dev`.
func (c *Cluster) relaunch(p Component) (*exec.Cmd, error) {
	log, err := os.OpenFile(filepath.Join(c.Dir, "logs", p.Name()+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(p.Argv[0], p.Argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = c.Dir
	cmd.Env = Environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, cmd.Start()
}

// Environ returns the environment of this process without Mind's own variables, which would take precedence over
// configuration files.
func Environ() []string {
	var kept []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "MIND_") {
			kept = append(kept, v)
		}
	}
	return kept
}

// Revive brings a killed component back: it waits for the supervisor to start it, or starts it if there is no
// supervisor, and returns when it is ready.
func (c *Cluster) Revive(ctx context.Context, killed Component) error {
	if !c.supervised {
		if err := c.WaitGone(ctx, killed); err != nil {
			return err
		}
		cmd, err := c.Restart(killed)
		if err != nil {
			return fmt.Errorf("starting %s again: %w", killed.Name(), err)
		}
		go func() { _ = cmd.Wait() }() // this reaps the process when it ends
	}
	return c.WaitBack(ctx, killed)
}

// Leader returns the coordinator that leads, according to the cluster.
func (c *Cluster) Leader(ctx context.Context) (Component, error) {
	var found Component
	var last error
	err := poll(ctx, "a leader", func() bool {
		info, err := c.Info()
		if err != nil {
			last = err
			return false
		}
		var cluster struct {
			Leader string `json:"leader"`
		}
		rest := NewREST(info)
		rest.http = c.http
		ask, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if last = rest.Get(ask, "/cluster", &cluster); last != nil {
			return false
		}
		for _, p := range info.Coordinators {
			if p.ID == cluster.Leader && p.ID != "" {
				found = p
				return true
			}
		}
		return false
	})
	if err != nil {
		return found, errors.Join(err, last)
	}
	return found, nil
}

// Follower returns a coordinator that does not lead.
func (c *Cluster) Follower(ctx context.Context) (Component, error) {
	leader, err := c.Leader(ctx)
	if err != nil {
		return leader, err
	}
	info, err := c.Info()
	if err != nil {
		return leader, err
	}
	for _, p := range info.Coordinators {
		if p.ID != leader.ID {
			return p, nil
		}
	}
	return leader, errors.New("there is no follower: the cluster has one coordinator")
}

// WaitBack waits until a killed component runs again with another pid and reports that it is ready.
func (c *Cluster) WaitBack(ctx context.Context, killed Component) error {
	return poll(ctx, killed.Name()+" to come back", func() bool {
		info, err := c.Info()
		if err != nil {
			return false
		}
		for _, p := range info.all() {
			if p.Name() == killed.Name() && p.PID != killed.PID && c.Ready(ctx, *p) {
				return true
			}
		}
		return false
	})
}

// Ready asks a component whether it is ready.
func (c *Cluster) Ready(ctx context.Context, p Component) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	url := p.URL
	if p.HTTPAddr != "" {
		url = "http://" + p.HTTPAddr
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health/ready", nil)
	if err != nil {
		return false
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// WaitReady waits until a component reports that it is ready.
func (c *Cluster) WaitReady(ctx context.Context, p Component) error {
	return poll(ctx, p.Name()+" to be ready", func() bool { return c.Ready(ctx, p) })
}

func poll(ctx context.Context, what string, ok func() bool) error {
	for {
		if ok() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// Mend undoes the faults of an interrupted attack: it continues stopped components, and starts components that do not
// run, if there is no supervisor.
func (c *Cluster) Mend() error {
	info, err := c.Info()
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range info.all() {
		switch {
		case len(p.Argv) == 0:
		case runs(p.PID, p.Argv):
			errs = append(errs, c.Signal(*p, syscall.SIGCONT))
		case !c.supervised:
			cmd, err := c.Restart(*p)
			if err != nil {
				errs = append(errs, fmt.Errorf("starting %s again: %w", p.Name(), err))
				continue
			}
			go func() { _ = cmd.Wait() }()
		}
	}
	return errors.Join(errs...)
}
