package scheduler

import (
	"math"
	"slices"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/domains"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/scheduler/order"
	"github.com/mindcoordinator/mind/scheduler/place"
)

// search finds places for the jobs of all classes that need the same and that the same windows keep from the same nodes.
// Classes with different tenants, queues and time limits share it, so the work of a pass does not grow with them.
type search struct {
	key searchKey
	// fit is nil until it is needed in a pass.
	fit *place.Fit
	// own finds places on the nodes that are reserved for the tenant now, which are used first; nil: there are none.
	own *place.Fit
	// fits: there was a place when the pass began. tight: there is none now, except on places that are kept for reserved
	// starts. Both are of the pass with the number looked.
	fits, tight bool
	looked      uint64
	// failed: nothing fitted when it was last tried without reserved starts. So now something fits only on hosts that
	// were touched since.
	failed bool
	// touched: it fits on touched hosts, and only there.
	touched bool
	// class is the class of the one job that the search is for, if key.own is set.
	class work.ClassKey
	// why is the reason why nothing fits in the given version of the pool; empty: nobody has asked yet.
	why     reason.Reason
	version uint64
	// listed is the number of the pass in which it was listed.
	listed uint64
	// bare is the same search without windows, if it was needed.
	bare *search
	// classes are those that wait here. urgency and term bound them, if urgent is set: no job of them is more urgent, or of
	// a term that ends earlier.
	classes []*class
	urgent  bool
	urgency order.Urgency
	term    work.Term
	// said is the reason that the state has for all classes that wait here, but for those that are doubted.
	said reason.Reason
	// opened: its classes took part in the pass. closed counts those that were blocked in it.
	opened bool
	closed int
	// gone: it is for a class that is gone.
	gone bool
}

type searchKey struct {
	// shape is that of the class, without the types of GPU of which a limit leaves too few.
	shape work.Shape
	kept  *arrangement
	// own is the job that is a class of its own; 0: none is.
	own ident.Job
}

// searches are the searches for places in one pool, and are kept as long as the pool and the windows stay. Its maps are
// looked into and never ranged over.
type searches struct {
	pass *pass
	pool *place.Pool
	// number counts the passes, generation the times that everything was forgotten, version the passes before which the
	// pool had changed.
	number, generation, version uint64
	// withheld: the last pass kept places for reserved starts.
	withheld bool
	windows  []*windows.Window
	// reserved are the tenants with reservations.
	reserved map[string]bool
	// admitted has the arrangements by the part of a class that windows look at, and known by their effect.
	admitted map[admission]*admitted
	known    map[string]*arrangement
	all      map[searchKey]*search
	// live are the same searches as in all, in the order in which they were made.
	live []*search
	// Between since and next, no window begins or ends to admit classes.
	since, next int64
	// shortages are the reasons by shape, as long as the pool stays the same.
	shortages map[work.Shape]reason.Reason
	// list has the searches of the classes that were opened and that are not tight.
	list []*search
}

// begin prepares the searches for a pass in a pool.
func (s *searches) begin(p *pass, pool *place.Pool) {
	now := slices.Collect(p.view.Windows())
	if s.pool != pool || !slices.Equal(s.windows, now) || len(s.all) > 2*len(p.classes.all)+manyLimits {
		s.empty()
		s.pool, s.windows = pool, now
		for _, w := range now {
			if w.Kind == windows.Reservation {
				s.reserved[w.Tenant] = true
			}
		}
	}
	s.pass, s.number, s.list = p, s.number+1, s.list[:0]
	if withheld := p.backfill != nil; pool.Touched() > 0 || withheld || s.withheld {
		s.withheld = withheld
		s.changed()
	}
}

// empty forgets all searches.
func (s *searches) empty() {
	for _, of := range s.live {
		for _, c := range of.classes {
			c.at = nil
		}
	}
	*s = searches{
		generation: s.generation + 1, number: s.number, version: s.version, withheld: s.withheld, reserved: map[string]bool{}, next: math.MaxInt64,
		admitted: map[admission]*admitted{}, known: map[string]*arrangement{}, all: map[searchKey]*search{},
		shortages: map[work.Shape]reason.Reason{},
	}
}

// changed forgets the reasons, because the pool has changed.
func (s *searches) changed() {
	s.version++
	clear(s.shortages)
}

// drop forgets the search of a class that is gone, if it is for no other.
func (s *searches) drop(c *class) {
	if c.search != nil && c.generation == s.generation && c.Key.Own != 0 {
		delete(s.all, c.search.key)
		c.search.gone = true
		s.live = slices.DeleteFunc(s.live, func(of *search) bool { return of.gone })
	}
}

// of returns the search for the jobs of a class. It need not have been looked at in the pass.
func (s *searches) of(c *class) *search {
	shape := &c.Key.Shape
	if c.limits.Typed() {
		narrow := c.limits.Narrow(c.Key.Shape)
		shape = &narrow
	}
	if c.generation != s.generation {
		c.generation, c.admitted, c.search = s.generation, s.admission(&c.Key), nil
	}
	kept := c.admitted.arrangement
	if c.search == nil || c.search.key.kept != kept || c.search.key.shape != *shape {
		c.search = s.get(searchKey{shape: *shape, kept: kept, own: c.Key.Own}, &c.Key)
	}
	return c.search
}

// looked returns a search that has been looked at in the pass.
func (s *searches) looked(of *search) *search {
	if of.looked != s.number {
		s.look(of)
	}
	return of
}

