package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/ident"
)

// totals are counters of events of which the state has only sums. Each replica counts the events while it leads, and
// keeps its counters afterwards. Exporting the sums themselves would be wrong: all replicas have them, and if only the
// leader exported them, increase() would count them again when leadership returns.
type totals struct{ fenced, nodesLost prometheus.Counter }

func newTotals(reg prometheus.Registerer) totals {
	t := totals{
		fenced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mind_fencing_rejections_total", Help: "Reports refused because their token was stale, counted by the leader.",
		}),
		nodesLost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mind_nodes_lost_total", Help: "Nodes that a majority declared lost, counted by the leader.",
		}),
	}
	reg.MustRegister(t.fenced, t.nodesLost)
	return t
}

// Term counts what happens in one term of leadership. It belongs to the applying goroutine.
type Term struct {
	metrics *Metrics
	// The sums that are already counted.
	fenced, nodesLost uint64
	// The first reserved starts, by job.
	reserved map[ident.Job]int64
}

// Term returns counters for a new leader, beginning at its view: other leaders have counted earlier events.
func (m *Metrics) Term(v *fsm.View) *Term {
	t := &Term{metrics: m, fenced: v.Fenced(), nodesLost: v.NodesLost(), reserved: map[ident.Job]int64{}}
	t.noteReserved(v)
	return t
}

// Applied counts the changes of an entry.
func (t *Term) Applied(v *fsm.View, events []event.Event) {
	if n := v.Fenced(); n > t.fenced {
		t.metrics.totals.fenced.Add(float64(n - t.fenced))
		t.fenced = n
	}
	if n := v.NodesLost(); n > t.nodesLost {
		t.metrics.totals.nodesLost.Add(float64(n - t.nodesLost))
		t.nodesLost = n
	}
	for i := range events {
		if e := &events[i]; e.Topic == event.TopicJob && e.From != e.To {
			t.metrics.transitions.WithLabelValues(e.From.String(), e.To.String()).Inc()
			t.metrics.transition(v, e)
			if first, reserved := t.reserved[e.Job]; reserved && e.To == v1.JobState_ALLOCATED {
				t.metrics.started("reserved", time.Duration(v.Now()-first))
			}
		}
	}
	t.noteReserved(v)
}

// noteReserved stores the reserved starts of a view. Their number is small (backfill.reservations).
func (t *Term) noteReserved(v *fsm.View) {
	if v.PromiseCount() == 0 && len(t.reserved) == 0 {
		return
	}
	clear(t.reserved)
	for p := range v.Promises() {
		t.reserved[p.Job] = p.First
	}
}
