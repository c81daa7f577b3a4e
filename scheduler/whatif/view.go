package whatif

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/accounts"
	"github.com/mindcoordinator/mind/scheduler/foresee"
	"github.com/mindcoordinator/mind/scheduler/picture"
)

// view is a view of the state with a change. Everything else comes from the embedded view.
type view struct {
	*fsm.View
	// job is the changed job. It is a class of its own, with this key.
	job *work.Job
	key work.ClassKey
	// gone are the canceled jobs, and picture is the cluster without them.
	gone    map[ident.Job]*work.Job
	picture *picture.Picture
	quota   *work.Quota
	queues  map[string]*work.Queue
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
		View: v, job: changed, gone: map[ident.Job]*work.Job{}, picture: picture.Of(v), queues: map[string]*work.Queue{}, now: max(now, v.Now()),
	}
	w.limit(c)
	w.key = v.ClassOf(changed)
	w.key.Own = changed.ID
	if w.quota != nil {
		w.key.Tenant = changed.Tenant
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
	if c.QuotaGPUs != nil || c.QuotaRunning != nil {
		if w.quota == nil {
			w.quota = &work.Quota{Tenant: w.job.Tenant}
		}
		limit(&w.quota.MaxGPUs, c.QuotaGPUs)
		limit(&w.quota.MaxRunning, c.QuotaRunning)
	}
	if q, ok := w.View.Queue(w.job.Queue); ok && c.QueueGPUs != nil {
		copied := *q
		copied.MaxGPUs = uint32(max(0, *c.QueueGPUs))
		w.queues[q.Name] = &copied
	}
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

// Array returns the row of an array, whose count of running elements is without those that are canceled.
func (w *view) Array(id ident.Job) (*work.Job, bool) {
	j, ok := w.View.Array(id)
	if !ok || len(w.gone) == 0 {
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
	return w.View.Job(id)
}

func (w *view) ActiveJobs() iter.Seq[*work.Job] {
	return func(yield func(*work.Job) bool) {
		for j := range w.View.ActiveJobs() {
			if w.gone[j.ID] == nil && !yield(j) {
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
	}
}

// Classes iterates the classes of the state and the class of the job.
func (w *view) Classes() iter.Seq[work.ClassKey] {
	return func(yield func(work.ClassKey) bool) {
		for key := range w.View.Classes() {
			if key != w.key && !yield(key) {
				return
			}
		}
		if w.job.Waiting() {
			yield(w.key)
		}
	}
}

func (w *view) ClassOf(j *work.Job) work.ClassKey {
	if j.ID == w.job.ID {
		return w.key
	}
	return w.View.ClassOf(j)
}

func (w *view) ClassReason(key work.ClassKey) reason.Reason {
	if key == w.key {
		return ""
	}
	return w.View.ClassReason(key)
}

func (w *view) lane() work.LaneKey {
	return work.LaneKey{Class: w.key, Tenant: w.job.Tenant, User: w.job.User}
}

func (w *view) Lanes(class work.ClassKey) iter.Seq[work.LaneKey] {
	if class == w.key {
		return func(yield func(work.LaneKey) bool) { yield(w.lane()) }
	}
	return w.View.Lanes(class)
}

// stays reports whether a job is neither the changed one nor canceled.
func (w *view) stays(j *work.Job) bool { return j.ID != w.job.ID && w.gone[j.ID] == nil }

func (w *view) filter(jobs iter.Seq[*work.Job]) iter.Seq[*work.Job] {
	return func(yield func(*work.Job) bool) {
		for j := range jobs {
			if w.stays(j) && !yield(j) {
				return
			}
		}
	}
}

func (w *view) ClassJobs(class work.ClassKey) iter.Seq[*work.Job] {
	if class == w.key {
		return func(yield func(*work.Job) bool) { yield(w.job) }
	}
	return w.filter(w.View.ClassJobs(class))
}

func (w *view) LaneJobs(lane work.LaneKey) iter.Seq[*work.Job] {
	if lane == w.lane() {
		return func(yield func(*work.Job) bool) { yield(w.job) }
	}
	return w.filter(w.View.LaneJobs(lane))
}

func (w *view) LaneJobsAfter(lane work.LaneKey, after *work.Job, buf []*work.Job) []*work.Job {
	if lane == w.lane() {
		if len(buf) == 0 || after != nil && (after.Priority < w.job.Priority || after.Priority == w.job.Priority && !after.ID.Older(w.job.ID)) {
			return buf[:0]
		}
		buf[0] = w.job
		return buf[:1]
	}
	for {
		read := w.View.LaneJobsAfter(lane, after, buf)
		if len(read) == 0 {
			return read
		}
		last, kept := read[len(read)-1], buf[:0]
		for _, j := range read {
			if w.stays(j) {
				kept = append(kept, j)
			}
		}
		if len(kept) > 0 {
			return kept
		}
		after = last
	}
}
