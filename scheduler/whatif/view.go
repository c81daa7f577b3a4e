package whatif

import (
	"iter"
	"maps"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/accounts"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/scheduler/foresee"
	"github.com/mindcoordinator/mind/scheduler/picture"
)

// view is a view of the state with a change. Everything else comes from the embedded view.
type view struct {
	*fsm.View
	// job is the changed job. It is a class of its own, with this key.
	job *work.Job
	key work.ClassKey
	// gone are the canceled jobs, and started those that the plan placed, with their leases by node. picture is the
	// cluster without the former and with the latter.
	gone    map[ident.Job]*work.Job
	started map[ident.Job]*work.Job
	leases  map[string][]*work.Lease
	picture *picture.Picture
	quota   *work.Quota
	// limited: the tenant has a quota only by the change, so its jobs are in classes of their own.
	limited bool
	queues  map[string]*work.Queue
	// windows are those that there are with the change, enabled the nodes that a maintenance has drained which there is
	// not, and policy is the policy.
	windows []*windows.Window
	enabled map[string]bool
	policy  policy.Policy
	now     int64
}

var _ foresee.View = (*view)(nil)

// with returns a view with a change.
func with(v *fsm.View, j *work.Job, c *Change, now int64) (*view, error) {
	changed, err := c.job(j)
	if err != nil {
		return nil, err
	}
	w := &view{
		View: v, job: changed, gone: map[ident.Job]*work.Job{}, started: map[ident.Job]*work.Job{},
		leases: map[string][]*work.Lease{}, picture: picture.Of(v), queues: map[string]*work.Queue{}, now: max(now, v.Now()),
	}
	w.limit(c)
	w.arrange(c)
	w.key = v.ClassOf(changed)
	w.key.Own = changed.ID
	if w.quota != nil && w.key.Tenant == "" {
		w.key.Tenant, w.limited = changed.Tenant, true
	}
	for _, id := range c.Cancel {
		if other, ok := v.Job(id); ok && other.Tenant == j.Tenant && id != j.ID && w.gone[id] == nil {
			w.cancel(other)
			w.cancelElements(other)
		}
	}
	return w, nil
}

// limit changes the limits of the quota and the queue.
func (w *view) limit(c *Change) {
	if q, ok := w.View.Quota(w.job.Tenant); ok {
		copied := *q
		w.quota = &copied
	}
	if c.QuotaGPUs != nil || c.QuotaRunning != nil || c.QuotaHours != nil || c.QuotaTypes != nil {
		if w.quota == nil {
			w.quota = &work.Quota{Tenant: w.job.Tenant}
		}
		limit(&w.quota.MaxGPUs, c.QuotaGPUs)
		limit(&w.quota.MaxRunning, c.QuotaRunning)
		limit(&w.quota.MaxGPUHours, c.QuotaHours)
		if c.QuotaTypes != nil {
			w.quota.MaxByType = *c.QuotaTypes
		}
	}
	if q, ok := w.View.Queue(w.job.Queue); ok && (c.QueueGPUs != nil || c.NoQueueTypes) {
		copied := *q
		if c.QueueGPUs != nil {
			copied.MaxGPUs = uint32(max(0, *c.QueueGPUs))
		}
		if c.NoQueueTypes {
			copied.MaxByType = nil
		}
		w.queues[q.Name] = &copied
	}
}

// arrange changes the windows and the policy.
func (w *view) arrange(c *Change) {
	w.policy, w.enabled = w.View.Policy(), map[string]bool{}
	if c.NoProtection {
		w.policy.Preemption.ProtectFromPriority = 0
	}
	for x := range w.View.Windows() {
		switch {
		case x.Kind == windows.Maintenance && c.NoMaintenance:
			for _, node := range x.Drained {
				w.enabled[node] = true
			}
		case x.Kind == windows.Reservation && x.Tenant != w.job.Tenant && c.NoReservations:
		default:
			w.windows = append(w.windows, x)
		}
	}
}

func (w *view) Policy() policy.Policy { return w.policy }

func (w *view) Windows() iter.Seq[*windows.Window] { return slices.Values(w.windows) }

func (w *view) WindowsOn(node string) iter.Seq[*windows.Window] {
	return func(yield func(*windows.Window) bool) {
		for _, x := range w.windows {
			if x.Has(node) && !yield(x) {
				return
			}
		}
	}
}

func (w *view) Nodes() iter.Seq[*work.Node] {
	return func(yield func(*work.Node) bool) {
		for n := range w.View.Nodes() {
			if w.enabled[n.ID] {
				n = picture.Enabled(n)
			}
			if !yield(n) {
				return
			}
		}
	}
}

func (w *view) Node(id string) (*work.Node, bool) {
	n, ok := w.View.Node(id)
	if ok && w.enabled[id] {
		n = picture.Enabled(n)
	}
	return n, ok
}

func limit(to **int32, from *int32) {
	switch {
	case from == nil:
	case *from < 0:
		*to = nil
	default:
		*to = from
	}
}

