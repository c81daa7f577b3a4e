package tables

import (
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

// LossesOn lists the tasks on a node that a ballot would declare lost now, and says why it does not list the others.
func (s *rows) LossesOn(n *work.Node, silent int64, eligible []string) (keys []LeaseKey, why reason.Reason) {
	var tasks, final, early, alone int
	for l := range s.LeasesOn(n.ID) {
		j, ok := s.Job(l.Job)
		if !ok || !j.Live() || int(l.Rank) >= len(j.Tasks) || j.Tasks[l.Rank].State == v1.TaskState_ENDED {
			continue
		}
		tasks++
		switch {
		case !j.RetryLeft(work.RetryNodeLost):
			final++
		case silent < j.SilenceUntilLost():
			early++
		case !s.anyoneElse(j, n, eligible):
			alone++
		default:
			keys = append(keys, LeaseKey{l.Node, l.Job, l.Rank})
		}
	}
	return keys, reason.New(reason.TasksNotLost, tasks, final, early, alone)
}

// anyoneElse says whether any of the nodes may take over from n what it runs of j.
func (s *rows) anyoneElse(j *work.Job, n *work.Node, eligible []string) bool {
	return slices.ContainsFunc(eligible, func(id string) bool {
		m, ok := s.Node(id)
		return ok && m.ID != n.ID && m.RosterSince != 0 && m.RosterSince <= n.RosterAcked && j.MayRunOn(m)
	})
}

// Losable is how many tasks a LoseNode with such a silence and such nodes to take over would declare lost, given its
// votes. It saves proposing one that would be refused.
func (v *View) Losable(node string, silent int64, eligible []string) int {
	n, ok := v.Node(node)
	if !ok || n.UnreachableSince == 0 {
		return 0
	}
	keys, _ := v.LossesOn(n, silent, eligible)
	return len(keys)
}
