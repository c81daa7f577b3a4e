// Package coordinator assembles the control plane: the replicated state (fsm) on Raft (raftnode), the liveness of members
// (gossip), the planner (scheduler) and the gRPC services for gateways, agents and operators.
//
// Guarantees. Any coordinator accepts any call: writes are forwarded to the leader in at most one hop; reads are
// answered from the local state after a read index from the leader, or at once if the caller asks for stale. An
// acknowledged write is committed; a failed one reports whether it was refused, not sent or of unknown outcome. Only
// the leader plans, judges nodes and holds agent sessions, and all of that ends before a later term begins on the same
// replica; late proposals of a deposed leader are not sent. A lease is renewed only by a leader that proved its term
// after the renewal arrived, and a node is declared lost only by the votes of a majority
// (docs/operate/failure-model.md).
//
// Not guaranteed. Logs and metrics of tasks are on the nodes, and in the log archive if agents shipped them: a stream
// reports what neither has. Without gossip on a majority of the coordinators no node is ever declared lost.
package coordinator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	"github.com/mindcoordinator/mind/coordinator/admin"
	"github.com/mindcoordinator/mind/coordinator/datatokens"
	"github.com/mindcoordinator/mind/coordinator/links"
	"github.com/mindcoordinator/mind/coordinator/metrics"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/coordinator/session"
	"github.com/mindcoordinator/mind/coordinator/votes"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/gossip"
	"github.com/mindcoordinator/mind/pki"
	"github.com/mindcoordinator/mind/raftnode"
)

// Run runs one coordinator until ctx ends, then shuts it down in order: agent sessions and leader loops, leadership
// (transferred to another voter), gRPC, Raft. It returns nil after a requested shutdown, and an error if it could not
// start, or if its log can no longer be trusted.
func Run(ctx context.Context, config Config) error {
	if err := config.Validate(); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	config = config.withDefaults()
	s := &server{config: config, log: config.Logger.With("coordinator", config.ID), machine: fsm.New()}
	life, die := context.WithCancel(context.WithoutCancel(ctx))
	defer die()
	s.life, s.die = life, die
	if err := s.prepare(); err != nil {
		return errors.Join(err, s.closeParts())
	}
	grpcListener, err := config.Network.Listen(config.GRPCAddr)
	if err != nil {
		return errors.Join(fmt.Errorf("listening for gRPC: %w", err), s.closeParts())
	}
	httpListener, err := config.Network.Listen(config.HTTPAddr)
	if err != nil {
		return errors.Join(fmt.Errorf("listening for HTTP: %w", err), grpcListener.Close(), s.closeParts())
	}
	grpcServer := s.grpcServer()
	httpServer := &http.Server{Handler: s.httpHandler(), ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 2)
	s.background.Go(func() {
		if err := grpcServer.Serve(grpcListener); err != nil {
			failed <- fmt.Errorf("serving gRPC: %w", err)
		}
	})
	s.background.Go(func() {
		if err := httpServer.Serve(httpListener); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serving HTTP: %w", err)
		}
	})
	// The others may need an answer from this coordinator before it has data: see recovery.MayBegin.
	if err := s.open(ctx); err != nil {
		die()
		grpcServer.Stop()
		err = errors.Join(err, httpServer.Close(), s.closeParts())
		s.background.Wait()
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return nil // The coordinator was stopped while it waited.
		}
		return err
	}
	led := make(chan struct{})
	go func() {
		defer close(led)
		s.replica.Raft().Lead(life, s.lead)
	}()
	s.background.Go(func() { s.members.Announce(life) })
	s.background.Go(func() { s.replica.FollowLeader(life) })
	s.background.Go(func() { s.selfcheck.Run(life) })
	s.background.Go(func() { s.access.WriteDenials(life) })
	s.log.Info("coordinator up", "grpc_addr", s.self().GRPCAddr, "http_addr", s.self().HTTPAddr, "raft_addr", s.self().RaftAddr)

	for stopped, waiting := s.replica.Raft().Done(), true; waiting; {
		waiting = false
		select {
		case <-ctx.Done():
		case err = <-failed:
		case <-stopped:
			// A replica that took itself out of service keeps reporting that until it is stopped.
			err, stopped, waiting = s.replica.Raft().Err(), nil, s.replica.Retired() != nil
		}
	}
	die()
	<-led
	return errors.Join(err, s.shutdown(grpcServer, httpServer))
}

