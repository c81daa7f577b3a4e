// Package guarantee says which running jobs have borrowed GPUs that a queue is guaranteed, and who may take them back.
//
// Others may use the part of a guarantee that a queue does not use, and give it back: a waiting job that fits into what is left of the
// guarantee of its queue, or of one that this is a part of, may take the places of preemptible jobs of other queues that hold
// more than they are guaranteed. Nothing else may take what is within a guarantee for a job of another queue, whatever its
// priority. So no two queues ever take the same GPUs from each other in turn: a queue that reclaims is within its guarantee, and stays so.
//
// The scheduler chooses by these rules, and the state holds every preemption to them again.
package guarantee

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/claims"
)

// Queues reads the tree of queues.
type Queues interface {
	// Lineage iterates a queue and those that it is a part of.
	Lineage(queue string) iter.Seq[*work.Queue]
}

// Balance has the GPUs that each queue holds, with those below it, in thousandths of a GPU, as guarantees count it: what is kept for a
// job counts as held by it, and what jobs hold that leave for one does not.
type Balance struct {
	queues Queues
	held   func(queue string) int
	moved  map[string]int
}

// New reads the claims; held is the sum of the leases of a queue and of those below it.
func New(queues Queues, held func(queue string) int, all iter.Seq[*claims.Claim], job func(ident.Job) (*work.Job, bool)) *Balance {
	b := &Balance{queues: queues, held: held, moved: map[string]int{}}
	leaving := map[ident.Job]bool{}
	for c := range all {
		if j, ok := job(c.Job); ok {
			b.Move(j, 1)
		}
		for _, v := range c.Victims {
			if j, ok := job(v); ok && !leaving[v] {
				leaving[v] = true
				b.Move(j, -1)
			}
		}
	}
	return b
}

// Clone returns a copy that is changed alone.
func (b *Balance) Clone() *Balance {
	c := &Balance{b.queues, b.held, make(map[string]int, len(b.moved))}
	for name, milli := range b.moved { // order-free: a copy
		c.moved[name] = milli
	}
	return c
}

// Move counts what a job is about to hold (1), or to give back (-1).
func (b *Balance) Move(j *work.Job, by int) {
	for q := range b.queues.Lineage(j.Queue) {
		b.moved[q.Name] += by * j.Shape.GPUMilli()
	}
}

// Held returns the GPUs that a queue holds.
func (b *Balance) Held(queue string) int { return b.held(queue) + b.moved[queue] }

// Covering are the queues from a waiting job's own up whose guarantee it is within.
func (b *Balance) Covering(j *work.Job) []string {
	var names []string
	need := j.Shape.GPUMilli()
	for q := range b.queues.Lineage(j.Queue) {
		if q.Guaranteed > 0 && need > 0 && b.Held(q.Name)+need <= 1000*int(q.Guaranteed) {
			names = append(names, q.Name)
		}
	}
	return names
}

// Borrows says whether a running job may give back for a waiting one: every queue that it is in and the other is not holds more
// than it is guaranteed. For a reclaim it must be outside of one of the queues whose guarantee covers the other.
func (b *Balance) Borrows(v, j *work.Job, covering []string, reclaim bool) bool {
	own := b.lineage(j.Queue)
	in := b.lineage(v.Queue)
	if reclaim && !outside(in, covering) {
		return false
	}
	for q := range b.queues.Lineage(v.Queue) {
		if !own[q.Name] && b.Held(q.Name) <= 1000*int(q.Guaranteed) && q.Guaranteed > 0 {
			return false
		}
	}
	return true
}

// Protects returns one of those who are to leave for a job and must not, and the queue that is guaranteed what it holds; nil:
// there is none. The order does not matter: each may leave while its queues hold more than they are guaranteed, so of each queue
// all but the largest must leave it with more.
func (b *Balance) Protects(j *work.Job, leave []*work.Job, reclaim bool) (*work.Job, string) {
	own, covering := b.lineage(j.Queue), b.Covering(j)
	sum, most := map[string]int{}, map[string]int{}
	for _, v := range leave {
		in := b.lineage(v.Queue)
		if reclaim && !outside(in, covering) {
			return v, v.Queue
		}
		for q := range b.queues.Lineage(v.Queue) {
			if !own[q.Name] {
				sum[q.Name] += v.Shape.GPUMilli()
				most[q.Name] = max(most[q.Name], v.Shape.GPUMilli())
			}
		}
	}
	for _, v := range leave {
		for q := range b.queues.Lineage(v.Queue) {
			if !own[q.Name] && q.Guaranteed > 0 && b.Held(q.Name)-sum[q.Name]+most[q.Name] <= 1000*int(q.Guaranteed) {
				return v, q.Name
			}
		}
	}
	return nil, ""
}

// Saturation is how many times its guarantee the most saturated queue holds that a running job is in and a waiting one is not: of
// the queues beside each other where their ways part. One that is guaranteed nothing is the most saturated.
func (b *Balance) Saturation(v, j *work.Job) float64 {
	own := b.lineage(j.Queue)
	most := 0.0
	for q := range b.queues.Lineage(v.Queue) {
		if own[q.Name] {
			break
		}
		if most = Unguaranteed; q.Guaranteed > 0 {
			most = float64(b.Held(q.Name)) / (1000 * float64(q.Guaranteed))
		}
	}
	return most
}

// Unguaranteed is the saturation of a queue that is guaranteed nothing.
const Unguaranteed = 1e9

func (b *Balance) lineage(queue string) map[string]bool {
	in := map[string]bool{}
	for q := range b.queues.Lineage(queue) {
		in[q.Name] = true
	}
	return in
}

func outside(in map[string]bool, covering []string) bool {
	for _, name := range covering {
		if !in[name] {
			return true
		}
	}
	return false
}
