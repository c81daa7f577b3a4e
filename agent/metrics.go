package agent

import "github.com/prometheus/client_golang/prometheus"

// registerMetrics registers the metrics of all parts except the tasks, which have registered their own.
func (a *agent) registerMetrics() {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	a.cfg.Metrics.MustRegister(
		gauge("mind_agent_reports_waiting", "Reports that no coordinator has acknowledged.", func() float64 { return float64(a.outbox.Waiting()) }),
		gauge("mind_agent_in_session", "1 while in session with a leading coordinator.", func() float64 {
			if a.sessions.Live() {
				return 1
			}
			return 0
		}),
		gauge("mind_agent_unfit", "1 while the node cannot start tasks; its agent's log and mind nodes say why.", func() float64 {
			if a.fitness.Why() != "" {
				return 1
			}
			return 0
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "mind_agent_sessions_total", Help: "Sessions opened."}, func() float64 {
			return float64(a.sessions.Begun())
		}),
		a.relays.Collector(), a.inputs.Collector())
	a.cfg.Metrics.MustRegister(a.gpus.Collectors()...)
	a.cfg.Metrics.MustRegister(a.leases.Collectors()...)
	if a.keys != nil {
		a.cfg.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "mind_certificate_not_after_seconds", Help: "When the certificate expires, in Unix time.", ConstLabels: prometheus.Labels{"shown_to": "components"},
		}, func() float64 { return float64(a.keys.NotAfter().Unix()) }))
	}
}