// prepare creates the parts that need no data.
func (s *server) prepare() error {
	if err := s.loadTLS(); err != nil {
		return err
	}
	s.links = links.New(s.config.Network.Dial, s.coordinatorTLS)
	s.agents = links.New(s.config.Network.Dial, s.agentTLS)
	listed := map[string]string{}
	for _, p := range s.config.Peers {
		listed[p.ID] = p.GRPCAddr
	}
	s.replica = replica.New(replica.Config{
		ID: s.config.ID, Listed: listed, Secret: s.config.APISecret, LeaderWait: s.config.Timers.LeaderWait,
		Shutdown: s.config.Timers.Shutdown, Life: s.life, End: s.die, Log: s.log,
	}, s.machine, s.links)
	var err error
	if s.sealer, err = datatokens.New(s.config.CredentialsKey, s.config.APISecret, s.log); err != nil {
		return err
	}
	s.metrics = metrics.New(s.config.Registry, s.machine, s.leads)
	s.votes = votes.New(s.config.ID, s.tls, s.gossipMembers, s.replica)
	s.sessions = session.New(session.Config{
		ID: s.config.ID, TLS: s.tls, Heartbeat: s.config.Timers.AgentHeartbeat, Launcher: admin.LauncherFor, Unseal: s.sealer.Unseal,
		NotifyURL:  s.config.Webhooks.URL,
		Background: &s.background, Log: s.log,
	}, s.replica, s.currentSessions)
	if err := s.makeServices(); err != nil {
		return err
	}
	s.machine.OnApply(s.applied)
	s.machine.OnApply(s.noteLevel)
	s.machine.OnApply(s.events.Observe)
	s.machine.OnApply(s.selfcheck.Observe)
	s.machine.OnApply(s.forecasts.Errors.Observe)
	if s.config.Observe != nil {
		s.machine.OnApply(s.config.Observe)
	}
	return nil
}

// open creates the parts that the services need. It waits while this coordinator has no data and must not start without
// the others.
func (s *server) open(ctx context.Context) error {
	if err := s.joinGossip(); err != nil {
		return err
	}
	if err := s.recovery.RestorePending(ctx); err != nil {
		return err
	}
	var voters []raftnode.Server
	for _, p := range s.config.Peers {
		voters = append(voters, raftnode.Server{ID: p.ID, Addr: p.RaftAddr})
	}
	hosting := raftnode.Config{
		ID: s.config.ID, Dir: filepath.Join(s.config.DataDir, "raft"),
		Network: s.config.Network, BindAddr: s.config.RaftAddr, AdvertiseAddr: s.self().RaftAddr,
		ServerTLS: s.serverTLS, Bootstrap: voters, MayBootstrap: func() (bool, error) { return s.recovery.MayBegin(ctx) }, LogStore: s.config.LogStore,
		HeartbeatTimeout: s.config.Timers.RaftHeartbeat, ElectionTimeout: s.config.Timers.RaftElection, LeaderLease: s.config.Timers.RaftLeaderLease,
		MaxTimeout: s.config.Timers.RaftTimeoutMax,
		Pack:       s.replica.Pack, MaxEntryBytes: s.config.Limits.EntryBytes, Logger: s.log, Metrics: s.config.Registry,
	}
	if s.clientTLS != nil {
		hosting.DialTLS = s.clientTLS.Config
	}
	if s.config.RaftTuning != nil {
		s.config.RaftTuning(&hosting)
	}
	if hosting.Stores == nil {
		s.levelDir = hosting.Dir
	}
	if err := fitsLevel(s.levelDir); err != nil {
		return err
	}
	node, err := raftnode.Open(hosting, replica.Hosted{Machine: s.machine, Tamper: s.config.Tamper})
	if err != nil {
		return fmt.Errorf("opening raft: %w", err)
	}
	s.replica.Open(node)
	return nil
}

func (s *server) joinGossip() (err error) {
	if s.config.GossipAddr == "" {
		return nil
	}
	s.pool, err = gossip.Start(gossip.Config{
		Name: s.config.ID, Role: pki.RoleCoordinator, Bind: s.config.GossipAddr, Advertise: s.config.GossipAdvertise,
		SecretKey: s.config.GossipKey, Join: s.config.GossipJoin, Logger: s.log, Transport: s.config.GossipTransport,
	})
	if err != nil {
		return fmt.Errorf("joining gossip: %w", err)
	}
	return nil
}

// gossipMembers returns the members that this coordinator's gossip knows; none without gossip.
func (s *server) gossipMembers() []gossip.Member {
	if s.pool == nil {
		return nil
	}
	return s.pool.Members()
}

// shutdown runs after the leader loops and agent sessions have ended. Calls in flight get time to finish; the writes
// among them are retried at the next leader.
func (s *server) shutdown(grpcServer *grpc.Server, httpServer *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Timers.Shutdown)
	defer cancel()
	if s.replica.IsLeader() && len(s.replica.Raft().Peers()) > 1 {
		if err := s.replica.Raft().Transfer(ctx, ""); err != nil {
			s.log.Warn("leadership was not transferred", "error", err)
		}
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		grpcServer.GracefulStop()
	}()
	select {
	case <-stopped:
	case <-ctx.Done():
		grpcServer.Stop()
		<-stopped
	}
	// Do not wait for idle connections of scrapers.
	err := httpServer.Close()
	err = errors.Join(err, s.closeParts())
	s.background.Wait()
	s.replica.Wait()
	return err
}

// closeParts closes the parts that open created, even if open failed.
func (s *server) closeParts() error {
	if s.links != nil {
		s.links.Close()
		s.agents.Close()
	}
	var errs []error
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Timers.Shutdown)
	defer cancel()
	if s.pool != nil {
		if err := s.pool.Leave(ctx); err != nil {
			s.log.Warn("gossip leave failed", "error", err)
		}
	}
	if s.replica != nil && s.replica.Opened() {
		if err := s.replica.Raft().Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stopping raft: %w", err))
		}
	}
	return errors.Join(errs...)
}
