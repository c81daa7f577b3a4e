// Package quota tracks, in one pass of the planner, how much more the quotas of tenants, the limits of queues and the
// bounds of arrays allow.
//
// Contract. A [Room] reads the limits and what is held of them from a view. The [Limits] of a class say whether they bar
// a job, and count each job that is placed. They only shrink until [Room.Sync] reads another view.
package quota

import (
	"iter"
	"math"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/budgets"
	"github.com/mindcoordinator/mind/fsm/work/changes"
)

// View is the part of the state that limits read.
type View interface {
	Now() int64
	Node(id string) (*work.Node, bool)
	// Array returns the row of an array.
	Array(ident.Job) (*work.Job, bool)
	// Quota limits the Usage of a tenant. QueueTreeGPUs is the number of GPUs, in thousandths, that jobs of a queue and
	// of the queues below it hold.
	Quota(tenant string) (*work.Quota, bool)
	Usage(tenant string) work.Usage
	Queue(name string) (*work.Queue, bool)
	QueueTreeGPUs(queue string) int
	// HeldOfType and QueueTreeOfType count the GPUs of one type, in thousandths: those of a tenant, and those of a
	// queue and of the queues below it. GPUModels are the types and models that nodes have had. Budget is the GPU time
	// of a tenant in this month.
	HeldOfType(tenant, name string) int
	QueueTreeOfType(queue, name string) int
	GPUModels() iter.Seq[work.GPU]
	Budget(tenant string) *budgets.Budget
}

// Room tracks, in one pass, how much more quotas and limits of queues allow. Like the capacity of the nodes it only
// shrinks, so a class without room stays blocked for the pass.
type Room struct {
	view    View
	tenants map[string]*tenantRoom
	queues  map[string]*lineage
	limited map[string]*queueRoom
	arrays  map[ident.Job]*arrayRoom
	// node is the node that was looked for last: consecutive jobs are often placed on one node.
	node *work.Node
	// models are the types and models of GPU. They are read when the first limit by type is checked.
	models []work.GPU
	now    int64
	// tenant and budget are the positions after the last changes that were read.
	tenant, budget changes.Mark[string]
	// taken are the tenants whose room jobs of the pass have taken.
	taken []*tenantRoom
}

// arrayRoom counts the elements of an array that run, and bounds them.
type arrayRoom struct{ live, most uint32 }

// tenantRoom is the room of a tenant. quota is nil if it has none.
type tenantRoom struct {
	name   string
	quota  *work.Quota
	usage  work.Usage
	held   ofType
	budget *budgets.Budget
	// spent are the GPU hours that are used up at a time.
	spent   uint64
	spentAt int64
	// slack is the least number of GPUs, in thousandths, that any limit leaves.
	slack int
	// taken: jobs of the pass have taken some of it.
	taken bool
}

// ofType counts, by type, the GPUs that a tenant or a queue holds. The count of a type is read when it is first needed.
type ofType struct {
	read  func(name string) int
	milli map[string]int
}

func (o *ofType) at(name string) int {
	n, ok := o.milli[name]
	if !ok {
		if n = o.read(name); o.milli == nil {
			o.milli = map[string]int{}
		}
		o.milli[name] = n
	}
	return n
}

func (o *ofType) add(name string, milli int) { o.milli[name] = o.at(name) + milli }

// lineage is a queue and the queues above it, without those that have no limit. typed: one of the limits is by type of
// GPU.
type lineage struct {
	queues []*queueRoom
	typed  bool
}

// queueRoom is the room of a queue with a limit. slack is as in tenantRoom.
type queueRoom struct {
	queue    *work.Queue
	gpuMilli int
	held     ofType
	slack    int
}

// Limits are the limits of a class: the quota of its tenant, the limits of its queue and of the queues above, and the
// bound of its array. tenant and array are nil if there is nothing to read.
type Limits struct {
	tenant *tenantRoom
	array  *arrayRoom
	queue  *lineage
	room   *Room
}

// New returns a room that reads a view.
func New(v View) *Room {
	return &Room{
		view: v, now: v.Now(), tenants: map[string]*tenantRoom{}, queues: map[string]*lineage{}, limited: map[string]*queueRoom{}, arrays: map[ident.Job]*arrayRoom{},
	}
}

// Reset forgets all limits, and reads them again from a view when they are asked for.
func (r *Room) Reset(v View) {
	*r = *New(v)
	r.noteMarks()
}

// Rest forgets the view, which may be large, until the next Sync.
func (r *Room) Rest() { r.view, r.node = nil, nil }

// nodeOf returns a node by its name.
func (r *Room) nodeOf(id string) (*work.Node, bool) {
	if r.node == nil || r.node.ID != id {
		n, ok := r.view.Node(id)
		if !ok {
			return nil, false
		}
		r.node = n
	}
	return r.node, true
}

// Len is the number of tenants, queues and arrays that the room has read.
func (r *Room) Len() int { return len(r.tenants) + len(r.queues) + len(r.arrays) }

// Of returns the limits of a class. The key of a class names its tenant only if the tenant has a quota or a
// reservation.
func (r *Room) Of(key *work.ClassKey) Limits {
	l, known := Limits{room: r}, false
	if key.Tenant != "" {
		if l.tenant, known = r.tenants[key.Tenant]; !known {
			l.tenant = &tenantRoom{name: key.Tenant}
			r.tenants[key.Tenant] = l.tenant
			r.readTenant(l.tenant)
		}
	}
	if l.queue, known = r.queues[key.Queue]; !known {
		l.queue = &lineage{}
		r.queues[key.Queue] = l.queue
		r.readLineage(key.Queue, l.queue)
	}
	if key.Array != 0 {
		if l.array, known = r.arrays[key.Array]; !known {
			l.array = &arrayRoom{}
			r.arrays[key.Array] = l.array
			r.readArray(key.Array, l.array)
		}
	}
	return l
}