// cancel removes a job, and frees its resources.
func (w *view) cancel(j *work.Job) {
	w.gone[j.ID] = j
	if !j.Live() {
		return
	}
	var held []work.TaskPlacement
	for i := range j.Tasks {
		for l := range w.View.LeasesOn(j.Tasks[i].Node) {
			if l.Job == j.ID {
				held = append(held, work.TaskPlacement{Node: l.Node, GPUs: l.GPUs})
			}
		}
	}
	w.picture.Remove(j, held)
}

// cancelElements cancels the elements of an array that are active.
func (w *view) cancelElements(array *work.Job) {
	if array.Array == nil {
		return
	}
	for j := range w.View.ActiveJobs() {
		if j.ID.Submitted() == array.ID && j.ID != array.ID && j.ID != w.job.ID && w.gone[j.ID] == nil {
			w.cancel(j)
		}
	}
}

// start gives a job the places of a plan.
func (w *view) start(p *work.Placement) {
	old, ok := w.Job(p.Job)
	if !ok {
		array, found := w.Job(p.Job.Submitted())
		if _, number, is := p.Job.Element(); found && is && array.Array != nil {
			old, ok = array.Element(number), true
		}
	}
	if !ok {
		return
	}
	j := *old
	j.State, j.Attempt, j.StartedAt, j.Tasks = v1.JobState_ALLOCATED, p.Attempt, 0, nil
	for i, t := range p.Tasks {
		l := picture.LeaseOf(&j, &t)
		l.Job, l.Node, l.Rank, l.GrantedAt = j.ID, t.Node, uint16(i), w.now
		j.Tasks = append(j.Tasks, work.Task{Rank: l.Rank, Node: t.Node, GPUs: t.GPUs})
		w.leases[t.Node] = append(w.leases[t.Node], l)
	}
	w.picture.Add(&j, p.Tasks)
	w.started[j.ID] = &j
}

// Array returns the row of an array, whose count of running elements is without those that are canceled.
func (w *view) Array(id ident.Job) (*work.Job, bool) {
	j, ok := w.View.Array(id)
	if !ok || len(w.gone)+len(w.started) == 0 {
		return j, ok
	}
	row, array := *j, *j.Array
	array.Rows.Live = uint32(int(array.Rows.Live) + w.picture.Live(id))
	row.Array = &array
	return &row, true
}

func (w *view) Now() int64 { return w.now }

func (w *view) Use(node string) work.NodeUse { return w.picture.Use(node) }

func (w *view) Quota(tenant string) (*work.Quota, bool) {
	if tenant == w.job.Tenant {
		return w.quota, w.quota != nil
	}
	return w.View.Quota(tenant)
}

func (w *view) Usage(tenant string) work.Usage { return w.picture.Usage(tenant) }

func (w *view) Queue(name string) (*work.Queue, bool) {
	if q, ok := w.queues[name]; ok {
		return q, true
	}
	return w.View.Queue(name)
}

func (w *view) Lineage(queue string) iter.Seq[*work.Queue] {
	return func(yield func(*work.Queue) bool) {
		for q := range w.View.Lineage(queue) {
			if other, ok := w.queues[q.Name]; ok {
				q = other
			}
			if !yield(q) {
				return
			}
		}
	}
}

func (w *view) QueueTreeGPUs(queue string) int { return w.picture.QueueTreeGPUs(queue) }

func (w *view) HeldOfType(tenant, name string) int { return w.picture.HeldOfType(tenant, name) }

func (w *view) QueueTreeOfType(queue, name string) int { return w.picture.QueueTreeOfType(queue, name) }

// Accounts iterates the accounts without the resources of the canceled jobs.
func (w *view) Accounts() iter.Seq[*accounts.Account] {
	given := map[accounts.Key]accounts.Amount{}
	for _, j := range w.gone { // order-free: sums
		if j.Live() {
			key := accounts.Key{Queue: j.Queue, Tenant: j.Tenant, User: j.User}
			sum := given[key]
			sum.Add(j.Shape.Amount())
			given[key] = sum
		}
	}
	return func(yield func(*accounts.Account) bool) {
		life := accounts.Life(w.Policy().HalfLife)
		for a := range w.View.Accounts() {
			if amount, ok := given[a.Key()]; ok {
				b := *a
				b.Settle(w.now, life)
				b.Holds.Sub(amount)
				a = &b
			}
			if !yield(a) {
				return
			}
		}
	}
}

func (w *view) Job(id ident.Job) (*work.Job, bool) {
	if id == w.job.ID {
		return w.job, true
	}
	if w.gone[id] != nil {
		return nil, false
	}
	if j, ok := w.started[id]; ok {
		return j, true
	}
	return w.View.Job(id)
}

func (w *view) ActiveJobs() iter.Seq[*work.Job] {
	return func(yield func(*work.Job) bool) {
		for j := range w.View.ActiveJobs() {
			if w.gone[j.ID] == nil && !yield(j) {
				return
			}
		}
		for _, id := range slices.Sorted(maps.Keys(w.started)) {
			if !yield(w.started[id]) {
				return
			}
		}
	}
}

func (w *view) LeasesOn(node string) iter.Seq[*work.Lease] {
	return func(yield func(*work.Lease) bool) {
		for l := range w.View.LeasesOn(node) {
			if w.gone[l.Job] == nil && !yield(l) {
				return
			}
		}
		for _, l := range w.leases[node] {
			if !yield(l) {
				return
			}
		}
	}
}
