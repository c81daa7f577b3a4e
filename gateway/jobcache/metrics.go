package jobcache

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	rows    *prometheus.CounterVec
	seconds prometheus.Histogram
	failing prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		rows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mind_gateway_job_cache_rows_total",
			Help: "Listed jobs by the outcome of writing their row: written, unchanged, failed, dropped (too many were queued, or writing paused after a failure).",
		}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "mind_gateway_job_cache_write_seconds", Help: "Time to write the jobs of one list. Requests do not wait for it.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
		failing: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mind_gateway_job_cache_failing", Help: "1 while the last write of the job cache failed.",
		}),
	}
	for _, outcome := range []string{"written", "unchanged", "failed", "dropped"} {
		m.rows.WithLabelValues(outcome)
	}
	registry.MustRegister(m.rows, m.seconds, m.failing)
	return m
}