func (r *Room) readTenant(t *tenantRoom) {
	name := t.name
	quota, _ := r.view.Quota(name)
	*t = tenantRoom{name: name, quota: quota, slack: math.MaxInt}
	if quota == nil {
		return
	}
	t.usage = r.view.Usage(name)
	t.held.read = func(gpuType string) int { return r.view.HeldOfType(name, gpuType) }
	if quota.MaxGPUHours != nil {
		t.budget = r.view.Budget(name)
		t.spent, t.spentAt = t.budget.SpentBy(r.now), r.now
	}
	if quota.MaxGPUs != nil {
		t.slack = 1000*int(*quota.MaxGPUs) - t.usage.GPUMilli
	}
	if len(quota.MaxByType) > 0 {
		t.slack = min(t.slack, r.slackByType(quota.MaxByType, &t.held))
	}
}

// readLineage finds a queue and the queues above it.
func (r *Room) readLineage(name string, l *lineage) {
	*l = lineage{queues: l.queues[:0]}
	for range work.MaxQueueDepth {
		q, ok := r.view.Queue(name)
		if !ok {
			break
		}
		if q.MaxGPUs != 0 || len(q.MaxByType) > 0 {
			at := r.limited[name]
			if at == nil {
				at = r.readQueue(q)
				r.limited[name] = at
			}
			l.queues, l.typed = append(l.queues, at), l.typed || len(q.MaxByType) > 0
		}
		if name = q.Parent; name == "" {
			break
		}
	}
}

func (r *Room) readQueue(q *work.Queue) *queueRoom {
	at := &queueRoom{queue: q, gpuMilli: r.view.QueueTreeGPUs(q.Name), slack: math.MaxInt}
	at.held.read = func(gpuType string) int { return r.view.QueueTreeOfType(q.Name, gpuType) }
	if q.MaxGPUs != 0 {
		at.slack = 1000*int(q.MaxGPUs) - at.gpuMilli
	}
	if len(q.MaxByType) > 0 {
		at.slack = min(at.slack, r.slackByType(q.MaxByType, &at.held))
	}
	return at
}

func (r *Room) readArray(id ident.Job, a *arrayRoom) {
	*a = arrayRoom{most: math.MaxUint32}
	if j, ok := r.view.Array(id); ok {
		a.live, a.most = j.Array.Rows.Live, j.MaxParallel
	}
}

// free reports whether no limit can bar a job that needs this many thousandths of GPUs, whatever their type.
func (l *Limits) free(need int) bool {
	t := l.tenant
	switch {
	case l.array != nil, need > 0 && !l.ample(need):
		return false
	case t == nil || t.quota == nil:
		return true
	}
	return t.quota.MaxRunning == nil && (need == 0 || t.quota.MaxGPUHours == nil || t.spentBy(l.room.now) < uint64(*t.quota.MaxGPUHours)*budgets.Hour)
}

// spentBy returns the GPU hours of the month that a tenant has used up by a time.
func (t *tenantRoom) spentBy(now int64) uint64 {
	if t.spentAt != now {
		t.spent, t.spentAt = t.budget.SpentBy(now), now
	}
	return t.spent
}

// ample reports whether every limit of GPUs leaves enough, whatever their type.
func (l *Limits) ample(need int) bool {
	for _, q := range l.queue.queues {
		if need > q.slack {
			return false
		}
	}
	return l.tenant == nil || need <= l.tenant.slack
}

// Typed reports whether one of the limits is by type of GPU.
func (l *Limits) Typed() bool {
	return l.queue.typed || l.tenant != nil && l.tenant.quota != nil && len(l.tenant.quota.MaxByType) > 0
}

// Bars returns the reason why the limits allow no more jobs of a shape; empty: they allow one.
func (l *Limits) Bars(s work.Shape) reason.Reason {
	need := s.GPUMilli()
	if l.free(need) {
		return ""
	}
	if t := l.tenant; t != nil && t.quota != nil {
		if why := t.quota.Bars(t.usage, s); why != "" {
			return why
		}
		if why := t.quota.BarsHours(t.spentBy(l.room.now), l.room.now, s); why != "" {
			return why
		}
	}
	for _, q := range l.queue.queues {
		if why := q.queue.Bars(q.gpuMilli, s); why != "" {
			return why
		}
	}
	if l.array != nil && l.array.live >= l.array.most {
		return reason.New(reason.MaxParallelReached, int(l.array.live), int(l.array.most))
	}
	if l.ample(need) || !l.Typed() {
		return ""
	}
	why, _ := l.types(s)
	return why
}

// Take counts a job that was placed against the limits.
func (l *Limits) Take(s work.Shape, tasks []work.TaskPlacement) {
	need := s.GPUMilli()
	if t := l.tenant; t != nil {
		t.usage.Grant(s)
		t.slack -= need
		if !t.taken {
			t.taken, l.room.taken = true, append(l.room.taken, t)
		}
	}
	for _, q := range l.queue.queues {
		q.gpuMilli += need
		q.slack -= need
	}
	if l.array != nil {
		l.array.live++
	}
	if !l.Typed() {
		return
	}
	for _, t := range work.TypesOf(tasks, s, l.room.nodeOf) {
		if l.tenant != nil && l.tenant.quota != nil {
			l.tenant.held.add(t.Type, t.Milli)
		}
		for _, q := range l.queue.queues {
			q.held.add(t.Type, t.Milli)
		}
	}
}
