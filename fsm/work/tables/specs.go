package tables

import (
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/bounds"
)

// listSpec lists the jobs whose spec will be dropped, by their end.
func (s *State) listSpec(old, j *work.Job) {
	switch was, is := old.SpecGoes(), j.SpecGoes(); {
	case is && !was:
		s.jobs.specs.Put(finishedJob{j.FinishedAt, j.ID})
	case was && !is:
		s.jobs.specs.Delete(finishedJob{old.FinishedAt, old.ID})
	}
}

// NextSpec is the job whose spec is dropped next, and when; nil: there is none, or the level does not have that.
func (s *rows) NextSpec() (j *work.Job, at int64) {
	f, ok := s.jobs.specs.Min()
	if !ok || !bounds.Gate.Open(s.meta.Level) {
		return nil, 0
	}
	j, _ = s.Job(f.id)
	p := s.Policy()
	return j, f.at + p.KeptSpecs()
}
