package scheduler

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/scheduler/place"
)

// search finds places for the jobs of all classes that need the same and that the same windows keep from the same nodes.
// Classes with different tenants, queues and time limits share it, so the work of a pass does not grow with them.
type search struct {
	key searchKey
	fit *place.Fit
	// own finds places on the nodes that are reserved for the tenant now, which are used first; nil: there are none.
	own *place.Fit
	// fits: there was a place when the pass began. tight: there is none now, except on places that are kept for reserved
	// starts.
	fits, tight bool
	// class is the class of the one job that the search is for, if key.own is set.
	class work.ClassKey
	// why is the reason why nothing fits; empty: nobody has asked yet.
	why reason.Reason
}

type searchKey struct {
	// shape is that of the class, without the types of GPU of which a limit leaves too few.
	shape work.Shape
	kept  *arrangement
	// own is the job that is a class of its own; 0: none is.
	own ident.Job
}

// arrangement is the effect of all windows on a class; nil: none.
type arrangement struct {
	// barred are the nodes that the windows keep from the class, and nodes is their number. Nodes that are not ready
	// count.
	barred place.Hosts
	nodes  int
	// own are the nodes that are reserved for its tenant now.
	own *place.Hosts
}

// searches are the searches of one pass. Its maps are looked into and never ranged over.
type searches struct {
	pass    *pass
	windows []*windows.Window
	// reserved are the tenants with reservations.
	reserved map[string]bool
	// arranged has the arrangements by the part of a class that windows look at, and known by their effect.
	arranged map[admission]*arrangement
	known    map[string]*arrangement
	all      map[searchKey]*search
}

// admission is the part of a class that decides which windows admit it.
type admission struct {
	tenant string
	term   work.Term
	alone  bool
}

func newSearches(p *pass) *searches {
	s := &searches{
		pass: p, windows: slices.Collect(p.view.Windows()), reserved: map[string]bool{},
		arranged: map[admission]*arrangement{}, known: map[string]*arrangement{}, all: map[searchKey]*search{},
	}
	for _, w := range s.windows {
		if w.Kind == windows.Reservation {
			s.reserved[w.Tenant] = true
		}
	}
	return s
}

// of returns the search for the jobs of a class, of the given shape.
func (s *searches) of(class *work.ClassKey, shape work.Shape) *search {
	return s.get(searchKey{shape: shape, kept: s.arrangementOf(class), own: class.Own}, class)
}

// open returns the same search as if there were no windows.
func (s *searches) open(of *search) *search {
	key := of.key
	key.kept = nil
	return s.get(key, &of.class)
}

func (s *searches) get(key searchKey, class *work.ClassKey) *search {
	found, ok := s.all[key]
	if !ok {
		found = &search{key: key}
		if key.own != 0 {
			found.class = *class
		}
		found.fit = s.fresh(found)
		found.fits = found.fit.Fits()
		if key.kept != nil && key.kept.own != nil {
			found.own = s.fresh(found)
			found.own.BarOthers(*key.kept.own)
		}
		s.all[key] = found
	}
	return found
}

// fresh returns a fit for a search in the pool as it is now.
func (s *searches) fresh(of *search) *place.Fit {
	fit := s.pass.pool.For(of.key.shape)
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

// arrangementOf returns the effect of the windows on a class.
func (s *searches) arrangementOf(class *work.ClassKey) *arrangement {
	if len(s.windows) == 0 {
		return nil
	}
	at := admission{term: class.Term, alone: class.Own != 0}
	if s.reserved[class.Tenant] {
		at.tenant = class.Tenant
	}
	a, ok := s.arranged[at]
	if !ok {
		a = s.arrange(class)
		s.arranged[at] = a
	}
	return a
}

// arrange returns the arrangement for a class, the same one for the same effect.
func (s *searches) arrange(class *work.ClassKey) *arrangement {
	now, pool := s.pass.view.Now(), s.pass.pool
	effect, nodes, any := make([]byte, len(s.windows)), 0, false
	for i, w := range s.windows {
		switch {
		case !w.AdmitsClass(class, now):
			effect[i], any = 'b', true
			nodes += len(w.Nodes)
		case w.Kind == windows.Reservation && w.Tenant == class.Tenant && w.Begun && class.Own == 0:
			effect[i], any = 'o', true
		}
	}
	if !any {
		return nil
	}
	a, ok := s.known[string(effect)]
	if ok {
		return a
	}
	a = &arrangement{barred: pool.HostsOf(), nodes: nodes}
	for i, w := range s.windows {
		switch effect[i] {
		case 'b':
			pool.Add(a.barred, w.Nodes)
		case 'o':
			if a.own == nil {
				own := pool.HostsOf()
				a.own = &own
			}
			pool.Add(*a.own, w.Nodes)
		}
	}
	s.known[string(effect)] = a
	return a
}

// place takes places for one job out of the pool.
func (s *search) place() ([]work.TaskPlacement, bool) {
	if s.tight {
		return nil, false
	}
	if s.own != nil {
		if tasks, ok := s.own.Place(); ok {
			return tasks, true
		}
	}
	tasks, ok := s.fit.Place()
	s.tight = !ok
	return tasks, ok
}

// reason returns why no job of a search fits, at the end of the pass.
func (s *searches) reason(of *search) reason.Reason {
	if of.why != "" {
		return of.why
	}
	kept := of.key.kept
	switch f := s.pass.backfill; {
	case f != nil && of.fits && of.tight:
		of.why = f.reason(of)
	case kept == nil || kept.nodes == 0 || !s.open(of).fit.Fits():
		of.why = of.fit.Reason()
	default:
		of.why = reason.New(reason.NodesKept, of.fit.Demand(), kept.nodes)
	}
	return of.why
}

// keepsAny reports whether a window keeps one of these places from a class.
func (s *searches) keepsAny(class *work.ClassKey, places []work.TaskPlacement) bool {
	for _, w := range s.windows {
		if !w.AdmitsClass(class, s.pass.view.Now()) && slices.ContainsFunc(places, func(t work.TaskPlacement) bool { return w.Has(t.Node) }) {
			return true
		}
	}
	return false
}
