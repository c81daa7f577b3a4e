package jobs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/jobspec"
	"github.com/mindcoordinator/mind/coordinator/jobview"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

// maxChangedLabels bounds the labels of one update: no job has more.
const maxChangedLabels = 64

// updateTries bounds how often an update is tried again that found the job changed by another one.
const updateTries = 5

// UpdateJob changes what a job asks for. The changed request is checked as one that is submitted, and faults of what does not change
// are not its.
func (s *Service) UpdateJob(ctx context.Context, req *v1.UpdateJobRequest) (*v1.UpdateJobResponse, error) {
	id, ok := ident.ParseJob(req.GetJobId())
	if !ok {
		return nil, call.NotFound("job", req.GetJobId())
	}
	for try := 1; ; try++ {
		result, err := s.update(ctx, id, req)
		switch {
		case err != nil:
			return nil, err
		case result.Refusal == nil:
			return &v1.UpdateJobResponse{Job: jobview.Of(s.state.View(), result.Job, false)}, nil
		case result.Refusal.Reason.Code() == reason.JobChanged && try < updateTries:
			continue
		}
		refused := call.Refused(result.Refusal)
		refused.Message = jobview.InWords(s.state.View(), refused.Message)
		return nil, refused
	}
}

func (s *Service) update(ctx context.Context, id ident.Job, req *v1.UpdateJobRequest) (jobverbs.ControlResult, error) {
	c := call.Of(ctx)
	j, err := c.Job(s.state.View(), req.GetJobId())
	if err != nil {
		return jobverbs.ControlResult{}, err
	}
	command := jobverbs.UpdateJob{Tenant: c.Tenant, Job: id, Was: jobverbs.SpecDigest(j.Spec), Actor: c.Actor()}
	spec, err := jobspec.Decode(j)
	if err != nil {
		return jobverbs.ControlResult{}, err
	}
	if n := len(req.GetLabels()); n > maxChangedLabels {
		return jobverbs.ControlResult{}, call.Bad("labels", "has %d labels; at most %d are allowed", n, maxChangedLabels)
	}
	if err := mayTakeAway("resource_config", req.GetTakenAway(), "retry_on"); err != nil {
		return jobverbs.ControlResult{}, err
	}
	command.Set, command.Said = changed(spec, req)
	if command.Said = call.Clip(command.Said, call.MaxReason); command.Set == 0 {
		return jobverbs.ControlResult{}, call.Bad("job", "says nothing to change: give name, labels, resource_config or scheduling_config")
	}
	if command.To, err = s.admission.Changed(ctx, spec, command.Set&jobverbs.SetShape == 0 && command.Set&jobverbs.SetQueue == 0 || j.Terminal()); err != nil {
		return jobverbs.ControlResult{}, err
	}
	return replica.Propose[jobverbs.ControlResult](ctx, s.state, command)
}

// changed changes a request, and says which fields of the job that changes, and how, in words.
func changed(spec *v1.SubmitJobRequest, req *v1.UpdateJobRequest) (set jobverbs.Fields, said string) {
	var all []string
	note := func(field jobverbs.Fields, format string, args ...any) {
		set |= field
		all = append(all, fmt.Sprintf(format, args...))
	}
	if req.Name != nil {
		spec.Name = req.GetName()
		note(jobverbs.SetName, "name %q", spec.GetName())
	}
	if len(req.GetLabels()) > 0 {
		spec.Labels = maps.Clone(spec.GetLabels())
		if spec.Labels == nil {
			spec.Labels = map[string]string{}
		}
		for _, k := range slices.Sorted(maps.Keys(req.GetLabels())) {
			if v := req.GetLabels()[k]; v != "" {
				spec.Labels[k] = v
				note(jobverbs.SetLabels, "label %s=%s", k, v)
			} else {
				delete(spec.Labels, k)
				note(jobverbs.SetLabels, "no label %s", k)
			}
		}
	}
	if resources := req.GetResourceConfig(); resources != nil {
		for _, field := range mergeResources(spec, resources, req.GetTakenAway()) {
			note(jobverbs.SetShape, "%s", field)
		}
	}
	if scheduling := req.GetSchedulingConfig(); scheduling != nil {
		if spec.SchedulingConfig == nil {
			spec.SchedulingConfig = &v1.SchedulingConfig{}
		}
		changeScheduling(spec, scheduling, note)
		if slices.Contains(req.GetTakenAway(), "retry_on") {
			spec.SchedulingConfig.RetryOn = nil
			note(jobverbs.SetRetry, "retry_on as by default")
		}
	}
	return set, strings.Join(all, ", ")
}

