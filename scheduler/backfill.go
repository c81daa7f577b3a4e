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
// tried one by one, because each may have another time limit, and only if a job with the shortest one would fit.
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
	// keeps: the places have been taken out of the pool.
	keeps bool
	// binding are the starts whose places the pool is without; nil: it is not known. all has all starts.
	binding *binding
	all     *binding
	// known has the bindings by their starts, loosest those that bind a job with the shortest limit.
	known   map[string]*binding
	loosest map[earliest]*binding
	scratch []byte
}

// binding is a set of reserved starts that bind a job.
type binding struct {
	// starts has a byte for each of backfill.kept: 1 if it binds, else 0.
	starts string
	// fits are the searches while these starts bind; nil: nothing fitted. Capacity only shrinks, so these are not tried
	// again.
	fits map[*search]*place.Fit
}

// earliest is the urgency and the term of jobs, of which no job ends earlier than the shortest limit of the term allows.
type earliest struct {
	above int
	term  work.Term
}

// kept is a reserved start with its job.
type kept struct {
	*promises.Promise
	job *work.Job
	// in is the class in which the job waits; nil: no class that has been read.
	in     *class
	above  int
	places []place.Withheld
	placed bool
}

// newBackfill reads the reserved starts; nil: there are none.
func newBackfill(p *pass) *backfill {
	var all []*kept
	for promise := range p.view.Promises() {
		if j, ok := p.view.Job(promise.Job); ok && j.Waiting() {
			all = append(all, &kept{Promise: promise, job: j, in: p.classes.byKey[p.view.ClassOf(j)], above: p.ranking.Of(j).Above})
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b *kept) int {
		return cmp.Or(cmp.Compare(a.above, b.above), cmp.Compare(a.StartAt, b.StartAt), cmp.Compare(a.Job, b.Job))
	})
	f := &backfill{
		pass: p, now: max(p.view.Now(), p.opts.Now), kept: all, known: map[string]*binding{}, loosest: map[earliest]*binding{},
	}
	starts := make([]byte, len(all))
	f.binding = f.of(starts)
	for i := range starts {
		starts[i] = 1
	}
	f.all = f.of(starts)
	return f
}

