package gateway

import (
	"net/http"
	"strconv"

	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// Health answers as published, without the envelope.
func health(x *rest.Request) error {
	x.Send(http.StatusOK, []byte(`{"status":"ok"}`+"\n"))
	return nil
}

// serveReady answers whether this gateway can answer requests: requests without a consistency or, with consistency=stale, stale
// reads.
func (s *server) serveReady(x *rest.Request) error {
	consistency, err := x.Consistency()
	if err != nil {
		return err
	}
	if s.draining.Load() {
		x.Send(http.StatusServiceUnavailable, []byte(`{"status":"not_ready","checks":{"gateway":"draining"}}`+"\n"))
		return nil
	}
	v := s.ready.Check(x.R.Context(), consistency == status.Stale)
	code, state := http.StatusOK, "ready"
	if !v.Ready {
		code, state = http.StatusServiceUnavailable, "not_ready"
	}
	b := wire.AppendString([]byte(`{"status":`), state)
	b = wire.AppendString(append(b, `,"checks":{"gateway":"ok","coordinators":`...), v.Coordinators)
	b = wire.AppendString(append(b, `,"leader":`...), v.Leader)
	x.Send(code, append(b, "}}\n"...))
	return nil
}

func serveMetrics(x *rest.Request) error {
	x.Code = http.StatusOK
	x.Mark(x.W.Header())
	x.Server.Metrics.Handler.ServeHTTP(x.W, x.R)
	return nil
}

func (s *server) serveOpenAPI(x *rest.Request) error {
	h := x.W.Header()
	document := s.document()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(document)))
	x.Mark(h)
	x.Code = http.StatusOK
	x.W.WriteHeader(http.StatusOK)
	_, _ = x.W.Write(document) // the caller hung up and needs no answer
	return nil
}
