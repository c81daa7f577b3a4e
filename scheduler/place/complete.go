package place

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/work"
)

// Complete takes capacity for the missing places of a job that has some places already. places are indexed by rank;
// those without a node are missing, and so are those whose host may no longer run a task of the job. The missing ranks
// get other hosts with equal GPUs, if possible hosts on which the job never failed. The places that the job has are
// not free in the pool.
//
// wait reports that one of the job's hosts may run the job only when it has been in session for longer. The fit must
// have been narrowed to the job.
func (f *Fit) Complete(places []work.TaskPlacement, settled func(node string) bool) (tasks []work.TaskPlacement, ok, wait bool) {
	p, job := f.pool, f.own.job
	excluded := p.excluded(f.shape.Exclude)
	equal, missing := -1, 0
	hosts := make([]int, len(places))
	for rank := range places {
		hosts[rank] = -1
		i, here := p.hostOf(places[rank].Node)
		if !here || excluded != nil && excluded.has(i) || !job.MayRunOn(p.hosts[i].node) || places[rank].GPUs&^p.hosts[i].healthy() != 0 || equal >= 0 && f.equal[p.hosts[i].kind.number] != equal {
			missing++
			continue
		}
		if job.Replacement() && !p.isSettled(i, settled) {
			return nil, false, true
		}
		hosts[rank], equal = i, f.equal[p.hosts[i].kind.number]
	}
	if missing == len(places) {
		return nil, false, false
	}
	f.enqueue()
	at := slices.IndexFunc(f.queues, func(q queue) bool { return q.equal == equal })
	if at < 0 {
		return nil, false, false
	}
	before := slices.Clone(f.spent)
	for _, i := range hosts {
		if i >= 0 {
			f.spent.add(i) // A job has at most one task on a node.
		}
	}
	f.queues[at].catchUp(f)
	found := f.gatherMissing(f.queues[at:at+1], hosts, missing)
	if !found {
		f.relent(settled, hosts)
		found = f.gatherMissing(f.queues[at:at+1], hosts, missing)
	}
	f.spent = before
	if !found {
		return nil, false, false
	}
	tasks = slices.Clone(places)
	next := 0
	for rank, i := range hosts {
		if i >= 0 {
			continue
		}
		i, gpus := f.nodes[next], f.masks[next]
		next++
		p.take(i, &f.shape, gpus)
		tasks[rank] = work.TaskPlacement{Node: p.hosts[i].node.ID, GPUs: gpus}
	}
	return tasks, true, false
}

// relent allows the nodes on which the job failed before its last attempt, because the claimed GPUs are idle until the
// job finds its missing places.
func (f *Fit) relent(settled func(node string) bool, kept []int) {
	p, job := f.pool, f.own.job
	excluded := p.excluded(f.shape.Exclude)
	for i := range p.hosts {
		n := p.hosts[i].node
		if excluded != nil && excluded.has(i) {
			continue
		}
		failed := lastFailure(job, n.ID)
		if failed < 0 || failed == len(job.Past)-1 || slices.Contains(kept, i) || !job.MayRunOn(n) || job.Replacement() && !p.isSettled(i, settled) {
			continue
		}
		f.spent.remove(i)
	}
}
