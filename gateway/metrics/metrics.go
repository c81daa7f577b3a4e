// Package metrics counts what a gateway does, for Prometheus.
//
// Guarantees: no label has values that callers choose: routes are those of the gateway's table, and what no route fits is "unknown".
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

// New registers the metrics, also those of the hub of event streams.
func New(registry *prometheus.Registry, hub *fanout.Hub) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mind_gateway_requests_total", Help: "Requests answered, by route and HTTP status.",
		}, []string{"route", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mind_gateway_request_seconds", Help: "Time to answer a request; event streams are left out.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"route"}),
		Streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mind_sse_streams", Help: "Event streams that are open.",
		}),
		CoordinatorErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mind_coordinator_errors_total", Help: "Calls to coordinators that failed for good, by gRPC code.",
		}, []string{"code"}),
		RateLimited: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mind_gateway_rate_limited_total", Help: "Requests refused because their token, user or tenant asked too often.",
		}),
		Denied: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mind_denied_total", Help: "Requests that the gateway refused by itself, by error.code: no token or a wrong one, a permission that lacks, too many, not of the schema; UNKNOWN_TOKENS: too many unknown tokens from one address.",
		}, []string{"reason"}),
		Exchanges: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mind_gateway_token_exchanges_total",
			Help: "Exchanges of callers' tokens, by outcome: ok, refused, unreachable, bad_answer, not_exchangeable (nobody was asked, and the caller was refused), skipped.",
		}, []string{"outcome"}),
		ExchangeSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "mind_gateway_token_exchange_seconds", Help: "Time that a request waits for its tokens.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
		Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
	}
	registry.MustRegister(m.requests, m.seconds, m.Streams, m.CoordinatorErrors, m.RateLimited, m.Denied, m.Exchanges, m.ExchangeSeconds,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "mind_sse_upstreams", Help: "Streams of coordinators that event streams are fed from; many share one.",
		}, func() float64 { return float64(hub.Streams()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "mind_sse_fell_behind_total", Help: "Times that a reader of an event stream was too slow for what it shared, and was given a stream of its own.",
		}, func() float64 { return float64(hub.Fell()) }))
	// A registry of the caller may have these already.
	_ = registry.Register(collectors.NewGoCollector())
	_ = registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Observe counts a request that was answered. The time of an event stream says nothing.
func (m *Metrics) Observe(route string, stream bool, code int, took time.Duration) {
	m.requests.WithLabelValues(route, statusText(code)).Inc()
	if !stream {
		m.seconds.WithLabelValues(route).Observe(took.Seconds())
	}
}

// statusText spares an allocation for the common codes.
func statusText(code int) string {
	switch code {
	case 200:
		return "200"
	case 201:
		return "201"
	}
	return strconv.Itoa(code)
}

// CertificateEnd tells when a certificate runs out. Each look reads the files again if they changed.
func CertificateEnd(shownTo string, keys *pki.Keys) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mind_certificate_not_after_seconds", Help: "When the certificate runs out, in Unix time.", ConstLabels: prometheus.Labels{"shown_to": shownTo},
	}, func() float64 { return float64(keys.NotAfter().Unix()) })
}
