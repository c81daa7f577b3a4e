package scheduler

import (
	"cmp"
	"slices"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/promises"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/scheduler/place"
)

// mostBackfilled is how many jobs of one class are tried in one pass on what is kept for others. Each may have another limit.
const mostBackfilled = 256

// backfill keeps in one pass what was promised. A promise binds the jobs that do not have a higher priority and do not end
// before it begins: they see the pool without its places. A promised job whose places are all free is placed on them when it
// is the turn of its priority.
//
// The pool is switched between what binds most jobs, which is everything, and what binds one of them.
type backfill struct {
	pass *pass
	now  int64
	// kept are the promises, the most urgent first; ready are those whose places are all free, until it was their turn.
	kept, ready []*kept
	// binding says which of them the pool is without, in bytes of 0 and 1.
	binding string
	all     string
	// hopeless are the shapes that did not fit, with what was binding then: capacity only shrinks.
	hopeless map[tried]bool
	scratch  []byte
}

type tried struct {
	class   work.ClassKey
	binding string
}

// kept is a promise, with its job.
type kept struct {
	*promises.Promise
	job    *work.Job
	above  int
	places []place.Withheld
	placed bool
}

// newBackfill reads the promises; nil: there are none.
func newBackfill(p *pass) *backfill {
	var all []*kept
	for promise := range p.view.Promises() {
		if j, ok := p.view.Job(promise.Job); ok && j.Waiting() {
			all = append(all, &kept{Promise: promise, job: j, above: p.ranking.of(j).above})
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b *kept) int {
		return cmp.Or(cmp.Compare(a.above, b.above), cmp.Compare(a.StartAt, b.StartAt), cmp.Compare(a.Job, b.Job))
	})
	f := &backfill{pass: p, now: max(p.view.Now(), p.opts.Now), kept: all, hopeless: map[tried]bool{}}
	bound := make([]byte, len(all))
	for i := range bound {
		bound[i] = 1
	}
	f.all, f.binding = string(bound), string(make([]byte, len(all)))
	return f
}

// keep takes the places out of the pool.
func (f *backfill) keep() {
	for _, k := range f.kept {
		if f.free(k) {
			f.ready = append(f.ready, k)
		}
		for i := range k.Tasks {
			k.places = append(k.places, place.Withheld{Node: k.Tasks[i].Node, Claimed: f.needed(k, i)})
		}
	}
	f.bind(f.all)
}

// needed is what must be kept of what is free on a node. The CPUs and the memory that its jobs give back until the promised
// time are not among that.
func (f *backfill) needed(k *kept, i int) work.Claimed {
	w := k.Of(i)
	for l := range f.pass.view.LeasesOn(k.Tasks[i].Node) {
		if w.CPUs == 0 && w.MemMB == 0 {
			break
		}
		if at := leaves(f.pass.view, l, f.now); at != 0 && at <= k.StartAt+little {
			w.CPUs -= min(w.CPUs, l.CPUs)
			w.MemMB -= min(w.MemMB, l.MemMB)
		}
	}
	return w
}

// bind switches the pool.
func (f *backfill) bind(binding string) {
	if f.binding == binding {
		return
	}
	f.binding = binding
	var all []place.Withheld
	for i, k := range f.kept {
		if binding[i] == 1 && !k.placed {
			all = append(all, k.places...)
		}
	}
	f.pass.pool.Withhold(all)
}

// bindingOn is which promises bind a job that would end at a time; 0: never.
func (f *backfill) bindingOn(j *work.Job, above int, end int64) string {
	b := append(f.scratch[:0], f.all...)
	for i, k := range f.kept {
		if k.Job == j.ID || above < k.above || !k.During(f.now, end) {
			b[i] = 0
		}
	}
	f.scratch = b
	return string(b)
}

// place finds a place for a job that fits nowhere else, on what does not bind it.
func (f *backfill) place(c *class, j *work.Job, above int) ([]work.TaskPlacement, bool) {
	binding := f.bindingOn(j, above, promises.EndOf(j, f.now))
	if binding == f.all || f.hopeless[tried{c.key, binding}] {
		return nil, false
	}
	f.bind(binding)
	defer f.bind(f.all)
	fit := f.pass.fitOf(c)
	tasks, ok := fit.Place()
	if !ok {
		f.hopeless[tried{c.key, binding}] = true
	}
	return tasks, ok
}

// due places the promised jobs that are at least so urgent and whose places are all free.
func (f *backfill) due(above int) {
	for len(f.ready) > 0 && f.ready[0].above <= above {
		k := f.ready[0]
		f.ready = f.ready[1:]
		c := f.pass.classOf(k.job)
		if k.placed || c.limits.bars(c.key.Shape) != "" {
			continue
		}
		end := promises.EndOf(k.job, f.now)
		if f.now <= k.StartAt+little {
			end = min(end, k.Until) // Being decided and placed took a moment: it counts as on time.
		}
		f.bind(f.bindingOn(k.job, k.above, end))
		taken := 0
		for taken < len(k.Tasks) && f.pass.pool.TakeAt(&k.Tasks[taken], &k.job.Shape) {
			taken++
		}
		if taken == len(k.Tasks) {
			f.pass.grant(c, k.job, work.Placement{Job: k.Job, Attempt: k.Attempt, Tasks: slices.Clone(k.Tasks)})
		}
		f.binding = "" // What is withheld has changed.
		f.bind(f.all)
	}
}

// free says whether the places of a promise were free when the pass began, and are not kept for something else since.
func (f *backfill) free(k *kept) bool {
	for i := range k.Tasks {
		n, ok := f.pass.view.Node(k.Tasks[i].Node)
		if !ok {
			return false
		}
		if slices.ContainsFunc(f.pass.windows, func(w *windows.Window) bool { return w.Has(n.ID) && !w.Admits(k.job, f.now) }) {
			return false
		}
		use := f.pass.view.Use(n.ID)
		if work.CheckTask(n, &use, k.job.Shape, k.Tasks[i].GPUs) != nil {
			return false
		}
	}
	return true
}

// has says whether a promised job was placed.
func (f *backfill) has(id ident.Job) bool {
	return slices.ContainsFunc(f.kept, func(k *kept) bool { return k.placed && k.Job == id })
}

// granted notes that a job was placed, here or elsewhere.
func (f *backfill) granted(id ident.Job) {
	for _, k := range f.kept {
		k.placed = k.placed || k.Job == id
	}
}

// reason says what a job of a class may do that fits only on what is kept for others: end before the latest promise which is
// in its way.
func (f *backfill) reason(c *class) reason.Reason {
	byStart := slices.SortedFunc(slices.Values(f.kept), func(a, b *kept) int {
		return cmp.Or(cmp.Compare(b.StartAt, a.StartAt), cmp.Compare(a.Job, b.Job))
	})
	open := []byte(f.all)
	defer f.bind(f.all)
	for _, k := range byStart {
		open[slices.Index(f.kept, k)] = 0
		f.bind(string(open))
		if f.pass.fitOf(c).Fits() {
			return reason.New(reason.WouldDelay, (k.StartAt+1e9-1)/1e9)
		}
	}
	return c.fit.Reason()
}

// keepReserved lets nobody be stopped, or placed by stopping others, for what is promised.
func (p *orderPreemptor) keepReserved(v View) {
	for promise := range v.Promises() {
		for i := range promise.Tasks {
			if h := p.byName[promise.Tasks[i].Node]; h != nil {
				p.free -= h.free
				h.use.Claim(promise.Of(i))
				h.count()
				p.free += h.free
			}
		}
	}
}
