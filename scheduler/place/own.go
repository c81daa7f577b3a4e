package place

import (
	"slices"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/domains"
)

// own limits the places of one job for two reasons beside its shape. Tasks of its earlier attempts may still be alive:
// this is a hard limit, because two attempts of a job must never run at the same time. And attempts may have failed on
// some nodes: this is a preference, and such a node is used again if the job could never fit on the others.
type own struct {
	job *work.Job
	// barred are the hosts that get no task of the job in this pass.
	barred bitset
	// able counts the hosts that could hold a task of the job if they were empty; takers counts those of them that may
	// run a replacement, and trusted those of the takers that have been in session for long enough.
	able, takers, trusted tally
	avoided               []string
}

// cell has the properties that must be equal for all hosts of a gang: the GPUs, and with domains.Same the domain.
type cell struct {
	equal  int
	domain int32
}

// cellOf returns the cell of a host. If domains do not matter, the domain is 0.
func (f *Fit) cellOf(i int) cell {
	c := cell{equal: f.equal[f.pool.hosts[i].kind.number]}
	if f.between != nil && f.shape.Between == domains.Same {
		if c.domain = f.between.of[i]; int(c.domain) == f.between.none() {
			c.domain = -1
		}
	}
	return c
}

// tally counts hosts, in total and for each cell.
type tally struct {
	all  int
	cell map[cell]int
}

func (t *tally) add(at cell, by int) {
	t.all += by
	if t.cell == nil {
		t.cell = map[cell]int{}
	}
	t.cell[at] += by
}

// hold reports whether the counted hosts could hold all tasks of a shape at once.
func (t *tally) hold(s *work.Shape) bool {
	want, segment := max(1, int(s.Nodes)), 1
	if want > 1 && s.Between == domains.Same {
		if segment = int(s.Segment); segment == 0 {
			segment = want
		}
	} else if want == 1 || s.GPUs == 0 {
		return t.all >= want
	}
	held := map[int]int{}       // tasks in whole segments, by GPUs
	for at, n := range t.cell { // order-free: sums
		if at.domain < 0 {
			continue
		}
		equal := at.equal
		if !s.NeedsGPU() {
			equal = 0
		}
		held[equal] += n / segment * segment
	}
	for _, n := range held { // order-free: any
		if n >= want {
			return true
		}
	}
	return false
}

// Narrow restricts a fit to the hosts that one job may use.
func (f *Fit) Narrow(job *work.Job, settled func(node string) bool) {
	p := f.pool
	o := &own{job: job, barred: newBitset(len(p.hosts))}
	able := p.able(f)
	var failed []int
	var usable tally
	for i := range p.hosts {
		h := &p.hosts[i]
		could := able.has(i)
		at := f.cellOf(i)
		if could {
			o.able.add(at, 1)
		}
		if !job.MayRunOn(h.node) {
			o.barred.add(i)
			continue
		}
		if could {
			o.takers.add(at, 1)
		}
		if job.Replacement() && !p.isSettled(i, settled) {
			o.barred.add(i)
			continue
		}
		if could {
			o.trusted.add(at, 1)
			usable.add(at, 1)
		}
		if job.Avoids(h.node.ID) {
			failed = append(failed, i)
		}
	}
	// Nodes with the newest failures are skipped first, as long as enough others are left.
	slices.SortStableFunc(failed, func(a, b int) int {
		return lastFailure(job, p.hosts[b].node.ID) - lastFailure(job, p.hosts[a].node.ID)
	})
	for _, i := range failed {
		if able.has(i) {
			at := f.cellOf(i)
			if usable.add(at, -1); !usable.hold(&f.shape) {
				usable.add(at, 1)
				continue
			}
		}
		o.barred.add(i)
		o.avoided = append(o.avoided, p.hosts[i].node.ID)
	}
	f.bar(o.barred)
	f.own = o
}

// lastFailure returns the index of the newest past attempt that failed on the node, or -1.
func lastFailure(job *work.Job, node string) int {
	for i := len(job.Past) - 1; i >= 0; i-- {
		if job.Past[i].FailedNode == node {
			return i
		}
	}
	return -1
}

// able returns the hosts that could hold a task of the shape if they were empty.
func (p *Pool) able(f *Fit) bitset {
	if set, ok := p.empty[f.shape]; ok {
		return set
	}
	suited := map[*kind]uint64{}
	for _, c := range f.kinds {
		suited[c.kind] = c.gpus
	}
	set, excluded := newBitset(len(p.hosts)), p.excluded(f.shape.Exclude)
	for i := range p.hosts {
		h := &p.hosts[i]
		gpus, ok := suited[h.kind]
		if excluded != nil && excluded.has(i) {
			continue
		}
		if !ok || h.node.CPUs < f.shape.CPUDemand() || h.node.MemMB < f.shape.MemMB {
			continue
		}
		if f.shape.NeedsGPU() {
			_, ok = h.wiring().Pick(h.healthy()&gpus, max(1, int(f.shape.GPUs)), f.shape.Topology == work.TopologyNVLink)
		}
		if ok {
			set.add(i)
		}
	}
	if p.empty == nil {
		p.empty = map[work.Shape]bitset{}
	}
	p.empty[f.shape] = set
	return set
}

func (h *host) healthy() uint64 {
	var mask uint64
	for i := range h.node.GPUs {
		if g := &h.node.GPUs[i]; g.Health == v1.GpuHealth_HEALTHY {
			mask |= 1 << g.Index
		}
	}
	return mask
}

// isSettled calls settled once per pass and host.
func (p *Pool) isSettled(i int, settled func(node string) bool) bool {
	if settled == nil {
		return true
	}
	if p.settled == nil {
		p.settled = newBitset(len(p.hosts))
		for i := range p.hosts {
			if settled(p.hosts[i].node.ID) {
				p.settled.add(i)
			}
		}
	}
	return p.settled.has(i)
}

// Settling reports whether the job of this fit waits only for nodes to be in session for longer.
func (f *Fit) Settling() bool {
	o := f.own
	return o != nil && o.job.Replacement() && o.takers.hold(&f.shape) && !o.trusted.hold(&f.shape)
}

// explain adds to a reason the limits that hold for this job alone.
func (o *own) explain(why reason.Reason, s *work.Shape) reason.Reason {
	nodes := o.awaited()
	all := strings.Join(nodes, ", ")
	switch {
	case !o.able.hold(s) && o.job.Replacement():
		return reason.New(reason.MayStillRun, why, all)
	case !o.able.hold(s):
		return why
	case !o.job.Replacement() && len(o.avoided) > 0:
		return reason.New(reason.AvoidsNodes, why, strings.Join(o.avoided, ", "))
	case !o.job.Replacement():
		return why
	case !o.takers.hold(s):
		return reason.New(reason.WaitsForNodes, len(nodes), all)
	case !o.trusted.hold(s):
		return reason.New(reason.WaitsForSettling, len(nodes), all)
	}
	return reason.New(reason.FewMayTakeOver, why, o.takers.all, len(nodes), all)
}

// awaited returns the nodes that may still run tasks of earlier attempts, the oldest first.
func (o *own) awaited() []string {
	var nodes []string
	for i := range o.job.Awaits {
		if n := o.job.Awaits[i].Node; !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