// open reports whether the jobs of a search would fit if there were no windows.
func (s *searches) open(of *search) bool {
	if of.bare == nil {
		key := of.key
		key.kept = nil
		of.bare = s.get(key, &of.class)
	}
	of.bare.class = of.class
	found := s.looked(of.bare)
	return found.fits && s.still(found)
}

func (s *searches) get(key searchKey, class *work.ClassKey) *search {
	found, ok := s.all[key]
	if !ok {
		found = &search{key: key}
		s.all[key] = found
		s.live = append(s.live, found)
	}
	if key.own != 0 {
		found.class = *class // The job may be in another class than before: its tenant has got a quota, or lost it.
	}
	return found
}

// look finds out whether a search fits at the beginning of a pass.
func (s *searches) look(of *search) {
	before := of.looked+1 == s.number // Otherwise other hosts were touched, too.
	of.looked, of.tight, of.touched, of.fit, of.own = s.number, false, false, nil, nil
	if of.key.own != 0 {
		of.why = ""
	}
	if of.failed && before && of.key.own == 0 {
		of.fits = s.reopened(of)
		if !of.fits {
			return
		}
		if of.key.shape.Nodes <= 1 {
			of.touched, of.failed = true, false
			return
		}
	}
	of.fits = s.fitOf(of).Fits()
	of.failed = !of.fits
}

func (s *searches) reopened(of *search) bool { return s.pool.Reopened(&of.key.shape, of.barred()) }

// fitsNow reports whether a search fits that did not before places on some nodes got free. A task fits on none but these.
func (s *searches) fitsNow(of *search, got place.Spots) bool {
	if of.key.own == 0 {
		if fits := s.pool.FitsOn(got, &of.key.shape, of.barred()); !fits || of.key.shape.Nodes <= 1 {
			return fits
		}
	}
	return s.fresh(of).Fits()
}

// barred returns the nodes that windows keep from the jobs of a search.
func (s *search) barred() (hosts place.Hosts) {
	if s.key.kept != nil {
		hosts = s.key.kept.barred
	}
	return hosts
}

// fitting looks at the searches at which classes wait, and returns those that fit.
func (s *searches) fitting() []*search {
	var all []*search
	for _, of := range s.live {
		of.opened, of.closed = false, 0
		if len(of.classes) > 0 && s.looked(of).fits {
			all = append(all, of)
		}
	}
	return all
}

// still reports whether a search that fitted still does.
func (s *searches) still(of *search) bool {
	if of.touched {
		return s.reopened(of)
	}
	return s.fitOf(of).Fits()
}

// fitOf returns the fit of a search for this pass.
func (s *searches) fitOf(of *search) *place.Fit {
	if of.fit == nil {
		of.fit = s.fresh(of)
		if of.key.kept != nil && of.key.kept.own != nil {
			of.own = s.fresh(of)
			of.own.BarOthers(*of.key.kept.own)
		}
	}
	return of.fit
}

// fresh returns a fit for a search in the pool as it is now.
func (s *searches) fresh(of *search) *place.Fit {
	fit := s.pool.For(of.key.shape)
	if of.key.own != 0 {
		for job := range lanesJobs(s.pass.view, of.class) {
			fit.Narrow(job, s.pass.opts.Settled)
		}
	}
	if of.key.kept != nil {
		fit.Bar(of.key.kept.barred)
	}
	return fit
}

// place takes places for one job out of the pool.
func (s *searches) place(of *search) ([]work.TaskPlacement, bool) {
	if of.tight {
		return nil, false
	}
	fit := s.fitOf(of)
	if of.own != nil {
		if tasks, ok := of.own.Place(); ok {
			return tasks, true
		}
	}
	tasks, ok := fit.Place()
	if !ok {
		s.tighten(of)
	}
	return tasks, ok
}

// tighten records that nothing fits any more.
func (s *searches) tighten(of *search) {
	of.tight = true
	of.failed = s.pass.backfill == nil
}

// explained reports whether the reason for a version of the pool is known, and forgets one for another version.
func (s *search) explained(version uint64) bool {
	if s.version != version {
		s.why, s.version = "", version
	}
	return s.why != ""
}

// reason returns why no job of a search fits, at the end of the pass.
func (s *searches) reason(of *search) reason.Reason {
	if of.explained(s.version) {
		return of.why
	}
	kept := of.key.kept
	switch f := s.pass.backfill; {
	case f != nil && of.fits && of.tight:
		of.why = f.reason(of)
	case kept == nil || kept.nodes == 0 || !s.open(of):
		of.why = s.shortage(of)
	default:
		of.why = reason.New(reason.NodesKept, s.fitOf(of).Demand(), kept.nodes)
	}
	return of.why
}

// shortage returns why the nodes have no place for a job of a search.
func (s *searches) shortage(of *search) reason.Reason {
	shape := &of.key.shape
	if of.key.own != 0 || shape.Nodes > 1 && shape.Between != domains.Anywhere {
		return s.fitOf(of).Reason()
	}
	why, ok := s.shortages[*shape]
	if !ok {
		why = s.fitOf(of).Reason()
		s.shortages[*shape] = why
	}
	return why
}

// enlist adds a search that fits to the list.
func (s *searches) enlist(of *search) {
	if of.listed != s.number && !of.tight {
		of.listed = s.number
		s.list = append(s.list, of)
	}
}

// sweep removes the searches from the list that do not fit any more, and gives each of them to removed.
func (s *searches) sweep(removed func(*search)) {
	s.list = slices.DeleteFunc(s.list, func(of *search) bool {
		if !of.tight && !s.still(of) {
			s.tighten(of)
		}
		if of.tight {
			removed(of)
		}
		return of.tight
	})
}
