package tables

import "github.com/mindcoordinator/mind/fsm/work"

// Policy is how the scheduler decides.
func (s *rows) Policy() work.Policy { return work.DefaultPolicy() }
