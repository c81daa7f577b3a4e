package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/chaos/scenario/users"
	"github.com/mindcoordinator/mind/chaos/workload"
	"github.com/mindcoordinator/mind/devcluster/ports"
)

// Printing configures a long log and its watchers.
type Printing struct {
	Lines    int
	Watchers int
	// For is how long the job prints; the faults happen meanwhile.
	For time.Duration
}

// Streams makes a crowd watch a long log through two gateways, and kills the gateways, the leader and the agent of the
// job in turn. Each watcher must get every line once and in order.
func Streams(rounds int, p Printing, load Load) Attack {
	var watching *users.Crowd
	var second *secondGateway
	return Attack{
		Name: "streams", Load: load, Rounds: rounds, Between: p.For / time.Duration(2*rounds), Takes: true,
		Around: func(ctx context.Context, f *Fight) (func(context.Context) error, error) {
			info, err := f.Cluster.Info()
			if err != nil {
				return nil, err
			}
			if second, err = startSecond(ctx, f, info.Gateway); err != nil {
				return nil, fmt.Errorf("starting a second gateway: %w", err)
			}
			spec := workload.Spec{Dir: f.fleet.Dir, Print: p.Lines, Length: p.For}
			job := procs.Command(f.fleet.Run+"-printer", 0, spec.Argv(f.Mind)...)
			job["resource_config"] = map[string]any{"cpu_count": 1}
			id, err := f.fleet.Submit(ctx, "printer", job)
			if err != nil {
				return nil, fmt.Errorf("submitting the job that prints: %w", err)
			}
			watching = users.NewCrowd(id, info.Token, []string{info.Gateway.URL, second.url}, p.Watchers)
			for i := range p.Watchers {
				f.ends.Go(func() { watching.Watch(ctx, i) })
			}
			asking, stop := context.WithCancel(ctx)
			asked := make(chan struct{})
			f.ends.Go(func() {
				defer close(asked)
				watching.Ask(asking)
			})
			return func(ctx context.Context) error {
				defer stop()
				f.Log("waiting for %d watchers of %d lines", p.Watchers, p.Lines)
				seen, err := f.REST.WaitEnded(ctx, id)
				if err != nil {
					return err
				}
				if seen.State != "SUCCEEDED" || seen.Attempt != 1 {
					f.result.Harmed = append(f.result.Harmed, fmt.Sprintf("the job that prints is %s in attempt %d", seen.State, seen.Attempt))
				}
				if err := watching.Wait(ctx); err != nil {
					return err
				}
				stop()
				<-asked
				return watching.Judge(f.fleet.Dir, f.result)
			}, nil
		},
		Fault: func(ctx context.Context, f *Fight) error {
			switch (f.Round - 1) % 4 {
			case 0:
				return f.killAndRevive(ctx, "kill-gateway", func(info procs.Info) (procs.Component, error) { return info.Gateway, nil })
			case 1:
				f.result.Fault("kill-second-gateway")
				f.Log("round %d: kill-second-gateway", f.Round)
				return second.kill(ctx)
			case 2:
				return f.killAndRevive(ctx, "kill-leader", func(procs.Info) (procs.Component, error) { return f.Cluster.Leader(ctx) })
			default:
				return f.killAndRevive(ctx, "kill-agent", func(info procs.Info) (procs.Component, error) {
					j, err := f.REST.Job(ctx, watching.Job)
					if err != nil {
						return procs.Component{}, err
					}
					for _, a := range info.Agents {
						// After the end of the job any agent will do.
						if len(j.Nodes) == 0 || slices.Contains(j.Nodes, a.NodeID) {
							return a, nil
						}
					}
					return procs.Component{}, fmt.Errorf("no agent is on %v", j.Nodes)
				})
			}
		},
	}
}

func (f *Fight) killAndRevive(ctx context.Context, kind string, find func(procs.Info) (procs.Component, error)) error {
	info, err := f.Cluster.Info()
	if err != nil {
		return err
	}
	victim, err := find(info)
	if err != nil {
		return err
	}
	killed := time.Now()
	if err := f.Cluster.Kill(victim); err != nil {
		return err
	}
	if err := f.Outage(ctx, kind, killed); err != nil {
		return err
	}
	return f.Cluster.Revive(ctx, victim)
}

// secondGateway is a second gateway, with the same configuration as the cluster's except the address.
type secondGateway struct {
	ports ports.Set
	url   string
	argv  []string
	dir   string
	log   string

	mu  sync.Mutex
	cmd *exec.Cmd
	// ended is closed when cmd has ended.
	ended chan struct{}
}

var httpAddr = regexp.MustCompile(`(?m)^http_addr:.*$`)

func startSecond(ctx context.Context, f *Fight, first procs.Component) (_ *secondGateway, err error) {
	at := slices.IndexFunc(first.Argv, func(arg string) bool { return strings.HasSuffix(arg, ".yaml") })
	if at < 0 {
		return nil, fmt.Errorf("no configuration in %v", first.Argv)
	}
	name, file, flag := strings.Cut(first.Argv[at], "=")
	if !flag {
		file = name
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if !httpAddr.Match(text) {
		return nil, fmt.Errorf("%s has no http_addr", file)
	}
	g := &secondGateway{}
	defer func() {
		if err != nil {
			g.ports.Close()
		}
	}()
	addr, err := g.ports.Find("127.0.0.1", false)
	if err != nil {
		return nil, err
	}
	g.ports.Release()
	config := filepath.Join(f.Scratch, f.fleet.Run, "second-gateway.yaml")
	if err := os.WriteFile(config, httpAddr.ReplaceAll(text, []byte("http_addr: "+addr)), 0o600); err != nil {
		return nil, err
	}
	g.url, g.argv, g.dir, g.log = "http://"+addr, slices.Clone(first.Argv), f.Cluster.Dir, filepath.Join(f.Cluster.Dir, "logs", "second-gateway.log")
	g.argv[at] = config
	if flag {
		g.argv[at] = name + "=" + config
	}
	if err := g.start(ctx); err != nil {
		return nil, err
	}
	f.ends.Go(func() {
		<-ctx.Done()
		g.mu.Lock()
		defer g.mu.Unlock()
		_ = g.cmd.Process.Kill()
		<-g.ended
		g.ports.Close()
	})
	return g, g.ready(ctx)
}

// start is called with mu held, or before other goroutines have g.
func (g *secondGateway) start(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	log, err := os.OpenFile(g.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	g.cmd = exec.Command(g.argv[0], g.argv[1:]...)
	g.cmd.Stdout, g.cmd.Stderr, g.cmd.Dir, g.cmd.Env = log, log, g.dir, procs.Environ()
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := g.cmd.Start(); err != nil {
		return err
	}
	g.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan<- struct{}) {
		_ = cmd.Wait()
		close(ended)
	}(g.cmd, g.ended)
	return nil
}

func (g *secondGateway) ready(ctx context.Context) error {
	for {
		if _, err := procs.Gauge(ctx, g.url, "mind_sse_streams"); err == nil {
			return nil
		}
		if wait.For(ctx, 50*time.Millisecond); ctx.Err() != nil {
			return errors.Join(errors.New("the second gateway does not answer"), ctx.Err())
		}
	}
}

// kill kills the gateway and starts it again.
func (g *secondGateway) kill(ctx context.Context) error {
	g.mu.Lock()
	err := g.cmd.Process.Kill()
	<-g.ended
	if err == nil {
		err = g.start(ctx)
	}
	g.mu.Unlock()
	if err != nil {
		return fmt.Errorf("killing the second gateway and starting it again: %w", err)
	}
	return g.ready(ctx)
}
