package coordinator

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mindcoordinator/mind/fsm"
)

// totals counts what the state only sums up. Each replica counts what happens while it leads, and keeps its counters when it leads
// no more. The sums themselves would not do: all replicas have them, and those that come and go with the leader are counted
// twice by increase() when leadership comes back.
type totals struct {
	fenced, nodesLost prometheus.Counter

	mu                    sync.Mutex
	counting              bool
	fencedTo, nodesLostTo uint64 // what was counted already
}

func (t *totals) register(reg prometheus.Registerer) {
	t.fenced = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mind_fencing_rejections_total", Help: "Reports refused because their token was stale, counted by the leader.",
	})
	t.nodesLost = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mind_nodes_lost_total", Help: "Nodes that a majority declared lost, counted by the leader.",
	})
	reg.MustRegister(t.fenced, t.nodesLost)
}

// begin counts from this view on, which is that of a new leader: what came before it others have counted.
func (t *totals) begin(v *fsm.View) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counting, t.fencedTo, t.nodesLostTo = true, v.Fenced(), v.NodesLost()
}

func (t *totals) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counting = false
}

func (t *totals) observe(v *fsm.View) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.counting {
		return
	}
	if n := v.Fenced(); n > t.fencedTo {
		t.fenced.Add(float64(n - t.fencedTo))
		t.fencedTo = n
	}
	if n := v.NodesLost(); n > t.nodesLostTo {
		t.nodesLost.Add(float64(n - t.nodesLostTo))
		t.nodesLostTo = n
	}
}
