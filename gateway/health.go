package gateway

import (
	"net/http"
	"strconv"

	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// Health answers as published, without the envelope.
func health(x *httpRequest) error {
	x.send(http.StatusOK, []byte(`{"status":"ok"}`+"\n"))
	return nil
}

// ready answers whether this gateway can answer requests: requests without a consistency or, with consistency=stale, stale
// reads.
func ready(x *httpRequest) error {
	s := x.server
	consistency, err := x.consistency()
	if err != nil {
		return err
	}
	if s.draining.Load() {
		x.send(http.StatusServiceUnavailable, []byte(`{"status":"not_ready","checks":{"gateway":"draining"}}`+"\n"))
		return nil
	}
	v := s.ready.Check(x.r.Context(), consistency == status.Stale)
	code, state := http.StatusOK, "ready"
	if !v.Ready {
		code, state = http.StatusServiceUnavailable, "not_ready"
	}
	b := wire.AppendString([]byte(`{"status":`), state)
	b = wire.AppendString(append(b, `,"checks":{"gateway":"ok","coordinators":`...), v.Coordinators)
	b = wire.AppendString(append(b, `,"leader":`...), v.Leader)
	x.send(code, append(b, "}}\n"...))
	return nil
}

func serveMetrics(x *httpRequest) error {
	x.code = http.StatusOK
	x.mark(x.w.Header())
	x.server.metrics.Handler.ServeHTTP(x.w, x.r)
	return nil
}

func serveOpenAPI(x *httpRequest) error {
	h := x.w.Header()
	document := x.server.document()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(document)))
	x.mark(h)
	x.code = http.StatusOK
	x.w.WriteHeader(http.StatusOK)
	_, _ = x.w.Write(document) // the caller hung up and needs no answer
	return nil
}
