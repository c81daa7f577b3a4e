package fsm

import (
	"iter"
	"slices"
)

const (
	recordCheckpoint = 45

	// MaxCheckpointsPerJob bounds what is remembered; the oldest go first.
	MaxCheckpointsPerJob = 1000
)

type jobCheckpoint struct {
	job JobID
	id  CheckpointID
}

type checkpointTables struct {
	rows  table[CheckpointID, *Checkpoint]
	byJob index[jobCheckpoint]
}

var checkpointDomain = domain{
	name:     "checkpoints",
	commands: []commandDef{defineCommand[DeleteCheckpoint]("DeleteCheckpoint")},
	records: []recordDef{
		defineRecords(recordCheckpoint, "checkpoint",
			func(s *state) *table[CheckpointID, *Checkpoint] { return &s.checkpoints.rows },
			func(s *state, c *Checkpoint) error { s.putCheckpoint(c); return nil }),
	},
	open: func(s *state) {
		s.checkpoints.rows = newTable[CheckpointID, *Checkpoint](recordCheckpoint, func(a, b CheckpointID) bool { return a < b })
		s.checkpoints.byJob = newIndex(func(a, b jobCheckpoint) bool { return a.job < b.job || a.job == b.job && a.id < b.id })
	},
	freeze: func(s, from *state) {
		s.checkpoints = checkpointTables{rows: from.checkpoints.rows.freeze(), byJob: from.checkpoints.byJob.freeze()}
	},
	check: checkCheckpoints,
}

func (s *state) putCheckpoint(c *Checkpoint) {
	s.checkpoints.rows.put(c.ID, c)
	s.checkpoints.byJob.put(jobCheckpoint{c.Job, c.ID})
}

func (s *state) dropCheckpoint(c *Checkpoint) {
	s.checkpoints.rows.delete(c.ID)
	s.checkpoints.byJob.delete(jobCheckpoint{c.Job, c.ID})
}

// register mints an id for a checkpoint and takes it in. One that was reported before keeps its id; one that was
// written over an earlier one takes its place.
func (tx *tx) register(c *Checkpoint) (CheckpointID, bool) {
	var oldest, replaced *Checkpoint
	n := 0
	for have := range tx.CheckpointsOf(c.Job) {
		n++
		if oldest == nil {
			oldest = have
		}
		if have.Path != c.Path || have.Node != c.Node {
			continue
		}
		if have.Attempt == c.Attempt && have.Digest == c.Digest && have.Step == c.Step {
			return have.ID, false
		}
		replaced = have
	}
	id, ok := tx.mint()
	if !ok {
		return 0, false
	}
	if replaced == nil && n >= MaxCheckpointsPerJob {
		replaced = oldest
	}
	if replaced != nil {
		tx.dropCheckpoint(replaced)
	}
	c.ID = CheckpointID(id)
	tx.putCheckpoint(c)
	tx.emit(Event{Topic: TopicCheckpoint, Tenant: c.Tenant, Job: c.Job, Attempt: c.Attempt, Checkpoint: c.ID, Nodes: []string{c.Node}})
	return c.ID, true
}

// Checkpoint returns a checkpoint by its id.
func (s *state) Checkpoint(id CheckpointID) (*Checkpoint, bool) { return s.checkpoints.rows.get(id) }

// MaxResumePoints bounds what ResumePoints returns of a job's own checkpoints.
const MaxResumePoints = 5

// ResumePoints are the checkpoints from which the next attempt of a job may go on, best first: the newest ones of its own
// attempts that are known to be complete, and then the one that it was told to go on from. When a user chose that one,
// only what was saved after the choice comes before it.
func (v *View) ResumePoints(j *Job) []*Checkpoint {
	var points []*Checkpoint
	v.checkpoints.byJob.tree.DescendLessOrEqual(jobCheckpoint{j.ID, ^CheckpointID(0)}, func(k jobCheckpoint) bool {
		if k.job != j.ID || len(points) == MaxResumePoints {
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
func (s *state) CheckpointsOf(job JobID) iter.Seq[*Checkpoint] {
	return func(yield func(*Checkpoint) bool) {
		s.checkpoints.byJob.tree.AscendGreaterOrEqual(jobCheckpoint{job: job}, func(k jobCheckpoint) bool {
			if k.job != job {
				return false
			}
			c, _ := s.Checkpoint(k.id)
			return yield(c)
		})
	}
}
