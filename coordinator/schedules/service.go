// Package schedules implements ScheduleService, and submits the jobs of schedules when they are due.
//
// Guarantees. A schedule runs once for each of its due times, whatever coordinator leads: the state checks that
// (fsm/work/schedules). For due times that passed without a leader, or while the machines were off, there is one run,
// for the newest of them. A job is checked when the schedule is put, and again at each run, as any submitted job.
//
// Not guaranteed: that the data tokens of the user who put the schedule are still valid at a run.
package schedules

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/cron"
	"github.com/mindcoordinator/mind/coordinator/jobspec"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/schedules"
	"github.com/mindcoordinator/mind/fsm/scheduleverbs"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

// State is the state of the cluster as this replica has it, and the way to change it.
type State interface {
	replica.Proposer
	View() *fsm.View
	// Read waits until the state has all writes that were acknowledged before the call, unless the call asked for
	// stale.
	Read(ctx context.Context) (*fsm.View, error)
}

// Admission decides which requests become jobs (package admission).
type Admission interface {
	Job(ctx context.Context, req *v1.SubmitJobRequest, key string) (jobverbs.NewJob, error)
}

// Service implements ScheduleService.
type Service struct {
	v1.UnimplementedScheduleServiceServer

	Config
}

// New makes a Service.
func New(c Config) *Service { return &Service{Config: c} }

// name matches names of schedules: they are used in paths and in commands.
var name = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

// ListSchedules lists the schedules of the caller's tenant.
func (s *Service) ListSchedules(ctx context.Context, _ *v1.ListSchedulesRequest) (*v1.ListSchedulesResponse, error) {
	v, err := s.State.Read(ctx)
	if err != nil {
		return nil, err
	}
	out := &v1.ListSchedulesResponse{}
	for row := range v.Schedules(call.Of(ctx).Tenant) {
		out.Schedules = append(out.Schedules, shown(row))
	}
	return out, nil
}

// GetSchedule shows a schedule with its job.
func (s *Service) GetSchedule(ctx context.Context, req *v1.GetScheduleRequest) (*v1.GetScheduleResponse, error) {
	v, err := s.State.Read(ctx)
	if err != nil {
		return nil, err
	}
	row, err := find(ctx, v, req.GetName())
	if err != nil {
		return nil, err
	}
	return &v1.GetScheduleResponse{Schedule: whole(row)}, nil
}

// find finds a schedule of the caller's tenant. Another tenant's is not found.
func find(ctx context.Context, v *fsm.View, name string) (*schedules.Schedule, error) {
	row, ok := v.Schedule(schedules.Key{Tenant: call.Of(ctx).Tenant, Name: name})
	if !ok {
		return nil, call.NotFound("schedule", name)
	}
	return row, nil
}

