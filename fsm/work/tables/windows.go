package tables

import "github.com/mindcoordinator/mind/fsm/work/windows"

// PutWindow puts a window in, in the place of the one of its name. The waiting jobs of a tenant with a reservation are in
// classes of their own, as those of a tenant with a quota.
func (s *State) PutWindow(w *windows.Window) {
	s.reclass(w.Tenant, func() { windows.Add(&s.Register, w) })
}

// DropWindow takes a window out.
func (s *State) DropWindow(w *windows.Window) {
	s.reclass(w.Tenant, func() { windows.Remove(&s.Register, w) })
}

// reclass makes a change after which the waiting jobs of a tenant may be of other classes.
func (s *State) reclass(tenant string, change func()) {
	if tenant == "" {
		change()
		return
	}
	moved := s.waitingOf(tenant)
	for _, j := range moved {
		s.unlist(j)
	}
	change()
	for _, j := range moved {
		s.list(j)
	}
}
