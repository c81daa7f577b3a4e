package raftnode

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics has the node's metrics. They are updated even if they are not registered.
type metrics struct {
	registerer    prometheus.Registerer
	registered    []prometheus.Collector
	commitSeconds prometheus.Histogram
	entryCommands prometheus.Histogram
}

func newMetrics(n *Node) *metrics {
	m := &metrics{
		registerer: n.cfg.Metrics,
		commitSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "mind_raft_commit_seconds",
			Help:    "Time from handing an entry to raft until it was applied on the leader.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}),
		entryCommands: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "mind_raft_entry_commands",
			Help:    "Commands packed into one log entry.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 11),
		}),
	}
	if m.registerer == nil {
		return m
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	for _, c := range []prometheus.Collector{
		m.commitSeconds,
		m.entryCommands,
		gauge("mind_raft_leader", "1 while this replica leads.", func() float64 {
			if n.IsLeader() {
				return 1
			}
			return 0
		}),
		gauge("mind_raft_timeout_seconds", "How long this replica waits for a leader, or for votes, before it stands for election.", func() float64 { return n.Timeout().Seconds() }),
		gauge("mind_raft_applied_index", "Highest log index applied on this replica.", func() float64 { return float64(n.AppliedIndex()) }),
		gauge("mind_raft_backlog", "Commands waiting to be packed into an entry.", func() float64 { return float64(n.proposer.backlog()) }),
	} {
		if err := m.registerer.Register(c); err != nil {
			n.log.Warn("register metric", "error", err)
			continue
		}
		m.registered = append(m.registered, c)
	}
	return m
}

// close unregisters the metrics, so that a node that is opened again in the same process can register them.
func (m *metrics) close() {
	for _, c := range m.registered {
		m.registerer.Unregister(c)
	}
}
