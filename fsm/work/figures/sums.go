package figures

import (
	"iter"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/changes"
)

// figures are the counts of a queue, or of a tenant's part of it.
type figures struct {
	counts work.Counts
	// held is how many of the queued ones are held back.
	held int
	// gpuMilli is the sum of the leases of its jobs, in thousandths of a GPU.
	gpuMilli int
	// treeMilli is, of a queue, the same of its jobs and those of all queues below it.
	treeMilli int
	// submissions are those that are not over, specBytes what their specs have together.
	submissions, specBytes int
}

// add counts a row, by times.
func (f *figures) add(j *work.Job, by int) {
	f.held += j.Tally(&f.counts, by)
	if j.Submission() && !j.Terminal() {
		f.submissions += by
		f.specBytes += by * len(j.Spec)
	}
}

func (f *figures) usage() work.Usage {
	running := f.counts[v1.JobState_ALLOCATED] + f.counts[v1.JobState_STARTING] + f.counts[v1.JobState_RUNNING]
	return work.Usage{
		GPUMilli: f.gpuMilli, Running: running, Unfinished: work.Unfinished(f.counts), Submissions: f.submissions, SpecBytes: f.specBytes,
	}
}

// queue has the figures of a queue.
type queue struct {
	name    string
	figures *figures
}

// part is a tenant's part of a queue.
type part struct{ tenant, queue string }

// share has the figures of one tenant in one queue. A tenant sees no other figures of a queue.
type share struct {
	of      part
	figures *figures
}

// Sums has the figures. A View reads them as of the last Flush; functions change them, and read them as they are now.
type Sums struct {
	queues kernel.Index[queue]
	shares kernel.Index[share]
	// changed is up to where the log of the tenants goes.
	changed changes.Mark[string]
	// work is nil in a frozen copy.
	work *working
}

// working has the figures that are changed in place. Its maps are looked into, never ranged over.
type working struct {
	queues map[string]*queueSlot
	shares map[part]*shareSlot
	// totals has the figures of each tenant in all queues together.
	totals map[string]*figures
	// The slots that changed since the last flush, in the order of the changes.
	dirtyQueues []*queueSlot
	dirtyShares []*shareSlot
	// changed are the tenants whose figures, or what limits them, have changed.
	changed *changes.Log[string]
}

type queueSlot struct {
	figures
	name  string
	dirty bool
}

// shareSlot has the figures of a tenant in a queue.
type shareSlot struct {
	figures
	of part
	// total is that of the tenant, shared by all its slots.
	total *figures
	dirty bool
}

// New returns figures of nothing.
func New() Sums {
	return Sums{
		queues: kernel.NewIndex(func(a, b queue) bool { return a.name < b.name }),
		shares: kernel.NewIndex(func(a, b share) bool {
			return a.of.tenant < b.of.tenant || a.of.tenant == b.of.tenant && a.of.queue < b.of.queue
		}),
		work: &working{
			queues: map[string]*queueSlot{}, shares: map[part]*shareSlot{}, totals: map[string]*figures{}, changed: changes.New[string](),
		},
	}
}

// Flush makes visible to Freeze what is counted in place.
func Flush(s *Sums) {
	w := s.work
	for _, q := range w.dirtyQueues {
		q.dirty = false
		is := q.figures
		s.queues.Put(queue{name: q.name, figures: &is})
	}
	for _, f := range w.dirtyShares {
		f.dirty = false
		is := f.figures
		s.shares.Put(share{of: f.of, figures: &is})
		w.changed.Add(f.of.tenant)
	}
	w.dirtyQueues, w.dirtyShares, s.changed = w.dirtyQueues[:0], w.dirtyShares[:0], w.changed.End()
}

// Freeze returns a copy for a view.
func Freeze(s *Sums) Sums {
	return Sums{queues: s.queues.Freeze(), shares: s.shares.Freeze(), changed: s.changed}
}

// Touch notes that something else has changed of a tenant that its limits depend on.
func Touch(s *Sums, tenant string) { s.work.changed.Add(tenant) }

// queueOf returns the figures of a queue, to be changed.
func (w *working) queueOf(name string) *queueSlot {
	q, ok := w.queues[name]
	if !ok {
		q = &queueSlot{name: name}
		w.queues[name] = q
	}
	if !q.dirty {
		q.dirty = true
		w.dirtyQueues = append(w.dirtyQueues, q)
	}
	return q
}

// shareOf returns the figures of a tenant in a queue, to be changed.
func (w *working) shareOf(tenant, queue string) *shareSlot {
	of := part{tenant, queue}
	f, ok := w.shares[of]
	if !ok {
		f = &shareSlot{of: of, total: w.totalOf(tenant)}
		w.shares[of] = f
	}
	if !f.dirty {
		f.dirty = true
		w.dirtyShares = append(w.dirtyShares, f)
	}
	return f
}

// totalOf returns what a tenant has in all queues together, to be changed through its shares.
func (w *working) totalOf(tenant string) *figures {
	t, ok := w.totals[tenant]
	if !ok {
		t = &figures{}
		w.totals[tenant] = t
	}
	return t
}

// Count counts a row that comes (1) or goes (-1).
func Count(s *Sums, j *work.Job, by int) {
	s.work.queueOf(j.Queue).add(j, by)
	f := s.work.shareOf(j.Tenant, j.Queue)
	f.add(j, by)
	f.total.add(j, by)
}

// Hold counts what a lease of a job takes, or gives back. The queues are that of the job and those that it is a part of.
func Hold(s *Sums, j *work.Job, gpuMilli int, queues iter.Seq[*work.Queue]) {
	s.work.queueOf(j.Queue).gpuMilli += gpuMilli
	HoldInTree(s, gpuMilli, queues)
	f := s.work.shareOf(j.Tenant, j.Queue)
	f.gpuMilli += gpuMilli
	f.total.gpuMilli += gpuMilli
}

// HoldInTree counts for queues what the jobs of one below them take, or give back.
func HoldInTree(s *Sums, gpuMilli int, queues iter.Seq[*work.Queue]) {
	if gpuMilli == 0 {
		return
	}
	for q := range queues {
		s.work.queueOf(q.Name).treeMilli += gpuMilli
	}
}

// TreeNow is the present sum of the leases of the jobs of a queue and of those below it, in thousandths of a GPU.
func TreeNow(s *Sums, queue string) int {
	if slot, ok := s.work.queues[queue]; ok {
		return slot.treeMilli
	}
	return 0
}

// UnfinishedNow is how many jobs of a queue are not over, as things are now.
func UnfinishedNow(s *Sums, queue string) int {
	if slot, ok := s.work.queues[queue]; ok {
		return work.Unfinished(slot.counts)
	}
	return 0
}

// UsageNow is the present use of all queues by a tenant.
func UsageNow(s *Sums, tenant string) work.Usage { return s.work.totalOf(tenant).usage() }
