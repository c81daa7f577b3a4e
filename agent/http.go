package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/mindcoordinator/mind/agent/doctor"
	"github.com/mindcoordinator/mind/agent/launch"
	"github.com/mindcoordinator/mind/agent/leader"
	"github.com/mindcoordinator/mind/agent/taskservice"
	"github.com/mindcoordinator/mind/agent/transfer"
	"github.com/mindcoordinator/mind/agent/tunnels"
	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/profiling"
)

// peerService is the service that other agents may call.
type peerService struct {
	*leader.PeerService
	*transfer.Service
}

// taskService is the service that coordinators call.
type taskService struct {
	*taskservice.Service
	tunnelService
}

// tunnelService is the part of it that package tunnels implements.
type tunnelService interface {
	StreamTaskTunnel(v1.TaskService_StreamTaskTunnelServer) error
}

// listen opens two listeners: gRPC for coordinators (TaskService) and other agents (PeerService), HTTP for operators. The
// returned function stops both and waits for them.
func (a *agent) listen(fatal chan<- error) (stop func(), err error) {
	listener, err := a.cfg.Machine.Network.Listen(a.cfg.GRPCAddr)
	if err != nil {
		return nil, fmt.Errorf("listen for coordinators: %w", err)
	}
	a.grpcAddr = advertised(a.cfg.GRPCAdvertise, listener)
	// The coordinators keep their connections, and probe them.
	options := client.ServerKeepalive()
	if a.serverTLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(a.serverTLS)))
	}
	server := grpc.NewServer(append(options, a.interceptors()...)...)
	tunnels := tunnels.New(a.cfg.NodeID, a.tasks, a.isolation.Task, a.log)
	v1.RegisterTaskServiceServer(server, taskService{&taskservice.Service{
		Node: a.cfg.NodeID, Tasks: a.tasks, Cache: a.inputs.Cache(), Series: a.series, MetricsBytes: a.cfg.MetricsBytes,
		Doctor: &doctor.Doctor{Node: a.cfg.NodeID, Env: launch.Inherited(), Context: a.tasks.Context()},
	}, tunnels})
	v1.RegisterPeerServiceServer(server, peerService{
		leader.NewPeerService(a.cfg.NodeID, a.leases, a.relays, a.serverTLS != nil),
		transfer.NewService(transfer.Config{
			Node: a.cfg.NodeID, Checkpoints: a.checkpoints, Registered: a.sessions.ServedCheckpoint, Agree: a.inputs.Agree,
			Rate: a.cfg.CheckpointServeRate, Identified: a.serverTLS != nil, Log: a.log, Metrics: a.cfg.Metrics,
		}),
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); err != nil {
			fatal <- fmt.Errorf("serve coordinators: %w", err)
		}
	}()
	stopGRPC := func() {
		server.Stop()
		<-done
		tunnels.Close()
	}
	if a.cfg.HTTPAddr == "" {
		return stopGRPC, nil
	}
	stopHTTP, err := a.listenHTTP(fatal)
	if err != nil {
		stopGRPC()
		return nil, err
	}
	return func() {
		stopHTTP()
		stopGRPC()
	}, nil
}

func (a *agent) listenHTTP(fatal chan<- error) (stop func(), err error) {
	listener, err := a.cfg.Machine.Network.Listen(a.cfg.HTTPAddr)
	if err != nil {
		return nil, fmt.Errorf("listen for operators: %w", err)
	}
	a.httpAddr = advertised(a.cfg.HTTPAdvertise, listener)
	mux := http.NewServeMux()
	mux.Handle(profiling.Path, profiling.Handler())
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.cfg.Metrics, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /health/ready", func(w http.ResponseWriter, _ *http.Request) {
		switch why := a.fitness.Why(); {
		case !a.sessions.Live():
			answer(w, http.StatusServiceUnavailable, "no session with a leading coordinator")
		case why != "":
			answer(w, http.StatusServiceUnavailable, "the node cannot start tasks: "+why)
		default:
			answer(w, http.StatusOK, "ready")
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			fatal <- fmt.Errorf("serve operators: %w", err)
		}
	}()
	return func() {
		bounded, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(bounded) != nil {
			_ = server.Close()
		}
		<-done
	}, nil
}

func answer(w http.ResponseWriter, code int, status string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, "{\"status\":%q}\n", status)
}

// advertised returns the address to report to others.
func advertised(configured string, listener net.Listener) string {
	if configured != "" {
		return configured
	}
	return listener.Addr().String()
}
