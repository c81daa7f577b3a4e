package coordinator

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm"
)

// metrics are the figures of one coordinator. What the replicated state holds is told by the leader alone, and what happens in it
// is counted by the leader alone: so the sum over the replicas is right.
type metrics struct {
	transitions *prometheus.CounterVec
	toRunning   prometheus.Histogram
	queueWait   prometheus.Histogram
	pass        prometheus.Histogram
	placements  prometheus.Counter
	preemptions prometheus.Counter
	renewals    *prometheus.CounterVec
	errors      *prometheus.CounterVec
	calls       *prometheus.HistogramVec

	leading   func() bool
	nodesAway atomic.Int64
	totals    totals
}

var latencyBuckets = prometheus.ExponentialBuckets(0.0005, 2, 18)

func newMetrics(reg prometheus.Registerer, machine *fsm.Machine, leading func() bool) *metrics {
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: latencyBuckets})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		leading: leading,
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mind_job_transitions_total", Help: "Changes of jobs' states, counted by the leader.",
		}, []string{"from", "to"}),
		toRunning:   histogram("mind_submit_to_running_seconds", "From a job's creation until all ranks of its first attempt run."),
		queueWait:   histogram("mind_queue_wait_seconds", "From a job's creation until its first leases."),
		pass:        histogram("mind_scheduler_pass_seconds", "Time of one planning pass."),
		placements:  counter("mind_scheduler_placements_total", "Jobs that got their leases."),
		preemptions: counter("mind_preemptions_total", "Attempts that were stopped to make room."),
		renewals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mind_renewals_total", Help: "Renewals of nodes' leases that the leader acknowledged, by the way they came.",
		}, []string{"path"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mind_coordinator_errors_total", Help: "Calls that failed, by gRPC code.",
		}, []string{"code"}),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mind_coordinator_request_seconds", Help: "Time of unary calls and length of streams.", Buckets: latencyBuckets,
		}, []string{"method"}),
	}
	reg.MustRegister(m.transitions, m.toRunning, m.queueWait, m.pass, m.placements, m.preemptions, m.renewals, m.errors, m.calls,
		&stateCollector{machine: machine, leading: leading})
	m.totals.register(reg)
	return m
}

func (m *metrics) planned(d time.Duration) { m.pass.Observe(d.Seconds()) }

func (m *metrics) placed(n int) { m.placements.Add(float64(n)) }

// renewed counts the renewals of one round.
func (m *metrics) renewed(direct, relayed int) {
	m.renewals.WithLabelValues("direct").Add(float64(direct))
	m.renewals.WithLabelValues("relayed").Add(float64(relayed))
}

func (m *metrics) answered(full string, err error, took time.Duration) {
	m.calls.WithLabelValues(call.Method(full)).Observe(took.Seconds())
	if code := grpcstatus.Code(err); code != codes.OK {
		m.errors.WithLabelValues(code.String()).Inc()
	}
}

// observe counts what an entry changed.
func (m *metrics) observe(v *fsm.View, events []fsm.Event) {
	m.totals.observe(v)
	if !m.leading() {
		return
	}
	for i := range events {
		if e := &events[i]; e.Topic == fsm.TopicJob && e.From != e.To {
			m.transitions.WithLabelValues(e.From.String(), e.To.String()).Inc()
			m.transition(v, e)
		}
	}
}

func (m *metrics) transition(v *fsm.View, e *fsm.Event) {
	switch e.To {
	case v1.JobState_PREEMPTED:
		m.preemptions.Inc()
	case v1.JobState_ALLOCATED, v1.JobState_RUNNING:
		j, ok := v.Job(e.Job)
		if !ok || j.Attempt != 1 {
			return
		}
		// Until its time it was held back, and did not wait.
		since := max(0, time.Duration(v.Now()-max(j.CreatedAt, j.NotBefore))).Seconds()
		if e.To == v1.JobState_RUNNING {
			m.toRunning.Observe(since)
		} else {
			m.queueWait.Observe(since)
		}
	}
}

// stateCollector reads the state when it is asked. A replica that does not lead says nothing of it.
type stateCollector struct {
	machine *fsm.Machine
	leading func() bool
}

var (
	descJobs   = prometheus.NewDesc("mind_jobs", "Jobs by state and queue. QUEUED counts those that wait in the queue, HELD those that are held back.", []string{"state", "queue"}, nil)
	descGPUs   = prometheus.NewDesc("mind_gpus", "GPUs by model and what they are.", []string{"model", "state"}, nil)
	descNodes  = prometheus.NewDesc("mind_nodes", "Nodes by state.", []string{"state"}, nil)
	descLeases = prometheus.NewDesc("mind_leases", "Leases in force.", nil, nil)

	descAhead = prometheus.NewDesc("mind_log_time_ahead_seconds", "By how much the time of the log is ahead of this coordinator's clock.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descJobs, descGPUs, descNodes, descLeases, descAhead} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	v := c.machine.View()
	// That the log is behind is how long nothing was written.
	ch <- prometheus.MustNewConstMetric(descAhead, prometheus.GaugeValue, max(0, time.Duration(v.Now()-time.Now().UnixNano()).Seconds()))
	if !c.leading() {
		return
	}
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	for q := range v.Queues() {
		for state, n := range jobCounts(v.QueueCounts(q.Name), v.QueueHeld(q.Name)) {
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
}

func gpuState(g *fsm.GPU, use *fsm.NodeUse) string {
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
