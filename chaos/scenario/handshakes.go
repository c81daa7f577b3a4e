package scenario

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/pki"
)

// Handshakes kills all coordinators, and starts them again at once, under the load of a thousand agents that have lost
// their sessions: a thousand TLS handshakes per second at the gRPC ports, with certificates of agents. A coordinator
// must lead within settle, and continue to lead during the load.
func Handshakes(rounds, perSecond int, length, settle time.Duration, load Load) Attack {
	return Attack{
		Name: "handshakes", Load: load, Rounds: rounds, Between: 5 * time.Second,
		Fault: func(ctx context.Context, f *Fight) error {
			info, err := f.Cluster.Info()
			if err != nil {
				return err
			}
			s, err := newStorm(info, filepath.Join(f.Cluster.Dir, "pki"), f.Scratch)
			if err != nil {
				return err
			}
			if err := f.killAll(ctx, info.Coordinators); err != nil {
				return err
			}
			f.result.Fault("kill-all-coordinators")
			stop := s.blow(ctx, perSecond)
			begun := time.Now()
			if err := f.startAll(info.Coordinators); err != nil {
				stop()
				return err
			}
			wait.For(ctx, length)
			err = ctx.Err()
			end := time.Now()
			stop()
			f.note("round %d: %s", f.Round, s)
			if err != nil {
				return err
			}
			all, err := f.terms()
			if err != nil {
				return err
			}
			// The logs of killed coordinators do not show the ends of their terms.
			all = slices.DeleteFunc(all, func(r term) bool { return r.from.Before(begun) })
			f.requireLeader(all, begun, end, settle)
			return f.Outage(ctx, "handshakes-no-longer", time.Now())
		},
	}
}

// killAll kills components at the same moment.
func (f *Fight) killAll(ctx context.Context, components []procs.Component) error {
	for _, p := range components {
		if err := f.Cluster.Kill(p); err != nil {
			return err
		}
	}
	for _, p := range components {
		if err := f.Cluster.WaitGone(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// startAll starts components at the same moment.
func (f *Fight) startAll(components []procs.Component) error {
	for _, p := range components {
		cmd, err := f.Cluster.Restart(p)
		if err != nil {
			return fmt.Errorf("starting %s again: %w", p.Name(), err)
		}
		go func() { _ = cmd.Wait() }() // this reaps the process when it ends
	}
	return nil
}

// storm makes TLS handshakes with certificates of agents, and nothing else.
type storm struct {
	addrs                   []string
	configs                 []*tls.Config
	begun, done, turnedAway atomic.Int64
	began                   time.Time
	lasted                  time.Duration
}

const (
	// stormAgents is the number of agents, each with its own certificate.
	stormAgents = 50
	// stormPatience limits the time of a handshake, and stormMost the number of handshakes in progress.
	stormPatience = 5 * time.Second
	stormMost     = 4000
)

func newStorm(info procs.Info, authority, dir string) (*storm, error) {
	ca, err := pki.LoadCA(authority)
	if err != nil {
		return nil, fmt.Errorf("making certificates for agents: %w", err)
	}
	s := &storm{}
	for _, p := range info.Coordinators {
		s.addrs = append(s.addrs, p.GRPCAddr)
	}
	for i := range stormAgents {
		files, err := ca.Issue(filepath.Join(dir, "storm"), fmt.Sprintf("storm%d", i), pki.RoleAgent)
		if err != nil {
			return nil, err
		}
		config, err := files.ClientTLS()
		if err != nil {
			return nil, err
		}
		config.NextProtos = []string{"h2"}
		config.ServerName = "localhost"
		s.configs = append(s.configs, config)
	}
	return s, nil
}

// blow begins a number of handshakes per second, whatever their results, until stop is called.
func (s *storm) blow(ctx context.Context, perSecond int) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	s.began = time.Now()
	all.Go(func() {
		const pace = 10 * time.Millisecond
		tick := time.NewTicker(pace)
		defer tick.Stop()
		room := make(chan struct{}, stormMost)
		for n := 0; ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			for due := int(time.Since(s.began).Seconds() * float64(perSecond)); n < due; n++ {
				select {
				case room <- struct{}{}:
				default:
					continue // all handshakes are in progress
				}
				all.Go(func() {
					defer func() { <-room }()
					s.handshake(ctx, s.addrs[n%len(s.addrs)], s.configs[n%len(s.configs)])
				})
			}
		}
	})
	return sync.OnceFunc(func() {
		cancel()
		all.Wait()
		s.lasted = time.Since(s.began)
	})
}

func (s *storm) handshake(ctx context.Context, addr string, config *tls.Config) {
	ctx, cancel := context.WithTimeout(ctx, stormPatience)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return // the coordinator does not listen yet
	}
	defer raw.Close()
	s.begun.Add(1)
	switch err := tls.Client(raw, config).HandshakeContext(ctx); {
	case err == nil:
		s.done.Add(1)
	case !errors.Is(err, context.Canceled):
		s.turnedAway.Add(1)
	}
}

func (s *storm) String() string {
	seconds := max(1, s.lasted.Seconds())
	return fmt.Sprintf("%.0f handshakes a second were begun, %.0f done, %.0f given up or turned away",
		float64(s.begun.Load())/seconds, float64(s.done.Load())/seconds, float64(s.turnedAway.Load())/seconds)
}
