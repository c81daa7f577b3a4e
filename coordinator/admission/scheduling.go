package admission

import (
	"fmt"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

// schedulingOf reads when a job may run, for how long, and how often it is retried.
func schedulingOf(f *call.Faults, req *v1.SubmitJobRequest) jobverbs.NewJob {
	s, t := req.GetSchedulingConfig(), req.GetTrainingConfig()
	job := jobverbs.NewJob{Queue: s.GetQueue(), Priority: defaultPriority, Preemptible: s.GetPreemptible()}
	if job.Queue == "" {
		job.Queue = defaultQueue
	}
	if s == nil {
		s = &v1.SchedulingConfig{}
	}
	if priority := twice(f, "priority", s.Priority, t.GetPriority(), t != nil && t.Priority != nil); priority != nil {
		if *priority < 0 || *priority > 10 {
			f.Bad("scheduling_config.priority", "%d must be between 0 and 10 (10 runs first)", *priority)
		}
		job.Priority = uint8(*priority)
	}
	if retries := twice(f, "max_retries", s.MaxRetries, t.GetMaxRetries(), t != nil && t.MaxRetries != nil); retries != nil {
		if *retries < 0 || *retries > 1000 {
			f.Bad("scheduling_config.max_retries", "%d must be between 0 and 1000", *retries)
		}
		job.Retry.Max = uint16(*retries)
	}
	job.Retry.On = retryOn(f, s.GetRetryOn())
	if s.Restartable != nil && !s.GetRestartable() {
		job.Retry.Never = true
		if job.Retry.Max > 0 {
			f.Bad("scheduling_config.restartable", "is false, but max_retries is %d: a job that is not restartable has no retries", job.Retry.Max)
		}
	}
	for _, d := range []struct {
		name  string
		value int32
		least int32
		into  *int64
	}{
		{"max_runtime_seconds", s.GetMaxRuntimeSeconds(), 0, &job.MaxRuntime},
		{"lost_after_seconds", s.GetLostAfterSeconds(), 10, &job.LostAfter},
		{"give_up_after_seconds", s.GetGiveUpAfterSeconds(), 10, &job.GiveUpAfter},
		{"grace_period_seconds", s.GetGracePeriodSeconds(), 0, &job.Grace},
	} {
		if d.value != 0 && (d.value < d.least || d.value > maxSeconds) {
			f.Bad("scheduling_config."+d.name, "%d must be at least %d and at most %d", d.value, d.least, maxSeconds)
		}
		*d.into = int64(d.value) * int64(time.Second)
	}
	if s.GracePeriodSeconds != nil && *s.GracePeriodSeconds == 0 {
		job.Grace = -1 // Zero means the default, less means none.
	}
	noticeOf(f, s, &job)
	if s.GetNotBefore() != nil {
		at := s.GetNotBefore().AsTime()
		switch {
		case s.GetNotBefore().CheckValid() != nil:
			f.Bad("scheduling_config.not_before", "is not a time")
		case at.Year() > 2200:
			f.Bad("scheduling_config.not_before", "is too far in the future")
		default:
			job.NotBefore = max(0, at.UnixNano())
		}
	}
	job.Dependencies = dependenciesOf(f, s.GetDependencies())
	if s.GetArray() != nil {
		arrayOf(f, s.GetArray(), &job)
	}
	return job
}

// noticeOf reads how long before its time limit a job gets its notice.
func noticeOf(f *call.Faults, s *v1.SchedulingConfig, job *jobverbs.NewJob) {
	const name = "scheduling_config.notice_before_limit_seconds"
	switch notice := s.GetNoticeBeforeLimitSeconds(); {
	case s.NoticeBeforeLimitSeconds == nil:
	case s.GetMaxRuntimeSeconds() <= 0:
		f.Bad(name, "is given without max_runtime_seconds: there is no limit to tell the job of")
	case notice < 0 || notice >= s.GetMaxRuntimeSeconds():
		f.Bad(name, "%d must be at least 0 and less than max_runtime_seconds (%d)", notice, s.GetMaxRuntimeSeconds())
	case notice == 0:
		job.Notice = -1 // Zero means the default, less means none.
	default:
		job.Notice = int64(notice) * int64(time.Second)
	}
}

var conditions = map[string]work.Condition{"": work.AfterOK, "ok": work.AfterOK, "fail": work.AfterFail, "any": work.AfterAny}

func dependenciesOf(f *call.Faults, given []*v1.Dependency) []work.Dependency {
	if len(given) > work.MaxDependencies {
		f.Bad("scheduling_config.dependencies", "has %d entries; at most %d are allowed", len(given), work.MaxDependencies)
		return nil
	}
	var out []work.Dependency
	for i, d := range given {
		id, ok := ident.ParseJob(d.GetJobId())
		if !ok {
			f.Bad(fmt.Sprintf("scheduling_config.dependencies[%d].job_id", i), "%q is not a job id", call.Clip(d.GetJobId(), 64))
		}
		when, ok := conditions[d.GetCondition()]
		if !ok {
			f.Bad(fmt.Sprintf("scheduling_config.dependencies[%d].condition", i), "%q is not one of ok, fail, any", call.Clip(d.GetCondition(), 64))
		}
		out = append(out, work.Dependency{Job: id, When: when})
	}
	return out
}

func arrayOf(f *call.Faults, a *v1.ArraySpec, job *jobverbs.NewJob) {
	switch {
	case a.GetStart() < 0 || a.GetEnd() > ident.MaxElement:
		f.Bad("scheduling_config.array", "is from %d to %d: the numbers of elements must be between 0 and %d", a.GetStart(), a.GetEnd(), ident.MaxElement)
		return
	case a.GetStart() > a.GetEnd():
		f.Bad("scheduling_config.array", "starts at %d and ends at %d: the first number must not be above the last", a.GetStart(), a.GetEnd())
		return
	case a.GetMaxParallel() < 0:
		f.Bad("scheduling_config.array.max_parallel", "%d must not be negative (0: no limit)", a.GetMaxParallel())
		return
	}
	job.Array, job.MaxParallel = &jobverbs.NewArray{Start: uint32(a.GetStart()), End: uint32(a.GetEnd())}, uint32(a.GetMaxParallel())
}

// twice reconciles a value that ScaiMind published in training_config with the same value in scheduling_config.
func twice(f *call.Faults, name string, scheduling *int32, training int32, given bool) *int32 {
	switch {
	case !given:
		return scheduling
	case scheduling != nil && *scheduling != training:
		f.Bad("scheduling_config."+name, "is %d but training_config.%s is %d: give it only once", *scheduling, name, training)
		return nil
	}
	return &training
}

var retryCauses = map[string]work.RetryCause{
	"node_lost": work.RetryNodeLost, "gpu_fault": work.RetryGPUFault, "launch_failed": work.RetryLaunchFailed,
	"data_fetch": work.RetryDataFetch, "exit": work.RetryExit,
}

func retryOn(f *call.Faults, names []string) work.RetryCause {
	if len(names) == 0 {
		return work.RetryAll
	}
	var on work.RetryCause
	for _, name := range names {
		cause, ok := retryCauses[name]
		if !ok {
			f.Bad("scheduling_config.retry_on", "%q is not one of node_lost, gpu_fault, launch_failed, data_fetch, exit", name)
		}
		on |= cause
	}
	return on
}
