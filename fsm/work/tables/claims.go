package tables

import (
	"github.com/mindcoordinator/mind/fsm/work/claims"
	"github.com/mindcoordinator/mind/fsm/work/inuse"
)

// PutClaim puts a claim in, in the place of the one for its job, and keeps its places from others.
func (s *State) PutClaim(c *claims.Claim) {
	if old, ok := s.ClaimOf(c.Job); ok {
		s.unkeep(old)
	}
	claims.Put(&s.Book, c)
	for i := range c.Tasks {
		inuse.Change(&s.leases.use, s.kernel.Intern(c.Tasks[i].Node)).Claim(c.Of(i))
	}
}

// DropClaim takes a claim out.
func (s *State) DropClaim(c *claims.Claim) {
	s.unkeep(c)
	claims.Drop(&s.Book, c)
}

func (s *State) unkeep(c *claims.Claim) {
	for i := range c.Tasks {
		inuse.Change(&s.leases.use, c.Tasks[i].Node).Unclaim(c.Of(i))
	}
}
