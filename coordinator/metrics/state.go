package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
)

// stateCollector reads the state when it is scraped. A replica that does not lead reports nothing.
type stateCollector struct {
	machine *fsm.Machine
	leading func() bool
}

var (
	descJobs   = prometheus.NewDesc("mind_jobs", "Jobs by state and queue. QUEUED counts jobs that wait in the queue, HELD jobs that are held back.", []string{"state", "queue"}, nil)
	descGPUs   = prometheus.NewDesc("mind_gpus", "GPUs by model and state.", []string{"model", "state"}, nil)
	descNodes  = prometheus.NewDesc("mind_nodes", "Nodes by state.", []string{"state"}, nil)
	descLeases = prometheus.NewDesc("mind_leases", "Leases in force.", nil, nil)

	descCheckpoints = prometheus.NewDesc("mind_checkpoints", "Checkpoints and exported models by state.", []string{"state"}, nil)
	descArchive     = prometheus.NewDesc("mind_checkpoint_archive_bytes", "Size of the checkpoints in the archive, in bytes, with those that are still to be removed.", nil, nil)

	descExecutions = prometheus.NewDesc("mind_executions", "Executions of Cores by status.", []string{"status"}, nil)
	descDecisions  = prometheus.NewDesc("mind_decisions", "Decisions that executions asked for, by status. The pending ones wait for people.", []string{"status"}, nil)

	descLevel = prometheus.NewDesc("mind_feature_level", "Feature level of the cluster, as this coordinator has it.", nil, nil)
	descAhead = prometheus.NewDesc("mind_log_time_ahead_seconds", "By how much the time of the log is ahead of this coordinator's clock.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descJobs, descGPUs, descNodes, descLeases, descCheckpoints, descArchive, descExecutions, descDecisions, descLevel, descAhead} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	v := c.machine.View()
	// If the log's time is behind, nothing was written meanwhile.
	ch <- prometheus.MustNewConstMetric(descAhead, prometheus.GaugeValue, max(0, time.Duration(v.Now()-time.Now().UnixNano()).Seconds()))
	ch <- prometheus.MustNewConstMetric(descLevel, prometheus.GaugeValue, float64(v.Level()))
	if !c.leading() {
		return
	}
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	for q := range v.Queues() {
		for state, n := range JobCounts(v.QueueCounts(q.Name), v.QueueHeld(q.Name)) {
			gauge(descJobs, n, state, q.Name)
		}
	}
	type gpuKind struct{ model, state string }
	gpus, nodes := map[gpuKind]int{}, map[string]int{}
	for n := range v.Nodes() {
		nodes[n.State.String()]++
		use := v.Use(n.ID)
		for i := range n.GPUs {
			gpus[gpuKind{n.GPUs[i].Model, gpuState(&n.GPUs[i], &use)}]++
		}
	}
	for kind, count := range gpus {
		gauge(descGPUs, count, kind.model, kind.state)
	}
	for state, name := range v1.NodeState_Value_name {
		if state != 0 {
			gauge(descNodes, nodes[name], name)
		}
	}
	gauge(descLeases, v.LeaseCount())
	for state, name := range v1.CheckpointState_Value_name {
		if state != 0 {
			gauge(descCheckpoints, v.CheckpointCount(v1.CheckpointState_Value(state)), name)
		}
	}
	gauge(descArchive, int(v.ArchiveBytes()))
	for status, n := range v.ExecutionCounts() {
		gauge(descExecutions, n, status.String())
	}
	for status, n := range v.DecisionCounts() {
		gauge(descDecisions, n, status.String())
	}
}

func gpuState(g *work.GPU, use *work.NodeUse) string {
	bit := uint64(1) << g.Index
	switch {
	case g.Health != v1.GpuHealth_HEALTHY:
		return g.Health.String()
	case use.Exclusive&bit != 0:
		return "LEASED"
	case use.Shared&bit != 0:
		return "SHARED"
	default:
		return "FREE"
	}
}

// Held is listed beside the states: jobs that are queued and held do not wait for their turn.
const Held = "HELD"

// JobCounts returns the number of jobs by state.
func JobCounts(counts work.Counts, held int) map[string]int {
	out := map[string]int{Held: held}
	for state, name := range v1.JobState_Value_name {
		if state != 0 {
			out[name] = counts.Of(v1.JobState_Value(state))
		}
	}
	out[v1.JobState_QUEUED.String()] -= held
	return out
}
