package tables

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
)

// listAwaits keeps the index of jobs that wait for a node in step with a row.
func (s *State) listAwaits(old, j *work.Job) {
	for i := range old.Awaits {
		s.jobs.awaits.Delete(awaitingJob{old.Awaits[i].Node, old.ID})
	}
	for i := range j.Awaits {
		s.jobs.awaits.Put(awaitingJob{j.Awaits[i].Node, j.ID})
	}
}

// AwaitedOn lists the jobs that wait for news of a task on a node. While there are any, the node has to
// register when it comes back, even if nothing else about it has changed.
func (s *rows) AwaitedOn(node string) []ident.Job {
	var ids []ident.Job
	s.jobs.awaits.AscendFrom(awaitingJob{node: node}, func(a awaitingJob) bool {
		if a.node != node {
			return false
		}
		ids = append(ids, a.id)
		return true
	})
	return ids
}
