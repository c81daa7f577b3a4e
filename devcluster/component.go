package devcluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// restartPause is the pause before an ended component is started again. It doubles, up to longestPause, for one that ends before
// it has run for briefRun: one with a broken configuration would otherwise fill the log.
const (
	restartPause = 200 * time.Millisecond
	longestPause = 10 * time.Second
	briefRun     = time.Second
)

// running is one process or goroutine of a component.
type running interface {
	Pid() int
	// Terminate asks the component to shut down.
	Terminate()
	// Kill ends the component at once, if possible.
	Kill()
	// Done returns a channel that is closed when the component has ended.
	Done() <-chan struct{}
	// Err returns how the component ended, after Done.
	Err() error
}

// component is one member of the cluster over all its restarts.
type component struct {
	spec
	cluster *Cluster
	pid     int // of the newest start; guarded by cluster.mu
	current running

	retired    context.Context // when it has ended, the component is not started again
	retire     context.CancelFunc
	terminated context.Context // when it has ended, the component was told to end
	terminate  context.CancelFunc
	over       chan struct{} // closed when the component has ended for good
	lastErr    error         // the reason, after over
}

func (c *Cluster) newComponent(s spec) *component {
	p := &component{spec: s, cluster: c, over: make(chan struct{})}
	p.retired, p.retire = context.WithCancel(context.Background())
	p.terminated, p.terminate = context.WithCancel(context.Background())
	return p
}

// start starts the component, and the goroutine that restarts it.
func (p *component) start() error {
	life, err := p.launch()
	if err != nil {
		return err
	}
	go p.supervise(life)
	return nil
}

func (p *component) launch() (life running, err error) {
	c := p.cluster
	if c.options.InProcess != nil {
		life = goInProcess(c.options.InProcess, p.argv[1:])
	} else if life, err = c.starter.start(p.argv, c.dir, p.name); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p.pid, p.current = life.Pid(), life
	if c.published {
		return life, c.writeInfo()
	}
	return life, nil
}

func (p *component) supervise(life running) {
	defer close(p.over)
	logger := p.cluster.options.Logger.With("component", p.name)
	began, pause := time.Now(), restartPause
	for {
		select {
		case <-life.Done():
		case <-p.terminated.Done():
			life.Terminate()
			<-life.Done()
		}
		p.lastErr = life.Err()
		if p.retired.Err() != nil {
			return
		}
		if pause = min(2*pause, longestPause); time.Since(began) >= briefRun {
			pause = restartPause
		}
		logger.Warn("component ended", "pid", life.Pid(), "how", describe(p.lastErr), "restarting", p.cluster.options.Restart, "last_line", p.lastLine())
		select {
		case p.cluster.ended <- p:
		default:
		}
		if !p.cluster.options.Restart {
			return
		}
		for {
			select {
			case <-time.After(pause):
			case <-p.retired.Done():
				return
			}
			began = time.Now()
			next, err := p.launch()
			if next != nil {
				life = next
			}
			if err == nil {
				break
			}
			logger.Error("cannot start the component again", "err", err)
			if next != nil {
				break
			}
		}
	}
}

// lastLine is the last line of the log of the component: it says why the component ended.
func (p *component) lastLine() string {
	text := endOfLog(p.cluster.dir, p.name)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// started reports whether start has succeeded.
func (p *component) started() bool {
	p.cluster.mu.Lock()
	defer p.cluster.mu.Unlock()
	return p.current != nil
}

// wait returns when the component has ended for good, or when ctx is done.
func (p *component) wait(ctx context.Context) {
	if !p.started() {
		return
	}
	select {
	case <-p.over:
	case <-ctx.Done():
	}
}

// kill kills the component if it did not shut down in time.
func (p *component) kill() error {
	if !p.started() {
		return nil
	}
	const patience = 2 * time.Second
	for range 2 {
		select {
		case <-p.over:
			return nil
		default:
		}
		p.cluster.mu.Lock()
		life := p.current
		p.cluster.mu.Unlock()
		p.cluster.options.Logger.Warn("component did not end in time: killing it", "component", p.name, "pid", life.Pid())
		life.Kill()
		select {
		case <-p.over:
			return nil
		case <-time.After(patience):
		}
	}
	return fmt.Errorf("%s does not end", p.name)
}

func describe(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// inProcess is a component that runs as a goroutine.
type inProcess struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

func goInProcess(run func(context.Context, []string) error, args []string) *inProcess {
	ctx, cancel := context.WithCancel(context.Background())
	life := &inProcess{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(life.done)
		defer cancel()
		err := run(ctx, args)
		if !errors.Is(err, context.Canceled) {
			life.err = err
		}
	}()
	return life
}

func (l *inProcess) Pid() int              { return ownPid }
func (l *inProcess) Terminate()            { l.cancel() }
func (l *inProcess) Kill()                 { l.cancel() }
func (l *inProcess) Done() <-chan struct{} { return l.done }
func (l *inProcess) Err() error            { return l.err }
