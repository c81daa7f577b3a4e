package coordinator

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/profiling"
	"github.com/mindcoordinator/mind/raftnode"
)

// httpHandler serves monitoring.
func (s *server) httpHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(profiling.Path, profiling.Handler())
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.config.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		writeHealth(w, http.StatusOK, health{Status: "ok", ID: s.config.ID})
	})
	mux.HandleFunc("GET /health/ready", func(w http.ResponseWriter, _ *http.Request) {
		if !s.replica.Opened() {
			writeHealth(w, http.StatusServiceUnavailable, health{Status: s.recovery.NotUp(), ID: s.config.ID})
			return
		}
		stats := s.replica.Raft().Stats()
		h := health{Status: "ok", ID: s.config.ID, Leader: stats.LeaderID, AppliedIndex: stats.AppliedIndex}
		code := http.StatusOK
		if why := s.unready(stats); why != "" {
			h.Status, code = why, http.StatusServiceUnavailable
		}
		writeHealth(w, code, h)
	})
	return mux
}

// unready returns why this replica should not be used; "" if it should.
func (s *server) unready(stats raftnode.Stats) string {
	// After a start the log is replayed: until then this replica's answers would be old. Entries that are committed
	// meanwhile do not count: on a busy cluster there are always more.
	if stats.CommitIndex > 0 {
		s.replayTo.CompareAndSwap(0, stats.CommitIndex)
	}
	replayTo := s.replayTo.Load()
	switch why := s.replica.WhyRetired(); {
	case why != "":
		return "out of service: " + why
	case s.life.Err() != nil:
		return "shutting down"
	case stats.LeaderID == "":
		return "no leader is known"
	case replayTo == 0 || stats.AppliedIndex < replayTo:
		return "replaying the log"
	}
	return ""
}

// grpcHealth reports readiness to gRPC clients, which use it to choose a coordinator for a stream.
type grpcHealth struct {
	healthpb.UnimplementedHealthServer
	server *server
}

func (g grpcHealth) Check(_ context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	if r.GetService() != "" {
		return nil, grpcstatus.Error(codes.NotFound, "health is reported for the whole server only: omit the service name")
	}
	if !g.server.replica.Opened() || g.server.unready(g.server.replica.Raft().Stats()) != "" {
		return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_NOT_SERVING}, nil
	}
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
}

type health struct {
	Status       string `json:"status"`
	ID           string `json:"id"`
	Leader       string `json:"leader,omitempty"`
	AppliedIndex uint64 `json:"applied_index,omitempty"`
}

func writeHealth(w http.ResponseWriter, code int, h health) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// The caller is gone if this fails.
	_ = json.NewEncoder(w).Encode(h)
}
