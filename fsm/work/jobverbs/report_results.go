package jobverbs

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
	"github.com/mindcoordinator/mind/fsm/work/results"
)

// register mints an id for a checkpoint and takes it in, and says whether that changed anything. One that was reported before
// keeps its id, and becomes a model if it is one now; one that was
// written over an earlier one takes its place, unless the archive has all of that one: a job would go on from it until the
// new one is DURABLE too.
func register(tx *lifecycle.Tx, c *checkpoints.Checkpoint) (ident.Checkpoint, bool) {
	var replaced []*checkpoints.Checkpoint
	n := 0
	for have := range tx.CheckpointsOf(c.Job) {
		n++
		if have.Path != c.Path || have.Node != c.Node {
			continue
		}
		if have.Attempt == c.Attempt && have.Digest == c.Digest && have.Step == c.Step {
			return have.ID, becomesModel(tx, have, c)
		}
		if !have.Durable() {
			replaced = append(replaced, have)
		}
	}
	id, ok := tx.Mint()
	if !ok {
		return 0, false
	}
	if len(replaced) == 0 && n >= checkpoints.MaxPerJob {
		replaced = append(replaced, leastWanted(tx, c.Job))
	}
	for _, old := range replaced {
		tx.Discard(old)
	}
	c.ID = ident.Checkpoint(id)
	c.State = v1.CheckpointState_LOCAL
	tx.Reconsider(c.Job)
	checkpoints.Put(&tx.Tables, c)
	tx.EmitCheckpoint(c, nil)
	return c.ID, true
}

// becomesModel says whether a checkpoint that was reported before is now said to be a model, and makes it one. A model stays one.
func becomesModel(tx *lifecycle.Tx, have, c *checkpoints.Checkpoint) bool {
	if !c.Model || have.Model || have.Expired() {
		return false
	}
	changed := *have
	changed.Model = true
	if c.Metrics != "" {
		changed.Metrics, changed.Score = c.Metrics, c.Score
	}
	tx.ChangeCheckpoint(&changed)
	tx.Reconsider(c.Job)
	return true
}

// leastWanted is the checkpoint of a job that goes when there are too many: the oldest that was given up, else the oldest.
func leastWanted(tx *lifecycle.Tx, job ident.Job) *checkpoints.Checkpoint {
	var least *checkpoints.Checkpoint
	rank := 0
	for c := range tx.CheckpointsOf(job) {
		r := 1
		switch {
		case c.Expired() && c.Left == 0:
			r = 4
		case c.Expired():
			r = 3
		case !c.Pinned && !c.Model && !c.Durable() && !tx.Needed(c.ID):
			r = 2
		}
		if r > rank {
			least, rank = c, r
		}
	}
	return least
}

// evaluated takes in the result of a benchmark that a live task reports; false: it says nothing new, or cannot be kept.
func (e *editor) evaluated(r *TaskReport, res *ReportResult) bool {
	tx, j := e.tx, e.job(r.Job)
	n, last := 0, uint64(0)
	for have := range tx.ResultsOf(j.ID) {
		n, last = n+1, max(last, have.Place)
	}
	old, known := tx.Result(j.ID, r.Benchmark)
	switch {
	case !j.Evaluation(), !known && n >= results.MaxPerJob, r.Benchmark == "", len(r.Benchmark) > results.MaxBenchmarkName,
		len(r.Metrics) > results.MaxMetrics, len(r.ErrorMessage) > results.MaxError, r.Samples < 0:
		res.Refused++
		return false
	case known && old.Token == j.Token && old.Rank == r.Rank && old.Metrics == r.Metrics && old.Samples == r.Samples && old.Error == r.ErrorMessage:
		return false
	}
	results.Put(&tx.Sheet, &results.EvaluationResult{
		Job: j.ID, Benchmark: r.Benchmark, Tenant: j.Tenant, Attempt: j.Attempt, Token: j.Token, Rank: r.Rank,
		Metrics: r.Metrics, Samples: r.Samples, Error: r.ErrorMessage, ReportedAt: tx.Now, Place: last + 1,
	})
	j = e.edit()
	tx.EmitJob(j, j.State)
	return true
}

// checkpoint registers a checkpoint of a live attempt.
func (e *editor) checkpoint(r *TaskReport, res *ReportResult) bool {
	tx, j := e.tx, e.job(r.Job)
	id, fresh := register(tx, &checkpoints.Checkpoint{
		Job: j.ID, Tenant: j.Tenant, Attempt: j.Attempt, Token: j.Token, Rank: r.Rank, Node: j.Tasks[r.Rank].Node,
		Step: r.Step, Path: r.Path, Digest: r.Digest, SizeBytes: r.SizeBytes, Metrics: r.Metrics, CreatedAt: tx.Now,
		Model: r.Model, Score: j.Retention.Score(r.Metrics),
	})
	if !fresh {
		return false
	}
	res.Checkpoints = append(res.Checkpoints, id)
	j = e.edit()
	if !r.Model {
		committed(tx, j)
	}
	if !r.Model {
		j.LastCheckpoint = id
	} else if last, there := tx.Checkpoint(j.LastCheckpoint); !there || last.Model {
		j.LastCheckpoint = tx.LastOf(j.ID) // The model was written over it, or it became the model.
	}
	j.Streak.Gained = true
	return true
}
