package scheduler

import (
	"iter"
	"math/bits"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

// future is the view of a future time, as if one tenant had the cluster to itself. The embedded interface is hidden: future
// passes on shared data, and of tenants only its own.
type future struct {
	now    *fsm.View
	tenant string

	use     map[string]*work.NodeUse
	usage   work.Usage
	byQueue map[string]int // thousandths of GPUs
	// running are the tenant's jobs that hold resources now.
	running []*holding
	// classes are the groups of its waiting jobs; lines their jobs, in order; waiting maps a job to its class.
	classes []work.ClassKey
	lines   map[work.ClassKey][]*work.Job
	waiting map[ident.Job]*work.Job
	// live is how many elements of each array with a bound run.
	live map[ident.Job]uint32
}

// holding is a job with its resources.
type holding struct {
	job   *work.Job
	tasks []work.TaskPlacement
}

var _ View = (*future)(nil)

func newFuture(v *fsm.View, tenant string) *future {
	f := &future{now: v, tenant: tenant, use: map[string]*work.NodeUse{}, byQueue: map[string]int{}, live: map[ident.Job]uint32{}}
	f.usage = work.Usage{Unfinished: v.Usage(tenant).Unfinished}
	for j := range v.ActiveJobs() {
		if j.Tenant != tenant {
			continue
		}
		h := &holding{job: j}
		for i := range j.Tasks {
			if t := &j.Tasks[i]; t.State != v1.TaskState_ENDED {
				h.tasks = append(h.tasks, work.TaskPlacement{Node: t.Node, GPUs: t.GPUs})
			}
		}
		f.running = append(f.running, h)
		f.hold(h)
	}
	return f
}

// wait loads the tenant's waiting jobs, up to a number, from the head.
func (f *future) wait(most int) {
	var all []*work.Job
	for key := range f.now.Classes() {
		if key.Tenant != "" && key.Tenant != f.tenant {
			continue
		}
		own := 0
		for j := range f.now.ClassJobs(key) {
			if j.Tenant != f.tenant {
				continue
			}
			for _, one := range inFull(j, most-own) {
				all = append(all, one)
				own++
			}
			if own == most {
				break
			}
		}
	}
	slices.SortFunc(all, inOrder)
	all = all[:min(len(all), most)]
	f.lines, f.waiting = map[work.ClassKey][]*work.Job{}, make(map[ident.Job]*work.Job, len(all))
	for _, j := range all {
		key := f.now.ClassOf(j)
		if f.lines[key] == nil {
			f.classes = append(f.classes, key)
		}
		f.lines[key] = append(f.lines[key], j)
		f.waiting[j.ID] = j
	}
}

// inFull lists the elements of an array that wait for their first placement, n at most; any other job is itself.
func inFull(j *work.Job, n int) []*work.Job {
	if j.Array == nil {
		return []*work.Job{j}
	}
	var all []*work.Job
	number, ok := j.Array.Waiting.Next(0)
	for ; ok && len(all) < n; number, ok = j.Array.Waiting.Next(number + 1) {
		all = append(all, j.Element(number))
	}
	return all
}

// inOrder compares two jobs by the order in which they are offered.
func inOrder(a, b *work.Job) int {
	switch {
	case before(&class{head: a}, &class{head: b}):
		return -1
	case a.ID == b.ID:
		return 0
	}
	return 1
}

// start places a waiting job as planned. Plan takes the jobs of a class from its head.
func (f *future) start(p *work.Placement) *holding {
	j := f.waiting[p.Job]
	delete(f.waiting, p.Job)
	key := f.now.ClassOf(j)
	if f.lines[key] = f.lines[key][1:]; len(f.lines[key]) == 0 {
		delete(f.lines, key)
		f.classes = slices.DeleteFunc(f.classes, func(k work.ClassKey) bool { return k == key })
	}
	h := &holding{job: j, tasks: p.Tasks}
	f.hold(h)
	return h
}

// hold adds the resources of a job, end removes them.
func (f *future) hold(h *holding) {
	s := &h.job.Shape
	for i := range h.tasks {
		t := &h.tasks[i]
		u := f.use[t.Node]
		if u == nil {
			u = &work.NodeUse{}
			f.use[t.Node] = u
		}
		u.CPUs += s.CPUDemand()
		u.MemMB += s.MemMB
		u.Tasks++
		if s.FractionMilli == 0 {
			u.Exclusive |= t.GPUs
			continue
		}
		u.Shared |= t.GPUs
		u.Milli[bits.TrailingZeros64(t.GPUs)&63] += s.FractionMilli
	}
	f.usage.Grant(*s)
	f.byQueue[h.job.Queue] += s.GPUMilli()
	if h.job.MaxParallel != 0 {
		f.live[h.job.ID.Submitted()]++
	}
}

func (f *future) end(h *holding) {
	s := &h.job.Shape
	for i := range h.tasks {
		t := &h.tasks[i]
		u := f.use[t.Node]
		u.CPUs -= s.CPUDemand()
		u.MemMB -= s.MemMB
		u.Tasks--
		if s.FractionMilli == 0 {
			u.Exclusive &^= t.GPUs
			continue
		}
		g := bits.TrailingZeros64(t.GPUs) & 63
		if u.Milli[g] -= s.FractionMilli; u.Milli[g] == 0 {
			u.Shared &^= t.GPUs
		}
	}
	f.usage.GPUMilli -= s.GPUMilli()
	f.usage.Running--
	f.usage.Unfinished--
	f.byQueue[h.job.Queue] -= s.GPUMilli()
	if h.job.MaxParallel != 0 {
		f.live[h.job.ID.Submitted()]--
	}
}

// Array is the row of an array as it will be.
func (f *future) Array(id ident.Job) (*work.Job, bool) {
	j, ok := f.now.Array(id)
	if !ok {
		return nil, false
	}
	row := *j
	a := *j.Array
	a.Rows.Live = f.live[id]
	row.Array = &a
	return &row, true
}

func (f *future) Index() uint64                           { return f.now.Index() }
func (f *future) Nodes() iter.Seq[*work.Node]             { return f.now.Nodes() }
func (f *future) Queue(name string) (*work.Queue, bool)   { return f.now.Queue(name) }
func (f *future) QueueGPUs(queue string) int              { return f.byQueue[queue] }
func (f *future) Quota(tenant string) (*work.Quota, bool) { return f.now.Quota(tenant) }
func (f *future) Usage(string) work.Usage                 { return f.usage }
func (f *future) ClassReason(work.ClassKey) reason.Reason { return "" }
func (f *future) Classes() iter.Seq[work.ClassKey]        { return slices.Values(f.classes) }

func (f *future) Use(node string) work.NodeUse {
	if u := f.use[node]; u != nil {
		return *u
	}
	return work.NodeUse{}
}

func (f *future) ClassJobs(key work.ClassKey) iter.Seq[*work.Job] { return slices.Values(f.lines[key]) }

func (f *future) ClassJobsAfter(key work.ClassKey, after *work.Job, buf []*work.Job) []*work.Job {
	line := f.lines[key]
	if after != nil {
		i, found := slices.BinarySearchFunc(line, after, inOrder)
		if found {
			i++
		}
		line = line[i:]
	}
	return buf[:copy(buf, line)]
}
