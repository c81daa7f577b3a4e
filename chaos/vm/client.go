package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/mindcoordinator/mind/chaos/vm/guest"
)

// client calls the agent of one machine.
type client struct {
	base string
	http *http.Client
}

func newClient(addr string) *client {
	return &client{base: "http://" + addr, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

func (c *client) do(ctx context.Context, method, path string, body io.Reader) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusOK:
		return text, nil
	}
	var fault guest.Fault
	if err := json.Unmarshal(text, &fault); err != nil {
		return nil, fmt.Errorf("%s: %s", resp.Status, text)
	}
	if resp.StatusCode == http.StatusNotFound {
		return nil, fmt.Errorf("%s: %w", fault.Error, fs.ErrNotExist)
	}
	return nil, errors.New(fault.Error)
}

func (c *client) post(ctx context.Context, path string, in, out any) error {
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	if text, err = c.do(ctx, http.MethodPost, path, bytes.NewReader(text)); err != nil {
		return err
	}
	return json.Unmarshal(text, out)
}

// Status asks the agent of the machine for its status.
func (m *Machine) Status(ctx context.Context) (s guest.Status, err error) {
	text, err := m.client.do(ctx, http.MethodGet, "/status", nil)
	if err != nil {
		return s, fmt.Errorf("asking the agent of the machine: %w", err)
	}
	return s, json.Unmarshal(text, &s)
}

// Run runs a command and returns its result. An exit code other than 0 is no error. When ctx ends, the command is
// ended.
func (m *Machine) Run(ctx context.Context, c guest.Command) (r guest.Result, err error) {
	if err := m.client.post(ctx, "/run", c, &r); err != nil {
		return r, fmt.Errorf("running %s in the machine: %w", strings.Join(c.Argv, " "), err)
	}
	return r, nil
}

// Shell runs lines of sh, and returns their output. An exit code other than 0 is an error.
func (m *Machine) Shell(ctx context.Context, lines string) (string, error) {
	r, err := m.Run(ctx, guest.Command{Argv: []string{"sh", "-ec", lines}})
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("running %q in the machine: exit code %d: %s", lines, r.Code, bytes.TrimSpace(r.Stderr))
	}
	return string(r.Stdout), err
}

// Process is a process that runs in the machine in the background.
type Process struct {
	PID     int
	machine *Machine
}

// Start starts a command in the background.
func (m *Machine) Start(ctx context.Context, c guest.Command) (*Process, error) {
	var s guest.Started
	if err := m.client.post(ctx, "/start", c, &s); err != nil {
		return nil, fmt.Errorf("starting %s in the machine: %w", strings.Join(c.Argv, " "), err)
	}
	return &Process{PID: s.PID, machine: m}, nil
}

// Wait waits for the end of the process.
func (p *Process) Wait(ctx context.Context) (r guest.Result, err error) {
	text, err := p.machine.client.do(ctx, http.MethodGet, "/wait/"+strconv.Itoa(p.PID), nil)
	if err != nil {
		return r, fmt.Errorf("waiting for process %d in the machine: %w", p.PID, err)
	}
	return r, json.Unmarshal(text, &r)
}

// AwaitFile returns as soon as a file exists in the machine whose name matches the pattern.
func (m *Machine) AwaitFile(ctx context.Context, pattern string) error {
	if err := m.client.post(ctx, "/await", guest.Await{Pattern: pattern}, &struct{}{}); err != nil {
		return fmt.Errorf("waiting for %s in the machine: %w", pattern, err)
	}
	return nil
}

// ReadFile reads a file of the machine. If there is none, the error is fs.ErrNotExist.
func (m *Machine) ReadFile(ctx context.Context, path string) ([]byte, error) {
	text, err := m.client.do(ctx, http.MethodGet, "/file?path="+url.QueryEscape(path), nil)
	if err != nil {
		return nil, fmt.Errorf("reading %s in the machine: %w", path, err)
	}
	return text, nil
}

// WriteFile replaces a file of the machine, and makes its folder. Nothing is synced.
func (m *Machine) WriteFile(ctx context.Context, path string, text []byte, mode os.FileMode) error {
	query := url.Values{"path": {path}, "mode": {strconv.FormatUint(uint64(mode.Perm()), 8)}}
	if _, err := m.client.do(ctx, http.MethodPut, "/file?"+query.Encode(), bytes.NewReader(text)); err != nil {
		return fmt.Errorf("writing %s in the machine: %w", path, err)
	}
	return nil
}

// Mount mounts a disk of the machine, such as /dev/vda. The kernel replays its journal.
func (m *Machine) Mount(ctx context.Context, device, dir, options string) error {
	if options == "" {
		options = "defaults"
	}
	_, err := m.Shell(ctx, fmt.Sprintf("mkdir -p %s && mount -t ext4 -o %s %s %s", dir, options, device, dir))
	return err
}
