// Package probe asks the GPU driver in a separate process: the agent's executable, started again as "mind device probe".
//
// Contract: a Client is a device.Inventory. Its child is started at the first call, handles one call at a time over a pipe,
// and ends with the agent.
//
// Guarantees: no call outlasts its context. If the driver does not answer a call within the limit, the child is killed
// and the call fails with device.ErrHung. All calls then fail at once until a pause is over, and a new child is tried.
// So a hanging driver costs the agent nothing, and is asked again automatically. If the kernel cannot kill a child,
// because it or its program hangs in the driver, it is waited for in the background; the number of such children is
// limited.
//
// Not guaranteed: Xid errors that the driver logs while there is no child are missed.
package probe

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/agent/device"
)

const (
	maxLine = 4 << 20
	// maxStuck limits the killed children that do not die.
	maxStuck = 3
	pauseMax = 30 * time.Second
)

// Config configures how a child is started and how long it may take.
type Config struct {
	// Argv is the command; empty: the running executable as "mind device probe".
	Argv []string
	// Env is added to the agent's own environment.
	Env []string
	// Limit limits one answer; 0: 8 s. First limits the first answer of a child, which has to open the driver; 0: 30 s.
	Limit, First time.Duration
	// Pause is the pause after the first failure; it doubles up to 30 s. 0: 1 s.
	Pause time.Duration
}

// Client asks the driver through a child process.
type Client struct {
	cfg    Config
	turn   chan struct{}
	closed chan struct{}
	reaped sync.WaitGroup

	// The fields below belong to the call that has the turn.
	child *child
	seq   uint64
	pause time.Duration
	until time.Time
	why   error

	mu    sync.Mutex
	stuck int
	onXid func(uuid string, code int)
}

// child is one process.
type child struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan answer
	ended   chan struct{}
	noise   tail
	fresh   bool
}

// New returns a client. It does not start a child yet.
func New(cfg Config) *Client {
	if len(cfg.Argv) == 0 {
		cfg.Argv = append([]string{"/proc/self/exe"}, Command...)
	}
	if cfg.Limit == 0 {
		cfg.Limit = 8 * time.Second
	}
	if cfg.First == 0 {
		cfg.First = 30 * time.Second
	}
	if cfg.Pause == 0 {
		cfg.Pause = time.Second
	}
	return &Client{cfg: cfg, turn: make(chan struct{}, 1), closed: make(chan struct{})}
}

// OnXid sets the function that is called for each Xid error.
func (c *Client) OnXid(f func(uuid string, code int)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onXid = f
}

// List returns the GPUs.
func (c *Client) List(ctx context.Context) ([]device.Device, error) {
	a, err := c.ask(ctx, request{Op: opList})
	return a.Devices, err
}

// Processes returns the processes on a GPU.
func (c *Client) Processes(ctx context.Context, uuid string) ([]device.Process, error) {
	users, err := c.ProcessesOf(ctx, []string{uuid})
	return users[uuid], err
}

// ProcessesOf returns the processes on the GPUs.
func (c *Client) ProcessesOf(ctx context.Context, uuids []string) (map[string][]device.Process, error) {
	a, err := c.ask(ctx, request{Op: opProcesses, UUIDs: uuids})
	return a.Processes, err
}

// Read reads the sensors.
func (c *Client) Read(ctx context.Context) ([]device.Reading, error) {
	a, err := c.ask(ctx, request{Op: opRead})
	return a.Readings, err
}

