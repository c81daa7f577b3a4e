package jobverbs

import (
	"math/bits"
	"slices"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
	"github.com/mindcoordinator/mind/fsm/work/promises"
)

// PromiseStarts replaces all promises by these: one that is not in it ends.
type PromiseStarts struct {
	Starts []Start `cbor:"1,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (PromiseStarts) CommandNumber() uint16 { return 54 }

func init() { verbs.Add(lifecycle.Verb("PromiseStarts", promiseStarts, nil)) }

// Start is the promised start of the next attempt of one job.
type Start struct {
	Job     ident.Job `cbor:"1,keyasint,omitempty"`
	Attempt uint32    `cbor:"2,keyasint,omitempty"`
	// At is in Unix nanoseconds.
	At int64 `cbor:"3,keyasint,omitempty"`
	// Tasks are the places, by rank.
	Tasks []work.TaskPlacement `cbor:"4,keyasint,omitempty"`
	// Cause is why it is not what was promised before; empty: it is, or nothing was.
	Cause reason.Reason `cbor:"5,keyasint,omitempty"`
}

// PromiseResult says which jobs have a promise now.
type PromiseResult struct {
	Promised []ident.Job
	Refused  []Refused
}

// promiseStarts replaces the promises. Those that stay as they are keep their rows.
func promiseStarts(tx *lifecycle.Tx, c *PromiseStarts) PromiseResult {
	var (
		res   PromiseResult
		taken promises.Calendar
		next  []*promises.Promise
	)
	most := int(tx.Policy().Backfill.Reservations)
	for i := range c.Starts {
		start := &c.Starts[i]
		p, r := promise(tx, start)
		if r == nil && len(next) == most {
			r = kernel.Refuse(kernel.CodeResourceExhausted, reason.TooManyPromises, most)
		}
		if r == nil {
			if node := taken.Enter(p); node != "" {
				r = kernel.Refuse(kernel.CodeFailedPrecondition, reason.PromiseOverlaps, node, p.Job)
			}
		}
		if r != nil {
			res.Refused = append(res.Refused, Refused{Job: start.Job, Code: r.Code, Reason: r.Reason})
			continue
		}
		next = append(next, p)
		res.Promised = append(res.Promised, p.Job)
	}
	for _, old := range slices.Collect(tx.Promises()) {
		if !slices.ContainsFunc(next, func(p *promises.Promise) bool { return p.Job == old.Job }) {
			tx.EndPromise(old)
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
			tx.EmitUnpromised(old)
		}
	}
	return res
}

// promise makes the row of a start.
func promise(tx *lifecycle.Tx, s *Start) (*promises.Promise, *kernel.Refusal) {
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
	if node := lifecycle.Twice(s.Tasks); node != "" {
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
		CPUs: j.Shape.CPUDemand(), MemMB: j.Shape.MemMB, Since: tx.Now, First: s.At, ChangedAt: tx.Now, Cause: s.Cause,
	}, nil
}
