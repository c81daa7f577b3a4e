// Package metrics counts what a gateway does, for Prometheus.
//
// Guarantees: no label has values that callers choose. Routes are those of the gateway's table; a request that matches no
// route counts as "unknown".
package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/mindcoordinator/mind/gateway/fanout"
	"github.com/mindcoordinator/mind/pki"
)

// Metrics of one gateway.
type Metrics struct {
	requests          *prometheus.CounterVec
	seconds           *prometheus.HistogramVec
	Streams           prometheus.Gauge
	CoordinatorErrors *prometheus.CounterVec
	RateLimited       prometheus.Counter
	Denied            *prometheus.CounterVec
	Exchanges         *prometheus.CounterVec
	ExchangeSeconds   prometheus.Histogram
	Handler           http.Handler
}

// New registers the metrics, including those of the hub of event streams.
func New(registry *prometheus.Registry, hub *fanout.Hub) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mind_gateway_requests_total", Help: "Requests answered, by route and HTTP status.",
		}, []string{"route", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mind_gateway_request_seconds", Help: "Time to answer a request, without event streams.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"route"}),
		Streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mind_sse_streams", Help: "Open event streams.",
		}),
		CoordinatorErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mind_coordinator_errors_total", Help: "Calls to coordinators that failed after all retries, by gRPC code.",
		}, []string{"code"}),
		RateLimited: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mind_gateway_rate_limited_total", Help: "Requests refused because their token, user or tenant exceeded a rate limit.",
		}),
		Denied: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mind_denied_total", Help: "Requests refused by the gateway itself, by error.code: missing or invalid token, missing permission, rate limit, schema; UNKNOWN_TOKENS: too many unknown tokens from one address.",
		}, []string{"reason"}),
		Exchanges: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mind_gateway_token_exchanges_total",
			Help: "Exchanges of callers' tokens, by outcome: ok, refused, unreachable, bad_answer, not_exchangeable and session (the caller was refused without a request), skipped.",
		}, []string{"outcome"}),
		ExchangeSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "mind_gateway_token_exchange_seconds", Help: "Time that a request waits for exchanged tokens.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
		Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
	}
	registry.MustRegister(m.requests, m.seconds, m.Streams, m.CoordinatorErrors, m.RateLimited, m.Denied, m.Exchanges, m.ExchangeSeconds,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "mind_sse_upstreams", Help: "Streams from coordinators; many event streams share one.",
		}, func() float64 { return float64(hub.Streams()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "mind_sse_fell_behind_total", Help: "How often a slow reader of a shared event stream got a stream of its own.",
		}, func() float64 { return float64(hub.Fell()) }))
	// A registry of the caller may have these already.
	_ = registry.Register(collectors.NewGoCollector())
	_ = registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Observe counts an answered request. The duration of an event stream says nothing.
func (m *Metrics) Observe(route string, stream bool, code int, took time.Duration) {
	m.requests.WithLabelValues(route, statusText(code)).Inc()
	if !stream {
		m.seconds.WithLabelValues(route).Observe(took.Seconds())
	}
}

// statusText avoids an allocation for the common codes.
func statusText(code int) string {
	switch code {
	case 200:
		return "200"
	case 201:
		return "201"
	}
	return strconv.Itoa(code)
}

// CertificateEnd reports when a certificate expires. It reads the files again if they changed.
func CertificateEnd(shownTo string, keys *pki.Keys) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mind_certificate_not_after_seconds", Help: "When the certificate expires, in Unix time.", ConstLabels: prometheus.Labels{"shown_to": shownTo},
	}, func() float64 { return float64(keys.NotAfter().Unix()) })
}
