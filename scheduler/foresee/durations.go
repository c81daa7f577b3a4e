package foresee

import (
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler/predict"
)

const (
	// samplesUsed is the number of earlier jobs that an estimate uses, samplesRead the number that it reads to find
	// them. It uses the newest ones, because jobs change as their users work on them.
	samplesUsed = 15
	samplesRead = 200
	// progressFrom says after which part of its steps (1/20) a job's own progress is used. Earlier, the startup time
	// would distort the time of a step.
	progressFrom = 20
)

// durations estimates how long jobs take, from their own tenant's jobs only:
//   - from the job's progress, after some of its steps, in its first attempt,
//   - from jobs that succeeded in one attempt and have the same needs and the same name, except for a number: the
//     median of those that took longer than this job has run,
//   - from its limit, max_runtime_seconds, which also bounds the other two estimates.
//
// The duration of a job without any of these is unknown.
type durations struct {
	view  View
	known map[sampleKey][]int64
}

type sampleKey struct {
	stem  string
	shape work.Shape
}

// whole estimates how long a job takes from its start.
func (d *durations) whole(j *work.Job) (int64, bool) { return d.beyond(j, 0) }

// beyond estimates how long a job takes from its start, if it has already run for some time.
func (d *durations) beyond(j *work.Job, ran int64) (int64, bool) {
	took, known := predict.MedianBeyond(d.samples(j), ran)
	switch {
	case known && j.MaxRuntime > 0:
		return min(took, j.MaxRuntime), true
	case known:
		return took, true
	case j.MaxRuntime > ran:
		return j.MaxRuntime, true
	}
	return 0, false
}

// end estimates when a job releases its resources. The result is later than now.
func (d *durations) end(j *work.Job, now int64) (int64, bool) {
	if j.Stop != v1.StopReason_UNSPECIFIED {
		return now + max(j.StopGrace, 1), true
	}
	if j.StartedAt == 0 || j.StartedAt > now {
		took, ok := d.whole(j)
		return now + took, ok
	}
	if at, ok := byProgress(j); ok && at > now {
		if j.MaxRuntime > 0 {
			at = min(at, max(j.StartedAt+j.MaxRuntime, now+1))
		}
		return at, true
	}
	took, ok := d.beyond(j, now-j.StartedAt)
	return max(j.StartedAt+took, now+1), ok
}

// byProgress extrapolates the end of a job from the steps that it has done since it started. It cannot do so for a job
// that resumed from a checkpoint, because an earlier attempt did some of the steps.
func byProgress(j *work.Job) (int64, bool) {
	p, took := j.Progress, j.UpdatedAt-j.StartedAt
	if j.Attempt != 1 || j.ResumeFrom != 0 || took <= 0 || p.Step <= 0 || p.Step >= p.Total || p.Step < p.Total/progressFrom {
		return 0, false
	}
	return j.StartedAt + int64(float64(took)/float64(p.Step)*float64(p.Total)), true
}

// samples returns how long similar jobs took, shortest first.
func (d *durations) samples(j *work.Job) []int64 {
	key := sampleKey{work.Stem(j.Name), j.Shape}
	if s, ok := d.known[key]; ok {
		return s
	}
	var samples []int64
	read := 0
	for like := range d.view.RanLike(j.Tenant, j.Name) {
		if read++; read > samplesRead || len(samples) == samplesUsed {
			break
		}
		if like.Shape == j.Shape {
			samples = append(samples, like.FinishedAt-like.StartedAt)
		}
	}
	slices.Sort(samples)
	d.known[key] = samples
	return samples
}
