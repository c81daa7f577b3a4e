package apply

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/promises"
)

// promiseStarts replaces the promises. Those that stay as they are keep their rows.
func promiseStarts(tx *tx, c *promises.PromiseStarts) any {
	var (
		res   promises.PromiseResult
		taken promises.Calendar
		next  []*promises.Promise
	)
	most := int(tx.Policy().Backfill.Reservations)
	for i := range c.Starts {
		start := &c.Starts[i]
		p, r := tx.promise(start)
		if r == nil && len(next) == most {
			r = kernel.Refuse(kernel.CodeResourceExhausted, reason.TooManyPromises, most)
		}
		if r == nil {
			if node := taken.Enter(p); node != "" {
				r = kernel.Refuse(kernel.CodeFailedPrecondition, reason.PromiseOverlaps, node, p.Job)
			}
		}
		if r != nil {
			res.Refused = append(res.Refused, promises.Refused{Job: start.Job, Code: r.Code, Reason: r.Reason})
			continue
		}
		next = append(next, p)
		res.Promised = append(res.Promised, p.Job)
	}
	for _, old := range slices.Collect(tx.Promises()) {
		if !slices.ContainsFunc(next, func(p *promises.Promise) bool { return p.Job == old.Job }) {
			tx.endPromise(old)
		}
	}
	for _, p := range next {
		old, there := tx.PromiseOf(p.Job)
		switch {
		case !there:
			tx.PutPromise(p)
		case old.StartAt != p.StartAt || !slices.Equal(old.Tasks, p.Tasks):
			p.Since, p.First = old.Since, old.First
			tx.PutPromise(p)
			tx.emitUnpromised(old)
		}
	}
	return res
}

// promise makes the row of a start.
func (tx *tx) promise(s *promises.Start) (*promises.Promise, *kernel.Refusal) {
	j, ok := tx.Job(s.Job)
	switch {
	case !ok:
		return nil, kernel.Refuse(kernel.CodeNotFound, reason.NoJob, s.Job)
	case !j.Waiting():
		return nil, kernel.Refuse(kernel.CodeFailedPrecondition, reason.JobIs, s.Job, j.State)
	case s.Attempt != j.Attempt+1:
		return nil, kernel.Refuse(kernel.CodeAborted, reason.PlanOutdated, s.Attempt, s.Job, j.Attempt)
	case len(s.Tasks) != int(j.Shape.Nodes):
		return nil, kernel.Refuse(kernel.CodeInvalidArgument, reason.WrongPlaces, len(s.Tasks), j.Shape.Nodes, s.Job)
	}
	if node := twice(s.Tasks); node != "" {
		return nil, kernel.Refuse(kernel.CodeInvalidArgument, reason.NodeTwice, node, s.Job)
	}
	if _, claimed := tx.ClaimOf(s.Job); claimed {
		return nil, kernel.Refuse(kernel.CodeFailedPrecondition, reason.ClaimThere, s.Job)
	}
	for _, t := range s.Tasks {
		n, ok := tx.Node(t.Node)
		if !ok {
			return nil, kernel.Refuse(kernel.CodeNotFound, reason.NoNode, t.Node)
		}
		want := int(j.Shape.GPUs)
		if j.Shape.FractionMilli > 0 {
			want = 1
		}
		if have := bits.OnesCount64(t.GPUs & promises.GPUsOf(n)); have != want || bits.OnesCount64(t.GPUs) != want {
			return nil, kernel.Refuse(kernel.CodeInvalidArgument, reason.WrongGPUCount, have, n.ID, want)
		}
	}
	return &promises.Promise{
		Job: s.Job, Attempt: s.Attempt, StartAt: s.At, Until: promises.EndOf(j, s.At), Tasks: slices.Clone(s.Tasks),
		CPUs: j.Shape.CPUDemand(), MemMB: j.Shape.MemMB, Since: tx.now, First: s.At, ChangedAt: tx.now, Cause: s.Cause,
	}, nil
}

// endPromise takes a promise out, and tells that its places may be free for others.
func (tx *tx) endPromise(p *promises.Promise) {
	tx.DropPromise(p)
	tx.emitUnpromised(p)
}

func (tx *tx) emitUnpromised(p *promises.Promise) {
	if j, ok := tx.Job(p.Job); ok {
		tx.emit(event.Event{Topic: event.TopicLease, Tenant: j.Tenant, Job: j.ID, Attempt: j.Attempt, Queue: j.Queue, Nodes: p.Nodes()})
	}
}

// breakPromises ends those that have a place on a node which it has no more.
func (tx *tx) breakPromises(node string) {
	if tx.PromiseCount() == 0 {
		return
	}
	var gpus uint64
	n, known := tx.Node(node)
	if known {
		gpus = promises.GPUsOf(n)
	}
	var gone []*promises.Promise
	for p := range tx.Promises() {
		if slices.ContainsFunc(p.Tasks, func(t work.TaskPlacement) bool { return t.Node == node && (!known || t.GPUs&^gpus != 0) }) {
			gone = append(gone, p)
		}
	}
	for _, p := range gone {
		tx.endPromise(p)
	}
}

// allowPromises ends the promises beyond what the policy allows, those with the latest start first.
func (tx *tx) allowPromises() {
	over := tx.PromiseCount() - int(tx.Policy().Backfill.Reservations)
	if over <= 0 {
		return
	}
	all := slices.SortedFunc(tx.Promises(), func(a, b *promises.Promise) int {
		return cmp.Or(cmp.Compare(b.StartAt, a.StartAt), cmp.Compare(b.Job, a.Job))
	})
	for _, p := range all[:over] {
		tx.endPromise(p)
	}
}
