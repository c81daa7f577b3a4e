package scheduler

import (
	"math"
	"slices"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/scheduler/place"
)

// arrangement is the effect of all windows on a class; nil: none.
type arrangement struct {
	// barred are the nodes that the windows keep from the class, and nodes is their number. Nodes that are not ready
	// count.
	barred place.Hosts
	nodes  int
	// own are the nodes that are reserved for its tenant now.
	own *place.Hosts
}

// admission is the part of a class that decides which windows admit it.
type admission struct {
	tenant string
	term   work.Term
	alone  bool
}

// admitted is the arrangement of the classes with the same admission. class is one of them.
type admitted struct {
	arrangement *arrangement
	class       work.ClassKey
}

// admission returns the entry for the classes that windows admit as they admit this one.
func (s *searches) admission(class *work.ClassKey) *admitted {
	at := admission{term: class.Term, alone: class.Own != 0}
	if s.reserved[class.Tenant] {
		at.tenant = class.Tenant
	}
	a, ok := s.admitted[at]
	if !ok {
		a = &admitted{arrangement: s.arrange(class), class: *class}
		s.admitted[at] = a
	}
	return a
}

// rearranged finds the effects of the windows again if the time has come at which one may change. It reports whether one
// has.
func (s *searches) rearranged() bool {
	now := s.pass.view.Now()
	if len(s.windows) == 0 || s.since <= now && now < s.next {
		return false
	}
	s.since, s.next = now, math.MaxInt64
	any := false
	for _, a := range s.admitted { // order-free: each is found by itself
		if effect := s.arrange(&a.class); effect != a.arrangement {
			a.arrangement, any = effect, true
		}
	}
	return any
}

// arrange returns the arrangement for a class, the same one for the same effect.
func (s *searches) arrange(class *work.ClassKey) *arrangement {
	if len(s.windows) == 0 {
		return nil
	}
	now := s.pass.view.Now()
	effect, nodes, any := make([]byte, len(s.windows)), 0, false
	for i, w := range s.windows {
		s.next = min(s.next, w.NextForClass(class, now))
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
	a = &arrangement{barred: s.pool.HostsOf(), nodes: nodes}
	for i, w := range s.windows {
		switch effect[i] {
		case 'b':
			s.pool.Add(a.barred, w.Nodes)
		case 'o':
			if a.own == nil {
				own := s.pool.HostsOf()
				a.own = &own
			}
			s.pool.Add(*a.own, w.Nodes)
		}
	}
	s.known[string(effect)] = a
	return a
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