func changeScheduling(spec *v1.SubmitJobRequest, to *v1.SchedulingChange, note func(field jobverbs.Fields, format string, args ...any)) {
	s := spec.SchedulingConfig
	if to.Queue != nil {
		s.Queue = to.GetQueue()
		note(jobverbs.SetQueue, "queue %s", s.GetQueue())
	}
	if to.Priority != nil {
		s.Priority = proto.Int32(to.GetPriority())
		if t := spec.GetTrainingConfig(); t != nil {
			t.Priority = nil // it means the same, and may not differ
		}
		note(jobverbs.SetPriority, "priority %d", s.GetPriority())
	}
	if to.MaxRetries != nil {
		s.MaxRetries = proto.Int32(to.GetMaxRetries())
		if t := spec.GetTrainingConfig(); t != nil {
			t.MaxRetries = nil
		}
		note(jobverbs.SetRetry, "max_retries %d", s.GetMaxRetries())
	}
	if len(to.GetRetryOn()) > 0 {
		s.RetryOn = to.GetRetryOn()
		note(jobverbs.SetRetry, "retry_on %s", strings.Join(s.GetRetryOn(), " "))
	}
	if to.Restartable != nil {
		s.Restartable = proto.Bool(to.GetRestartable())
		note(jobverbs.SetRetry, "restartable %t", s.GetRestartable())
	}
	if to.Preemptible != nil {
		s.Preemptible = proto.Bool(to.GetPreemptible())
		note(jobverbs.SetPreemptible, "preemptible %t", s.GetPreemptible())
	}
	if to.MaxRuntimeSeconds != nil {
		s.MaxRuntimeSeconds = to.GetMaxRuntimeSeconds()
		if s.MaxRuntimeSeconds == 0 {
			s.NoticeBeforeLimitSeconds = nil // there is nothing to give notice of
		}
		note(jobverbs.SetLimit, "max_runtime_seconds %d", s.GetMaxRuntimeSeconds())
	}
	if to.NoticeBeforeLimitSeconds != nil {
		s.NoticeBeforeLimitSeconds = proto.Int32(to.GetNoticeBeforeLimitSeconds())
		note(jobverbs.SetLimit, "notice_before_limit_seconds %d", s.GetNoticeBeforeLimitSeconds())
	}
	if to.NotBefore != nil {
		s.NotBefore = to.GetNotBefore()
		note(jobverbs.SetNotBefore, "not_before %s", s.GetNotBefore().AsTime().Format("2006-01-02T15:04:05Z"))
	}
	s.AllowPendingCapacity = s.AllowPendingCapacity || to.GetAllowPendingCapacity()
}

// mayTakeAway refuses names that are of no field of a job's resources, and not among the others.
func mayTakeAway(field string, names []string, others ...string) error {
	for _, name := range names {
		if resourceFields.ByName(protoreflect.Name(name)) == nil && !slices.Contains(others, name) {
			return call.Bad(field, "has no field %s", call.Clip(name, 64))
		}
	}
	return nil
}

var resourceFields = (*v1.ResourceConfig)(nil).ProtoReflect().Descriptor().Fields()

// mergeResources changes the resources of a request, and lists the fields that it changed, with their values. Fields that are
// taken away are as if they had never been given.
func mergeResources(spec *v1.SubmitJobRequest, with *v1.ResourceConfig, away []string) (fields []string) {
	if spec.ResourceConfig == nil {
		spec.ResourceConfig = &v1.ResourceConfig{}
	}
	// A fraction instead of whole GPUs, or the other way round, replaces the fields that it excludes.
	switch {
	case with.GetGpuCount() > 0 && with.GetGpuFraction() == 0:
		spec.ResourceConfig.GpuFraction = 0
	case with.GetGpuFraction() > 0 && with.GetGpuCount() == 0:
		spec.ResourceConfig.GpuCount = 0
	}
	to := spec.ResourceConfig.ProtoReflect()
	with.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		to.Set(field, value)
		fields = append(fields, fmt.Sprintf("%s %v", field.Name(), value))
		return true
	})
	for _, name := range away {
		if field := resourceFields.ByName(protoreflect.Name(name)); field != nil && !with.ProtoReflect().Has(field) {
			to.Clear(field)
			fields = append(fields, "no "+name)
		}
	}
	slices.Sort(fields)
	return fields
}

// HoldJob keeps a job that waits from the scheduler.
func (s *Service) HoldJob(ctx context.Context, req *v1.HoldJobRequest) (*v1.HoldJobResponse, error) {
	j, err := s.control(ctx, req, req.GetJobId(), jobverbs.ControlJob{Action: work.ActionHold, Reason: req.GetReason()})
	return &v1.HoldJobResponse{Job: j}, err
}

// ReleaseJob ends what HoldJob began.
func (s *Service) ReleaseJob(ctx context.Context, req *v1.ReleaseJobRequest) (*v1.ReleaseJobResponse, error) {
	j, err := s.control(ctx, req, req.GetJobId(), jobverbs.ControlJob{Action: work.ActionRelease})
	return &v1.ReleaseJobResponse{Job: j}, err
}
