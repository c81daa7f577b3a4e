package tables

import (
	"iter"
	"slices"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

type jobCheckpoint struct {
	job ident.Job
	id  ident.Checkpoint
}

type checkpointTables struct {
	rows  kernel.Table[ident.Checkpoint, *work.Checkpoint]
	byJob kernel.Index[jobCheckpoint]
}

func newCheckpointTables() (t checkpointTables) {
	t.rows = kernel.NewTable[ident.Checkpoint, *work.Checkpoint](recordCheckpoint, func(a, b ident.Checkpoint) bool { return a < b })
	t.byJob = kernel.NewIndex(func(a, b jobCheckpoint) bool { return a.job < b.job || a.job == b.job && a.id < b.id })
	return t
}

func (t *checkpointTables) freeze() checkpointTables {
	return checkpointTables{rows: t.rows.Freeze(), byJob: t.byJob.Freeze()}
}

func (s *State) PutCheckpoint(c *work.Checkpoint) {
	s.checkpoints.rows.Put(c.ID, c)
	s.checkpoints.byJob.Put(jobCheckpoint{c.Job, c.ID})
}

func (s *State) DropCheckpoint(c *work.Checkpoint) {
	s.checkpoints.rows.Delete(c.ID)
	s.checkpoints.byJob.Delete(jobCheckpoint{c.Job, c.ID})
}

// Checkpoint returns a checkpoint by its id.
func (s *rows) Checkpoint(id ident.Checkpoint) (*work.Checkpoint, bool) {
	return s.checkpoints.rows.Get(id)
}

// ResumePoints are the checkpoints from which the next attempt of a job may go on, best first: the newest ones of its own
// attempts that are known to be complete, and then the one that it was told to go on from. When a user chose that one,
// only what was saved after the choice comes before it.
func (v *View) ResumePoints(j *work.Job) []*work.Checkpoint {
	var points []*work.Checkpoint
	v.checkpoints.byJob.DescendFrom(jobCheckpoint{j.ID, ^ident.Checkpoint(0)}, func(k jobCheckpoint) bool {
		if k.job != j.ID || len(points) == work.MaxResumePoints {
			return false
		}
		if c, ok := v.Checkpoint(k.id); ok && c.Digest != "" && c.Attempt > j.ChosenAt {
			points = append(points, c)
		}
		return true
	})
	if c, ok := v.Checkpoint(j.ResumeFrom); ok && !slices.Contains(points, c) {
		points = append(points, c)
	}
	return points
}

// CheckpointsOf iterates the checkpoints of a job, oldest first.
func (s *rows) CheckpointsOf(job ident.Job) iter.Seq[*work.Checkpoint] {
	return func(yield func(*work.Checkpoint) bool) {
		s.checkpoints.byJob.AscendFrom(jobCheckpoint{job: job}, func(k jobCheckpoint) bool {
			if k.job != job {
				return false
			}
			c, _ := s.Checkpoint(k.id)
			return yield(c)
		})
	}
}