// PutSchedule makes a schedule, or replaces one.
func (s *Service) PutSchedule(ctx context.Context, req *v1.PutScheduleRequest) (*v1.PutScheduleResponse, error) {
	var f call.Faults
	c, by := scheduleverbs.PutSchedule{Name: req.GetName(), Cron: req.GetCron(), Zone: req.GetTimezone(), Paused: req.GetPaused()}, call.Of(ctx)
	if !name.MatchString(c.Name) {
		f.Bad("name", "has 1 to 63 lower-case letters, digits, dots, dashes or underscores, and begins and ends with a letter or digit")
	}
	if c.Zone == "" {
		c.Zone = "UTC"
	}
	times, bad := timesOf(c.Cron, c.Zone)
	if bad != nil {
		f.Add(bad)
	} else {
		c.Next = times.Next(time.Now()).UnixNano()
	}
	if c.Overlap = overlapOf(req.GetOverlap()); c.Overlap == 0 {
		f.Bad("overlap", "%.60q is not one of skip, allow and replace", req.GetOverlap())
	}
	if req.GetStartWithinSeconds() < 0 {
		f.Bad("start_within_seconds", "must not be negative; 0 starts a run however late it is")
	}
	c.StartWithin = int64(req.GetStartWithinSeconds()) * int64(time.Second)
	job := req.GetJob()
	if _, taken := job.GetLabels()[work.ScheduleLabel]; taken {
		f.Bad("job.labels", "%s is set to the name of the schedule by mind: choose another label", work.ScheduleLabel)
	}
	if job == nil {
		f.Bad("job", "is missing: give the job to submit, as in POST /v1/modules/scaimind/jobs")
	} else {
		made, err := s.Admission.Job(ctx, asRun(job, c.Name, time.Now()), "")
		f.Add(err)
		c.Credentials = made.Credentials
		if v := s.State.View(); made.Queue != "" {
			if _, there := v.Queue(made.Queue); !there {
				f.Bad("job.scheduling_config.queue", "%s", words.Of(reason.New(reason.NoQueueForJob, made.Queue, v.QueueNames())))
			}
		}
		for i, d := range made.Dependencies {
			if why := hopeless(s.State.View(), by.Tenant, d); why != "" {
				f.Bad(fmt.Sprintf("job.scheduling_config.dependencies[%d]", i), "%s", words.Of(why))
			}
		}
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	var err error
	if c.Job, err = jobspec.Encode(job); err != nil {
		return nil, call.Bad("job", "not encodable: %v", err)
	}
	if len(c.Job) > schedules.MaxJob {
		return nil, call.Bad("job", "has %d bytes; at most %d are allowed in a schedule: keep long scripts in files", len(c.Job), schedules.MaxJob)
	}
	c.Tenant, c.User, c.Actor, c.Note = by.Tenant, by.User, by.Actor(), c.Cron+" "+c.Zone
	row, err := s.propose(ctx, c)
	if err != nil {
		return nil, err
	}
	return &v1.PutScheduleResponse{Schedule: whole(row)}, nil
}

// hopeless returns why a dependency will never be met; empty: it may be, or is.
func hopeless(v *fsm.View, tenant string, d work.Dependency) reason.Reason {
	on, ok := v.Find(d.Job)
	switch {
	case !ok || on.Tenant != tenant:
		return reason.New(reason.NoDependency, d.Job)
	case d.Judge(on) != work.Unmeetable:
		return ""
	case d.When == work.AfterOK:
		return reason.New(reason.DependencyDidNotSucceed, d.Job, on.State)
	}
	return reason.New(reason.DependencyDidNotFail, d.Job, on.State)
}

// timesOf parses the due times of a schedule, or returns all faults.
func timesOf(expression, zone string) (*cron.Times, error) {
	var f call.Faults
	location, err := cron.Zone(zone)
	if err != nil {
		f.Bad("timezone", "%v", err)
		location = time.UTC
	}
	times, err := cron.Parse(expression, location)
	if err != nil {
		f.Bad("cron", "%.80q is not valid: %v", expression, err)
	}
	return times, f.Err()
}

func (s *Service) propose(ctx context.Context, c scheduleverbs.PutSchedule) (*schedules.Schedule, error) {
	result, err := replica.Propose[scheduleverbs.ScheduleResult](ctx, s.State, c)
	switch {
	case err != nil:
		return nil, err
	case result.Refusal != nil:
		return nil, call.Refused(result.Refusal)
	}
	return result.Schedule, nil
}

// DeleteSchedule deletes a schedule. Its jobs continue.
func (s *Service) DeleteSchedule(ctx context.Context, req *v1.DeleteScheduleRequest) (*v1.DeleteScheduleResponse, error) {
	by := call.Of(ctx)
	result, err := replica.Propose[scheduleverbs.ScheduleResult](ctx, s.State, scheduleverbs.DeleteSchedule{Tenant: by.Tenant, Name: req.GetName(), Actor: by.Actor()})
	switch {
	case err != nil:
		return nil, err
	case result.Refusal != nil:
		return nil, call.Refused(result.Refusal)
	}
	return &v1.DeleteScheduleResponse{}, nil
}

// PauseSchedule stops submitting jobs of a schedule.
func (s *Service) PauseSchedule(ctx context.Context, req *v1.PauseScheduleRequest) (*v1.PauseScheduleResponse, error) {
	row, err := s.pause(ctx, req.GetName(), true)
	if err != nil {
		return nil, err
	}
	return &v1.PauseScheduleResponse{Schedule: whole(row)}, nil
}

// ResumeSchedule continues a schedule at its next due time.
func (s *Service) ResumeSchedule(ctx context.Context, req *v1.ResumeScheduleRequest) (*v1.ResumeScheduleResponse, error) {
	row, err := s.pause(ctx, req.GetName(), false)
	if err != nil {
		return nil, err
	}
	return &v1.ResumeScheduleResponse{Schedule: whole(row)}, nil
}

// pause pauses or resumes a schedule. It fails if the schedule was changed between its read and its write.
func (s *Service) pause(ctx context.Context, name string, paused bool) (*schedules.Schedule, error) {
	v, err := s.State.Read(ctx)
	if err != nil {
		return nil, err
	}
	row, err := find(ctx, v, name)
	if err != nil || row.Paused == paused {
		return row, err
	}
	times, err := timesOf(row.Cron, row.Zone)
	if err != nil {
		return nil, err
	}
	c := scheduleverbs.PutSchedule{
		Tenant: row.Tenant, Name: row.Name, User: row.User, Cron: row.Cron, Zone: row.Zone, Job: row.Job, Credentials: row.Credentials,
		Overlap: row.Overlap, StartWithin: row.StartWithin, Paused: paused, Next: times.Next(time.Now()).UnixNano(),
		IfRevision: row.Revision, Actor: call.Of(ctx).Actor(), Note: "resumed",
	}
	if paused {
		c.Note = "paused"
	}
	return s.propose(ctx, c)
}

// RunSchedule submits the job of a schedule now.
func (s *Service) RunSchedule(ctx context.Context, req *v1.RunScheduleRequest) (*v1.RunScheduleResponse, error) {
	v, err := s.State.Read(ctx)
	if err != nil {
		return nil, err
	}
	row, err := find(ctx, v, req.GetName())
	if err != nil {
		return nil, err
	}
	job, err := s.job(ctx, row, time.Now())
	if err != nil {
		return nil, err
	}
	by := call.Of(ctx)
	if by.Key != "" {
		job.Key, job.Fingerprint = by.Key, jobspec.Fingerprint([]byte(row.Name), []byte("run of a schedule")...)
	}
	runs := scheduleverbs.RunSchedules{Runs: []scheduleverbs.Run{{Tenant: row.Tenant, Name: row.Name, Job: &job}}, Actor: by.Actor()}
	result, err := replica.Propose[scheduleverbs.RunsResult](ctx, s.State, runs)
	if err != nil {
		return nil, err
	}
	one := result.Results[0]
	if one.Refusal != nil {
		return nil, call.Refused(one.Refusal)
	}
	s.Ran(outcomes[one.Outcome])
	return &v1.RunScheduleResponse{JobId: one.Job.String()}, nil
}

// job returns the job of a run, in the name of the user who put the schedule.
func (s *Service) job(ctx context.Context, row *schedules.Schedule, at time.Time) (jobverbs.NewJob, error) {
	var request v1.SubmitJobRequest
	if err := proto.Unmarshal(row.Job, &request); err != nil {
		return jobverbs.NewJob{}, call.Errorf(codes.FailedPrecondition, "the job of schedule %s is not readable: put the schedule again", row.Name)
	}
	ctx = call.With(ctx, &call.Call{Tenant: row.Tenant, User: row.User, RequestID: requestOf(row.Name), UpToDate: true})
	return s.Admission.Job(ctx, asRun(&request, row.Name, at), "")
}

func requestOf(schedule string) string { return "schedule/" + schedule }

// asRun returns the request of a run for a due time, with the schedule in a label, and the schedule and the time in the
// environment.
func asRun(job *v1.SubmitJobRequest, schedule string, at time.Time) *v1.SubmitJobRequest {
	job = proto.CloneOf(job)
	if job.GetName() == "" {
		job.Name = schedule
	}
	if job.Labels == nil {
		job.Labels = map[string]string{}
	}
	job.Labels[work.ScheduleLabel] = schedule
	set := func(environment *map[string]string) {
		if *environment == nil {
			*environment = map[string]string{}
		}
		(*environment)["MIND_SCHEDULE"] = schedule
		(*environment)["MIND_SCHEDULED_AT"] = at.UTC().Format(time.RFC3339)
	}
	if job.CommandConfig != nil {
		set(&job.CommandConfig.Environment)
	}
	if job.TrainingConfig != nil {
		set(&job.TrainingConfig.Environment)
	}
	return job
}

func overlapOf(text string) schedules.Overlap {
	if text == "" {
		return schedules.Skip
	}
	for o, name := range overlaps {
		if strings.EqualFold(name, text) {
			return o
		}
	}
	return 0
}
