package figures

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

// State has the rows from which the figures are counted again.
type State interface {
	Jobs(desc bool, from ident.Job) iter.Seq[*work.Job]
	Job(id ident.Job) (*work.Job, bool)
	Leases() iter.Seq[*work.Lease]
	// Lineage iterates a queue and those that it is a part of.
	Lineage(queue string) iter.Seq[*work.Queue]
}

// CheckFigures reports where the figures differ from a new count of the jobs and leases.
func (s *Sums) CheckFigures(of State, report kernel.Report) {
	s.checkQueues(of, report)
	s.checkShares(of, report)
}

func (s *Sums) checkQueues(of State, report kernel.Report) {
	want := map[string]*figures{}
	at := func(q string) *figures {
		if want[q] == nil {
			want[q] = &figures{}
		}
		return want[q]
	}
	for j := range of.Jobs(false, 0) {
		at(j.Queue).add(j, 1)
	}
	for l := range of.Leases() {
		if j, ok := of.Job(l.Job); ok {
			at(j.Queue).gpuMilli += l.GPUMilli()
			for q := range of.Lineage(j.Queue) {
				if l.GPUMilli() > 0 {
					at(q.Name).treeMilli += l.GPUMilli()
				}
			}
		}
	}
	listed := 0
	for q := range s.queues.All() {
		if *q.figures != *at(q.name) {
			report("the figures of queue %q are %v, counted again %v", q.name, *q.figures, *want[q.name])
		}
		listed++
	}
	if listed != len(want) {
		report("figures of %d queues instead of %d", listed, len(want))
	}
}

func (s *Sums) checkShares(of State, report kernel.Report) {
	want := map[part]*figures{}
	at := func(j *work.Job) *figures {
		k := part{j.Tenant, j.Queue}
		if want[k] == nil {
			want[k] = &figures{}
		}
		return want[k]
	}
	for j := range of.Jobs(false, 0) {
		at(j).add(j, 1)
	}
	for l := range of.Leases() {
		if j, ok := of.Job(l.Job); ok {
			at(j).gpuMilli += l.GPUMilli()
		}
	}
	for f := range s.shares.All() {
		counted := want[f.of]
		if counted == nil {
			counted = &figures{} // Its last job was dropped.
		}
		if *f.figures != *counted {
			report("I11: the figures of tenant %q in queue %q are %v, counted again %v", f.of.tenant, f.of.queue, *f.figures, *counted)
		}
		delete(want, f.of)
	}
	if len(want) > 0 {
		report("I11: %d parts of queues that tenants have are not counted", len(want))
	}
}
