package gateway

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	grpcstatus "google.golang.org/grpc/status"
)

// Health answers as published, without the envelope.
func health(x *exchange) error {
	x.send(http.StatusOK, []byte(`{"status":"ok"}`+"\n"))
	return nil
}

// How long a verdict on the coordinators is good for, and how long asking for
// it may take.
const (
	readyFor  = time.Second
	readyWait = 2 * time.Second
)

// readiness remembers what the coordinators last said, so that probes cost
// them little.
type readiness struct {
	mu   sync.Mutex
	at   time.Time
	fail string
}

func ready(x *exchange) error {
	if x.server.draining.Load() {
		x.send(http.StatusServiceUnavailable, []byte(`{"status":"not_ready","checks":{"gateway":"draining"}}`+"\n"))
		return nil
	}
	if fail := x.server.coordinatorsFail(x.r.Context()); fail != "" {
		b := append([]byte(`{"status":"not_ready","checks":{"gateway":"ok","coordinators":`), appendString(nil, fail)...)
		x.send(http.StatusServiceUnavailable, append(b, "}}\n"...))
		return nil
	}
	x.send(http.StatusOK, []byte(`{"status":"ready","checks":{"gateway":"ok","coordinators":"ok"}}`+"\n"))
	return nil
}

// coordinatorsFail asks whether a coordinator answers at all; "" when one does.
func (s *server) coordinatorsFail(ctx context.Context) string {
	s.ready.mu.Lock()
	defer s.ready.mu.Unlock()
	if time.Since(s.ready.at) < readyFor {
		return s.ready.fail
	}
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	ctx = client.WithCall(ctx, client.Call{Tenant: "default", Consistency: status.Stale})
	_, err := s.cluster.ListQueues(ctx, &v1.ListQueuesRequest{})
	s.ready.fail = ""
	if err != nil {
		s.ready.fail = codeName(grpcstatus.Code(err))
	}
	s.ready.at = time.Now()
	return s.ready.fail
}

func serveMetrics(x *exchange) error {
	x.code = http.StatusOK
	x.mark(x.w.Header())
	x.server.metrics.handler.ServeHTTP(x.w, x.r)
	return nil
}
