package tables

import (
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
)

// ResumePoints are the checkpoints from which the next attempt of a job may go on, best first. When a user chose one, only
// what was saved after the choice comes before it.
func (v *View) ResumePoints(j *work.Job) []*checkpoints.Checkpoint {
	return v.Tables.ResumePoints(j.ID, j.ChosenAt, j.ResumeFrom)
}

// HasArchive says whether the agent of a node has an archive.
func (s *rows) HasArchive(node string) bool {
	n, ok := s.Node(node)
	return ok && n.Archive
}

// Away says whether a node cannot be reached, or is not known.
func (s *rows) Away(node string) bool {
	n, ok := s.Node(node)
	return !ok || n.UnreachableSince != 0
}

// Gone says whether a node was declared lost, or is not known.
func (s *rows) Gone(node string) bool {
	n, ok := s.Node(node)
	return !ok || n.LostSince != 0
}

// Archivists lists the nodes that can be reached and have an archive, by id.
func (s *rows) Archivists() []string {
	var ids []string
	for n := range s.Nodes() {
		if n.Archive && n.UnreachableSince == 0 {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// CheckpointOrders lists what a node has to do with checkpoints, the most urgent first.
func (v *View) CheckpointOrders(node string) []checkpoints.Order {
	return v.OrdersOf(node, &v.rows)
}

// LeftByOthers says whether there is anything to remove from the archive that the node which put it there does not remove.
func (v *View) LeftByOthers() bool { return v.Tables.LeftByOthers(&v.rows) }