// of returns the binding with the given starts, always the same one.
func (f *backfill) of(starts []byte) *binding {
	b := f.known[string(starts)]
	if b == nil {
		b = &binding{starts: string(starts), fits: map[*search]*place.Fit{}}
		f.known[b.starts] = b
	}
	return b
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
	f.keeps = true
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
func (f *backfill) bind(b *binding) {
	if f.binding == b {
		return
	}
	f.binding = b
	var all []place.Withheld
	for i, k := range f.kept {
		if b.starts[i] == 1 && !k.placed {
			all = append(all, k.places...)
		}
	}
	f.pass.pool.Withhold(all)
}

// bindingOn returns the starts that bind a job which would end at a time; an end of 0 means never.
func (f *backfill) bindingOn(j *work.Job, above int, end int64) *binding {
	return f.bindingBut(above, end, func(k *kept) bool { return k.Job == j.ID })
}

// bindingBut returns the starts that bind a job of an urgency which would end at a time, but for some that do not.
func (f *backfill) bindingBut(above int, end int64, not func(*kept) bool) *binding {
	f.scratch = append(f.scratch[:0], f.all.starts...)
	for i, k := range f.kept {
		if above < k.above || !k.During(f.now, end) || not(k) {
			f.scratch[i] = 0
		}
	}
	return f.of(f.scratch)
}

// place finds places for a job that fits nowhere else, among those of the starts that do not bind it.
func (f *backfill) place(c *class, j *work.Job, above int) ([]work.TaskPlacement, bool) {
	b := f.bindingOn(j, above, promises.EndOf(j, f.now))
	fit := f.fitWith(b, c.search)
	if fit == nil {
		return nil, false
	}
	f.bind(b)
	defer f.bind(f.all)
	tasks, ok := fit.Place()
	if !ok {
		b.fits[c.search] = nil
	}
	return tasks, ok
}

// fitWith returns the fit of a search while some starts bind; nil: nothing fits.
func (f *backfill) fitWith(b *binding, s *search) *place.Fit {
	if b == f.all {
		return nil // It was tried without the places of all starts.
	}
	fit, known := b.fits[s]
	if !known {
		f.bind(b)
		fit = f.pass.searches.fresh(s)
		f.bind(f.all)
		b.fits[s] = fit
	}
	return fit
}

// hopeless reports whether no job of a class fits that ends as early as its term allows, and is as urgent as the most
// urgent one. Then none of its jobs fits: the others are bound by these starts, and by more.
func (f *backfill) hopeless(c *class) bool {
	above, own := f.pass.ranking.Soonest(f.pass.urgencyOf(c)), func(k *kept) bool { return k.in == c }
	return f.without(c.search, f.loosestOn(above, c.Key.Term, own))
}

// hopelessAll reports whether all classes that wait at a search are hopeless. If some are not, it need not know of others.
func (f *backfill) hopelessAll(s *search) bool {
	if s.key.own != 0 {
		return false
	}
	if !s.urgent {
		s.urgent, s.urgency, s.term = true, none, work.TermOpen
		for _, c := range s.classes {
			s.urgency.Add(f.pass.urgencyOf(c))
			if s.term == work.TermOpen || c.Key.Term != work.TermOpen && promises.Earliest(c.Key.Term, 0) < promises.Earliest(s.term, 0) {
				s.term = c.Key.Term
			}
		}
	}
	own := func(k *kept) bool { return k.in != nil && k.in.at == s }
	return f.without(s, f.loosestOn(f.pass.ranking.Soonest(s.urgency), s.term, own))
}

// without reports whether nothing fits at a search while some starts bind.
func (f *backfill) without(s *search, b *binding) bool {
	fit := f.fitWith(b, s)
	if fit == nil {
		return true
	}
	f.bind(b)
	defer f.bind(f.all)
	if fit.Fits() {
		return false
	}
	b.fits[s] = nil
	return true
}

// loosestOn returns the fewest starts that bind a job of an urgency and a term, but for some that do not.
func (f *backfill) loosestOn(above int, term work.Term, not func(*kept) bool) *binding {
	end := promises.Earliest(term, f.now)
	if slices.ContainsFunc(f.kept, not) {
		return f.bindingBut(above, end, not)
	}
	at := earliest{above, term}
	b := f.loosest[at]
	if b == nil {
		b = f.bindingBut(above, end, func(*kept) bool { return false })
		f.loosest[at] = b
	}
	return b
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
		f.binding = nil // The withheld places have changed.
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

// granted records that a job was placed, on its reserved places or on others. Its reserved places are kept no more, so
// what did not fit without them is tried again.
func (f *backfill) granted(id ident.Job) {
	at := slices.IndexFunc(f.kept, func(k *kept) bool { return k.Job == id && !k.placed })
	if at < 0 {
		return
	}
	f.kept[at].placed = true
	if f.keeps {
		f.binding = nil
		f.bind(f.all)
	}
	for _, b := range f.known { // order-free: each is cleared by itself
		clear(b.fits)
	}
}

// reason returns why a search does not fit that would fit on places which are kept for others. It names the latest
// reserved start in its way: a job that ends before that time fits. The reasons of all such searches are found together,
// because to change what binds takes longer than to look.
func (f *backfill) reason(of *search) reason.Reason {
	var open []*search
	for _, s := range f.pass.searches.live {
		if s.looked == f.pass.searches.number && s.fits && s.tight && !s.explained(f.pass.searches.version) {
			s.why = f.pass.searches.shortage(s)
			open = append(open, s)
		}
	}
	byStart := slices.SortedFunc(slices.Values(f.kept), func(a, b *kept) int {
		return cmp.Or(cmp.Compare(b.StartAt, a.StartAt), cmp.Compare(a.Job, b.Job))
	})
	starts := []byte(f.all.starts)
	defer f.bind(f.all)
	for _, k := range byStart {
		if len(open) == 0 {
			break
		}
		starts[slices.Index(f.kept, k)] = 0
		f.bind(f.of(starts))
		spots := f.pass.pool.SpotsOf(k.places)
		open = slices.DeleteFunc(open, func(s *search) bool {
			fits := f.pass.searches.fitsNow(s, spots)
			if fits {
				s.why = reason.New(reason.WouldDelay, (k.StartAt+1e9-1)/1e9)
			}
			return fits
		})
	}
	return of.why
}
