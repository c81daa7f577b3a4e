package coordinator

import (
	"encoding/json"
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// httpHandler serves what machines that watch over this one ask for.
func (s *server) httpHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.config.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		writeHealth(w, http.StatusOK, health{Status: "ok", ID: s.config.ID})
	})
	var caughtUp atomic.Bool
	mux.HandleFunc("GET /health/ready", func(w http.ResponseWriter, _ *http.Request) {
		stats := s.raft.Stats()
		h := health{Status: "ok", ID: s.config.ID, Leader: stats.LeaderID, AppliedIndex: stats.AppliedIndex}
		// After a start the log is replayed: what this replica would answer before is history.
		if stats.CommitIndex > 0 && stats.AppliedIndex >= stats.CommitIndex {
			caughtUp.Store(true)
		}
		code := http.StatusOK
		switch why := s.audit.out.Load(); {
		case why != nil:
			h.Status, code = "out of service: "+*why, http.StatusServiceUnavailable
		case s.life.Err() != nil:
			h.Status, code = "shutting down", http.StatusServiceUnavailable
		case stats.LeaderID == "":
			h.Status, code = "no leader is known", http.StatusServiceUnavailable
		case !caughtUp.Load():
			h.Status, code = "replaying the log", http.StatusServiceUnavailable
		}
		writeHealth(w, code, h)
	})
	return mux
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
	// Whoever asked and went away misses nothing.
	_ = json.NewEncoder(w).Encode(h)
}
