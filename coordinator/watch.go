package coordinator

import (
	"github.com/mindcoordinator/mind/fsm"
)

// observe is called on the applying goroutine after each entry: it wakes only the waiters whose view changed.
func (s *server) observe(v *fsm.View, events []fsm.Event) {
	if !s.replica.Opened() {
		return
	}
	s.replica.Changed()
	nodes := false
	for i := range events {
		e := &events[i]
		switch e.Topic {
		case fsm.TopicNode:
			nodes = true
			s.sessions.wake(e.Nodes)
			s.capacity.changed(e.Nodes)
		case fsm.TopicJob, fsm.TopicLease:
			s.sessions.wake(e.Nodes)
		case fsm.TopicState:
			nodes = true
			s.sessions.wakeAll()
			s.capacity.replaced()
		case fsm.TopicCoordinator:
			s.replica.RefreshLeader()
		}
	}
	if nodes {
		s.rosters.changed()
	}
	s.demand.note(events)
	s.metrics.observe(v, events)
}
