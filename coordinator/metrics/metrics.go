// Package metrics has the metrics of one coordinator.
//
// Only the leader reports the contents of the replicated state and counts its changes, so that sums over the replicas
// are right.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/event"
)

// Metrics are the figures of one coordinator.
type Metrics struct {
	transitions *prometheus.CounterVec
	toRunning   prometheus.Histogram
	queueWait   prometheus.Histogram
	pass        prometheus.Histogram
	placements  prometheus.Counter
	preemptions prometheus.Counter
	runs        *prometheus.CounterVec
	notices     *prometheus.CounterVec
	jobNotices  *prometheus.CounterVec
	off         *prometheus.HistogramVec
	renewals    *prometheus.CounterVec
	advances    *prometheus.CounterVec
	errors      *prometheus.CounterVec
	calls       *prometheus.HistogramVec

	totals totals
}

var latencyBuckets = prometheus.ExponentialBuckets(0.0005, 2, 18)

// New registers the metrics. leading reports whether this coordinator leads.
func New(reg prometheus.Registerer, machine *fsm.Machine, leading func() bool) *Metrics {
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: latencyBuckets})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &Metrics{
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mind_job_transitions_total", Help: "Changes of jobs' states, counted by the leader.",
		}, []string{"from", "to"}),
		toRunning:   histogram("mind_submit_to_running_seconds", "Time from a job's creation until all ranks of its first attempt run."),
		queueWait:   histogram("mind_queue_wait_seconds", "Time from a job's creation until its first leases."),
		pass:        histogram("mind_scheduler_pass_seconds", "Time of one planning pass."),
		placements:  counter("mind_scheduler_placements_total", "Jobs that got their leases."),
		preemptions: counter("mind_preemptions_total", "Attempts that were stopped to make room."),
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mind_schedule_runs_total", Help: "Runs of schedules by outcome: STARTED, SKIPPED, MISSED or REFUSED.",
		}, []string{"outcome"}),
		jobNotices: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mind_job_notices_total", Help: "Tries to send notices of jobs by outcome: sent, failed or given_up, counted by the leader.",
		}, []string{"outcome"}),
		notices: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mind_decision_notices_total", Help: "Tries to send notices of decisions by outcome: sent, failed or given_up, counted by the leader.",
		}, []string{"outcome"}),
		off: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "mind_start_error_seconds",
			Help:    "How much earlier or later jobs got their places than first foreseen: estimated, by the coordinator that did; reserved, counted by the leader.",
			Buckets: []float64{1, 10, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600},
		}, []string{"foreseen", "side"}),
		renewals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mind_renewals_total", Help: "Renewals of nodes' leases that the leader acknowledged, by path: direct or through another node.",
		}, []string{"path"}),
		advances: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mind_advances_total", Help: "Steps of executions that the leader proposed, by outcome: goes_on, completed, failed, canceled or refused.",
		}, []string{"outcome"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mind_coordinator_errors_total", Help: "Calls that failed, by gRPC code.",
		}, []string{"code"}),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mind_coordinator_request_seconds", Help: "Time of unary calls and length of streams.", Buckets: latencyBuckets,
		}, []string{"method"}),
	}
	reg.MustRegister(m.transitions, m.toRunning, m.queueWait, m.pass, m.placements, m.preemptions, m.runs, m.notices, m.jobNotices, m.off, m.renewals, m.advances, m.errors, m.calls,
		&stateCollector{machine: machine, leading: leading})
	m.totals = newTotals(reg)
	return m
}

// Planned records the time of a planning pass.
func (m *Metrics) Planned(d time.Duration) { m.pass.Observe(d.Seconds()) }

// Placed counts jobs that got their leases.
func (m *Metrics) Placed(n int) { m.placements.Add(float64(n)) }

// Estimated records the delay of a job's places after the first estimate; negative: they came earlier.
func (m *Metrics) Estimated(off time.Duration) { m.started("estimated", off) }

func (m *Metrics) started(foreseen string, off time.Duration) {
	side := "later"
	if off < 0 {
		side, off = "earlier", -off
	}
	m.off.WithLabelValues(foreseen, side).Observe(off.Seconds())
}

// Ran counts a run of a schedule.
func (m *Metrics) Ran(outcome string) { m.runs.WithLabelValues(outcome).Inc() }

// NoticedOfJob counts a try to send a notice of a job.
func (m *Metrics) NoticedOfJob(outcome string) { m.jobNotices.WithLabelValues(outcome).Inc() }

// Noticed counts a try to send a notice of a decision.
func (m *Metrics) Noticed(outcome string) { m.notices.WithLabelValues(outcome).Inc() }

// Renewed counts the renewals of one round.
func (m *Metrics) Renewed(direct, relayed int) {
	m.renewals.WithLabelValues("direct").Add(float64(direct))
	m.renewals.WithLabelValues("relayed").Add(float64(relayed))
}

// Advanced counts a step of an execution.
func (m *Metrics) Advanced(outcome string) { m.advances.WithLabelValues(outcome).Inc() }

// Answered counts an answer to a call.
func (m *Metrics) Answered(full string, err error, took time.Duration) {
	m.calls.WithLabelValues(call.Method(full)).Observe(took.Seconds())
	if code := grpcstatus.Code(err); code != codes.OK {
		m.errors.WithLabelValues(code.String()).Inc()
	}
}

func (m *Metrics) transition(v *fsm.View, e *event.Event) {
	switch e.To {
	case v1.JobState_PREEMPTED:
		m.preemptions.Inc()
	case v1.JobState_ALLOCATED, v1.JobState_RUNNING:
		j, ok := v.Job(e.Job)
		if !ok || j.Attempt != 1 {
			return
		}
		// Until then the job was held, and did not wait.
		since := max(0, time.Duration(v.Now()-max(j.CreatedAt, j.NotBefore))).Seconds()
		if e.To == v1.JobState_RUNNING {
			m.toRunning.Observe(since)
		} else {
			m.queueWait.Observe(since)
		}
	}
}
