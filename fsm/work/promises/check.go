package promises

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/policy"
)

// Facts are the rows that the promises are checked against.
type Facts interface {
	Job(ident.Job) (*work.Job, bool)
	Node(id string) (*work.Node, bool)
	Policy() policy.Policy
}

// CheckPromises reports what does not hold of the promises; claimed says whether a preemption keeps places for a job.
func (t *Ledger) CheckPromises(facts Facts, claimed func(ident.Job) bool, report kernel.Report) {
	if most := facts.Policy().Backfill.Reservations; t.rows.Len() > int(most) {
		report("I14: %d promises, and the policy allows %d", t.rows.Len(), most)
	}
	var taken Calendar
	for p := range t.Promises() {
		j, ok := facts.Job(p.Job)
		switch {
		case !ok || !j.Waiting():
			report("I14: a promise to %s, which does not wait", p.Job)
			continue
		case p.Attempt != j.Attempt+1 || len(p.Tasks) != int(j.Shape.Nodes):
			report("I14: the promise to %s is for attempt %d with %d places; it is at %d with %d", p.Job, p.Attempt, len(p.Tasks), j.Attempt, j.Shape.Nodes)
		case p.Until != EndOf(j, p.StartAt):
			report("I14: the promise to %s ends at %d instead of %d", p.Job, p.Until, EndOf(j, p.StartAt))
		case claimed(p.Job):
			report("I14: %s has a promise and a claim", p.Job)
		}
		for i := range p.Tasks {
			if n, ok := facts.Node(p.Tasks[i].Node); !ok || p.Tasks[i].GPUs&^GPUsOf(n) != 0 {
				report("I14: the promise to %s is for GPUs %b of %s, which do not exist", p.Job, p.Tasks[i].GPUs, p.Tasks[i].Node)
			}
		}
		if node := taken.Enter(p); node != "" {
			report("I14: GPUs of %s are promised to %s and to another job at the same time", node, p.Job)
		}
	}
}

// GPUsOf is the set of GPUs that a node has.
func GPUsOf(n *work.Node) uint64 {
	var all uint64
	for i := range n.GPUs {
		all |= 1 << (n.GPUs[i].Index & (work.MaxGPUs - 1))
	}
	return all
}

// Calendar says which GPUs are promised when.
type Calendar struct {
	on map[string][]entry
}

type entry struct {
	gpus uint64
	of   *Promise
}

// Enter adds a promise, unless another one has a GPU of it at the same time: then it returns the node.
func (c *Calendar) Enter(p *Promise) (conflict string) {
	if c.on == nil {
		c.on = map[string][]entry{}
	}
	for i := range p.Tasks {
		for _, e := range c.on[p.Tasks[i].Node] {
			if e.gpus&p.Tasks[i].GPUs != 0 && e.of.During(p.StartAt, p.Until) {
				return p.Tasks[i].Node
			}
		}
	}
	for i := range p.Tasks {
		t := &p.Tasks[i]
		c.on[t.Node] = append(c.on[t.Node], entry{t.GPUs, p})
	}
	return ""
}
