package tables

import "github.com/mindcoordinator/mind/fsm/work/promises"

// PutPromise puts a promise in, in the place of the one for its job.
func (s *State) PutPromise(p *promises.Promise) {
	for i := range p.Tasks {
		p.Tasks[i].Node = s.kernel.Intern(p.Tasks[i].Node)
	}
	promises.Put(&s.Ledger, p)
}

// DropPromise takes a promise out.
func (s *State) DropPromise(p *promises.Promise) { promises.Drop(&s.Ledger, p) }
