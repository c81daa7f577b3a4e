package checkpoints

import "github.com/prometheus/client_golang/prometheus"

// metrics are the metrics of one Keeper.
type metrics struct {
	bytes, failures prometheus.Counter
	waiting         prometheus.Gauge
	seconds         prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		bytes:    prometheus.NewCounter(prometheus.CounterOpts{Name: "mind_checkpoint_archive_bytes_total", Help: "Bytes of checkpoints sent to the archive."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "mind_checkpoint_archive_failures_total", Help: "Uploads and removals of checkpoints that failed; most are tried again."}),
		waiting:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "mind_checkpoint_archive_waiting", Help: "Checkpoints of this node that are to be uploaded to the archive, with those in progress."}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "mind_checkpoint_archive_upload_seconds", Help: "How long it took to upload one checkpoint, in seconds.", Buckets: prometheus.ExponentialBuckets(0.1, 4, 9),
		}),
	}
	reg.MustRegister(m.bytes, m.failures, m.waiting, m.seconds)
	return m
}