// Close ends the child. A child that cannot be killed is left to the kernel.
func (c *Client) Close() error {
	close(c.closed)
	c.turn <- struct{}{}
	if c.child != nil {
		_ = c.child.in.Close()
		c.drop(c.child)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.reaped.Wait()
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
	return nil
}

// ask waits for its turn and for the answer.
func (c *Client) ask(ctx context.Context, r request) (answer, error) {
	select {
	case c.turn <- struct{}{}:
	case <-c.closed:
		return answer{}, errors.New("the agent is stopping")
	case <-ctx.Done():
		return answer{}, fmt.Errorf("%w: an earlier call is unanswered (%w)", device.ErrHung, ctx.Err())
	}
	type result struct {
		answer answer
		err    error
	}
	done := make(chan result, 1)
	go func() {
		// The turn ends when the child has answered or was killed, not when the caller gave up.
		defer func() { <-c.turn }()
		a, err := c.roundTrip(r)
		done <- result{a, err}
	}()
	select {
	case r := <-done:
		return r.answer, r.err
	case <-ctx.Done():
		return answer{}, fmt.Errorf("%w: %w", device.ErrHung, ctx.Err())
	}
}

func (c *Client) roundTrip(r request) (answer, error) {
	select {
	case <-c.closed:
		return answer{}, errors.New("the agent is stopping")
	default:
	}
	if err := c.ensure(); err != nil {
		return answer{}, err
	}
	child, limit := c.child, c.cfg.Limit
	if child.fresh {
		limit = c.cfg.First
	}
	c.seq++
	r.ID = c.seq
	line, err := json.Marshal(r)
	if err != nil {
		return answer{}, fmt.Errorf("encode request: %w", err)
	}
	// The child always reads: a line never fills the pipe.
	if _, err := child.in.Write(append(line, '\n')); err != nil {
		return answer{}, c.broke(child)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case a, ok := <-child.answers:
		switch {
		case !ok || a.ID != r.ID:
			return answer{}, c.broke(child)
		case a.NoDriver:
			return a, fmt.Errorf("%w (%s)", device.ErrNoDriver, a.Error)
		case a.Hung:
			return a, fmt.Errorf("%w (%s)", device.ErrHung, a.Error)
		case a.Error != "":
			return a, errors.New(a.Error)
		}
		child.fresh, c.pause = false, 0
		return a, nil
	case <-timer.C:
		c.drop(child)
		return answer{}, c.rest(fmt.Errorf("%w: no answer within %s", device.ErrHung, limit))
	case <-c.closed:
		return answer{}, errors.New("the agent is stopping")
	}
}

// ensure starts a child if there is none, unless the pause is not over.
func (c *Client) ensure() error {
	if c.child != nil {
		return nil
	}
	if time.Now().Before(c.until) {
		return c.why
	}
	c.mu.Lock()
	stuck := c.stuck
	c.mu.Unlock()
	if stuck >= maxStuck {
		return c.rest(fmt.Errorf("%w: %d processes hang in it and cannot be killed", device.ErrHung, stuck))
	}
	child, err := c.start()
	if err != nil {
		return c.rest(fmt.Errorf("start the process that asks the GPU driver: %w", err))
	}
	c.hold(child)
	return nil
}

// hold sets the child. The call that has the turn may read it without the lock.
func (c *Client) hold(ch *child) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.child = ch
}

func (c *Client) start() (*child, error) {
	cmd := exec.Command(c.cfg.Argv[0], c.cfg.Argv[1:]...)
	cmd.Args[0] = "mind"
	cmd.Env = append(cmd.Environ(), c.cfg.Env...)
	ch := &child{cmd: cmd, answers: make(chan answer), ended: make(chan struct{}), fresh: true}
	cmd.Stderr = &ch.noise
	// The child has its own process group, so that all of its processes can be killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// The child and its processes hold one end of a pipe: the other end reads EOF when the last of them is gone.
	lifeline, held, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.ExtraFiles = []*os.File{held}
	defer held.Close()
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	ch.in = in
	if err := cmd.Start(); err != nil {
		_ = lifeline.Close()
		return nil, err
	}
	c.reaped.Go(func() {
		defer close(ch.ended)
		c.read(ch, out)
		_ = cmd.Wait()
		_, _ = io.Copy(io.Discard, lifeline)
		_ = lifeline.Close()
	})
	return ch, nil
}

// read reads the child's answers until it ends.
func (c *Client) read(ch *child, out io.Reader) {
	defer close(ch.answers)
	lines := bufio.NewScanner(out)
	lines.Buffer(make([]byte, 0, 4096), maxLine)
	for lines.Scan() {
		var a answer
		if json.Unmarshal(lines.Bytes(), &a) != nil {
			continue // a library that prints
		}
		if a.Xid != nil {
			c.mu.Lock()
			heard := c.onXid
			c.mu.Unlock()
			if heard != nil {
				heard(a.Xid.UUID, a.Xid.Code)
			}
			continue
		}
		select {
		case ch.answers <- a:
		case <-time.After(time.Second):
			// No call waits for this answer any more: the child was given up.
		}
	}
}

// drop kills the child and waits for its end in the background.
func (c *Client) drop(ch *child) {
	c.hold(nil)
	select {
	case <-ch.ended: // its process id may have been reused
	default:
		_ = syscall.Kill(-ch.cmd.Process.Pid, syscall.SIGKILL)
	}
	c.mu.Lock()
	c.stuck++
	c.mu.Unlock()
	c.reaped.Go(func() {
		<-ch.ended
		c.mu.Lock()
		c.stuck--
		c.mu.Unlock()
	})
}

// broke handles a child that ended by itself.
func (c *Client) broke(ch *child) error {
	c.drop(ch)
	select {
	case <-ch.ended: // its last output is complete
	case <-time.After(time.Second):
	}
	return c.rest(fmt.Errorf("the process that asks the GPU driver ended: %s", ch.noise.last()))
}

// rest delays the next start and records the reason.
func (c *Client) rest(why error) error {
	c.pause = min(max(2*c.pause, c.cfg.Pause), pauseMax)
	c.until, c.why = time.Now().Add(c.pause), why
	return why
}

// tail keeps the last bytes that are written to it.
type tail struct {
	mu   sync.Mutex
	data []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const keep = 2048
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if len(t.data) > keep {
		t.data = t.data[len(t.data)-keep:]
	}
	return len(p), nil
}

func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := bytes.TrimSpace(t.data)
	if len(text) == 0 {
		return "it printed nothing"
	}
	return string(text)
}
