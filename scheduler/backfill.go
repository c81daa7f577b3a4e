package scheduler

import (
	"cmp"
	"slices"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/promises"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/scheduler/picture"
	"github.com/mindcoordinator/mind/scheduler/place"
	"github.com/mindcoordinator/mind/scheduler/reserve"
)

// mostBackfilled is the number of jobs of one class that one pass tries on places that are kept for others. They are
// tried one by one, because each may have another time limit.
const mostBackfilled = 256

// backfill keeps the reserved starts in one pass. A reserved start binds the jobs that do not have a higher priority
// and do not end before it: they see the pool without its places. A job whose reserved places are all free is placed on
// them when it is the turn of its priority.
//
// bind switches the pool between all reserved starts, which bind most jobs, and those that bind one job.
type backfill struct {
	pass *pass
	now  int64
	// kept are the reserved starts, the most urgent first. ready are those whose places are all free and whose turn has
	// not come.
	kept, ready []*kept
	// binding has a byte for each of kept: 1 if the pool is without its places, else 0. all has only ones.
	binding string
	all     string
	// fits are the searches by binding; nil: nothing fitted. With the same binding capacity only shrinks, so these are
	// not tried again.
	fits    map[bound]*place.Fit
	scratch []byte
}

// bound is a search while some of the reserved starts bind.
type bound struct {
	search  *search
	binding string
}

// kept is a reserved start with its job.
type kept struct {
	*promises.Promise
	job    *work.Job
	above  int
	places []place.Withheld
	placed bool
}

// newBackfill reads the reserved starts; nil: there are none.
func newBackfill(p *pass) *backfill {
	var all []*kept
	for promise := range p.view.Promises() {
		if j, ok := p.view.Job(promise.Job); ok && j.Waiting() {
			all = append(all, &kept{Promise: promise, job: j, above: p.ranking.Of(j).Above})
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b *kept) int {
		return cmp.Or(cmp.Compare(a.above, b.above), cmp.Compare(a.StartAt, b.StartAt), cmp.Compare(a.Job, b.Job))
	})
	f := &backfill{pass: p, now: max(p.view.Now(), p.opts.Now), kept: all, fits: map[bound]*place.Fit{}}
	bound := make([]byte, len(all))
	for i := range bound {
		bound[i] = 1
	}
	f.all, f.binding = string(bound), string(make([]byte, len(all)))
	return f
}

// keep takes the places of all reserved starts out of the pool.
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

// needed returns the resources of a reserved place that must be kept free now. CPUs and memory that running jobs of the
// node release before the reserved start are not among them.
func (f *backfill) needed(k *kept, i int) work.Claimed {
	w := k.Of(i)
	for l := range f.pass.view.LeasesOn(k.Tasks[i].Node) {
		if w.CPUs == 0 && w.MemMB == 0 {
			break
		}
		if at := picture.Leaves(f.pass.view, l, f.now); at != 0 && at <= k.StartAt+reserve.Little {
			w.CPUs -= min(w.CPUs, l.CPUs)
			w.MemMB -= min(w.MemMB, l.MemMB)
		}
	}
	return w
}

// bind takes the places of the binding starts out of the pool, and returns those of the others.
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

// bindingOn returns the starts that bind a job which would end at a time; an end of 0 means never.
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

// place finds places for a job that fits nowhere else, among those of the starts that do not bind it.
func (f *backfill) place(c *class, j *work.Job, above int) ([]work.TaskPlacement, bool) {
	binding := f.bindingOn(j, above, promises.EndOf(j, f.now))
	if binding == f.all {
		return nil, false
	}
	at := bound{c.search, binding}
	fit, known := f.fits[at]
	if known && fit == nil {
		return nil, false
	}
	f.bind(binding)
	defer f.bind(f.all)
	if !known {
		fit = f.pass.searches.fresh(c.search)
	}
	tasks, ok := fit.Place()
	if !ok {
		fit = nil
	}
	f.fits[at] = fit
	return tasks, ok
}

// due places the jobs with a reserved start that are at least this urgent and whose places are all free.
func (f *backfill) due(above int) {
	for len(f.ready) > 0 && f.ready[0].above <= above {
		k := f.ready[0]
		f.ready = f.ready[1:]
		c := f.pass.classOf(k.job)
		if k.placed || c.limits.Bars(c.Key.Shape) != "" || !c.limits.Allow(c.Key.Shape, k.Tasks) {
			continue
		}
		end := promises.EndOf(k.job, f.now)
		if f.now <= k.StartAt+reserve.Little {
			end = min(end, k.Until) // Deciding and placing took a moment: the job counts as on time.
		}
		f.bind(f.bindingOn(k.job, k.above, end))
		taken := 0
		for taken < len(k.Tasks) && f.pass.pool.TakeAt(&k.Tasks[taken], &k.job.Shape) {
			taken++
		}
		if taken == len(k.Tasks) {
			f.pass.grant(c, k.job, work.Placement{Job: k.Job, Attempt: k.Attempt, Tasks: slices.Clone(k.Tasks)})
		}
		f.binding = "" // The withheld places have changed.
		f.bind(f.all)
	}
}

// free reports whether the places of a reserved start were free when the pass began, and no window keeps them from the
// job.
func (f *backfill) free(k *kept) bool {
	for i := range k.Tasks {
		n, ok := f.pass.view.Node(k.Tasks[i].Node)
		if !ok {
			return false
		}
		if slices.ContainsFunc(f.pass.searches.windows, func(w *windows.Window) bool { return w.Has(n.ID) && !w.Admits(k.job, f.now) }) {
			return false
		}
		use := f.pass.view.Use(n.ID)
		if work.CheckTask(n, &use, k.job.Shape, k.Tasks[i].GPUs) != nil {
			return false
		}
	}
	return true
}

// has reports whether a job with a reserved start was placed.
func (f *backfill) has(id ident.Job) bool {
	return slices.ContainsFunc(f.kept, func(k *kept) bool { return k.placed && k.Job == id })
}

// granted records that a job was placed, on its reserved places or on others.
func (f *backfill) granted(id ident.Job) {
	for _, k := range f.kept {
		k.placed = k.placed || k.Job == id
	}
}

// reason returns why a search does not fit that would fit on places which are kept for others. It names the latest
// reserved start in its way: a job that ends before that time fits. The reasons of all such searches are found together,
// because to change what binds takes longer than to look.
func (f *backfill) reason(of *search) reason.Reason {
	var open []*search
	for _, c := range f.pass.blocked {
		if s := c.search; s != nil && s.looked == f.pass.searches.number && s.fits && s.tight && !s.explained(f.pass.searches.version) {
			s.why = f.pass.searches.shortage(s)
			open = append(open, s)
		}
	}
	byStart := slices.SortedFunc(slices.Values(f.kept), func(a, b *kept) int {
		return cmp.Or(cmp.Compare(b.StartAt, a.StartAt), cmp.Compare(a.Job, b.Job))
	})
	binding := []byte(f.all)
	defer f.bind(f.all)
	for _, k := range byStart {
		if len(open) == 0 {
			break
		}
		binding[slices.Index(f.kept, k)] = 0
		f.bind(string(binding))
		open = slices.DeleteFunc(open, func(s *search) bool {
			fits := f.pass.searches.fresh(s).Fits()
			if fits {
				s.why = reason.New(reason.WouldDelay, (k.StartAt+1e9-1)/1e9)
			}
			return fits
		})
	}
	return of.why
}
