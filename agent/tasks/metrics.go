package tasks

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of launches and ends.
type metrics struct {
	launch prometheus.Histogram
	ended  *prometheus.CounterVec
	// abandoned counts the tasks that were removed before the archive had all of their logs.
	abandoned prometheus.Counter
	// diskFulls counts the tasks that failed when their job had used up its quota.
	diskFulls prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		launch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "mind_agent_launch_seconds", Help: "Time from accepting a task until its process runs.",
			Buckets: []float64{.001, .002, .004, .008, .016, .032, .064, .128, .256, .512, 1, 2, 4, 8},
		}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mind_agent_tasks_ended_total", Help: "Tasks that ended on this node, by result."}, []string{"how"}),
		abandoned: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mind_log_archive_abandoned_total", Help: "Task directories that were removed before they were completely archived.",
		}),
		diskFulls: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mind_agent_disk_quota_failures_total", Help: "Tasks that failed when the disk quota of their job was used up.",
		}),
	}
	registry.MustRegister(m.launch, m.ended, m.abandoned, m.diskFulls)
	return m
}

// Launched implements table.Notes.
func (m *metrics) Launched(took time.Duration) { m.launch.Observe(took.Seconds()) }

// Ended implements table.Notes.
func (m *metrics) Ended(how string) { m.ended.WithLabelValues(how).Inc() }
