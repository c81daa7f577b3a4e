package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/mindcoordinator/mind/api/cursor"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/links"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
)

// maxBatch is how many jobs one SubmitJobs takes.
const maxBatch = 1000

// accepted is what a submit answers: the first answer, also when it is repeated.
func accepted(id fsm.JobID) *v1.SubmitJobResponse {
	return &v1.SubmitJobResponse{JobId: id.String(), Status: v1.JobStatus_PENDING, Message: "accepted"}
}

// SubmitJob runs on the leader only, like every write here: the interceptor brought it there.
func (s *server) SubmitJob(ctx context.Context, req *v1.SubmitJobRequest) (*v1.SubmitJobResponse, error) {
	job, err := s.accept(ctx, req, call.Of(ctx).Key)
	if err != nil {
		return nil, err
	}
	result, err := replica.Propose[fsm.SubmitJobsResult](ctx, s.replica, fsm.SubmitJobs{Jobs: []fsm.NewJob{job}, Actor: call.Of(ctx).Submitter()})
	if err != nil {
		return nil, err
	}
	if r := result.Results[0].Refusal; r != nil {
		return nil, r
	}
	out := accepted(result.Results[0].Job)
	out.EstimatedWaitSeconds = s.waits(ctx)(result.Results[0].Job)
	return out, nil
}

// accept validates a request and signs it with who asks.
func (s *server) accept(ctx context.Context, req *v1.SubmitJobRequest, key string) (fsm.NewJob, error) {
	c := call.Of(ctx)
	var f call.Faults
	f.Add(reservedForEvaluations(req))
	job, err := newJob(req, &s.capacity)
	f.Add(err)
	if wrong := s.checkRoom(ctx, req, &job); wrong != nil && (f.Count() > 0 || !s.acceptedBefore(c.Tenant, key, &job)) {
		f.Add(wrong)
	}
	if !f.Below("training_config") { // else it may not be known which launcher is meant
		f.Add(s.checkLaunch(req))
	}
	if err := f.Err(); err != nil {
		return job, err
	}
	c.Sign(&job, key)
	job.Credentials, err = s.credentials(c, req)
	return job, err
}

// acceptedBefore says whether a job was accepted under the same key. It is answered as it was then, whatever has become of the
// cluster since. The keys that gateways make live for one request, and are not looked for.
func (s *server) acceptedBefore(tenant, key string, job *fsm.NewJob) bool {
	if strings.HasPrefix(key, status.AutoKeyPrefix) {
		return false
	}
	_, ok := s.replica.View().SubmittedWith(tenant, key, job.Fingerprint)
	return ok
}

// SubmitJobs takes what it can of a batch, in one entry where that is large enough; each job has its own result.
func (s *server) SubmitJobs(ctx context.Context, req *v1.SubmitJobsRequest) (*v1.SubmitJobsResponse, error) {
	c := call.Of(ctx)
	switch {
	case len(req.GetJobs()) == 0:
		return nil, call.Bad("jobs", "is empty: send at least one job")
	case len(req.GetJobs()) > maxBatch:
		return nil, call.Bad("jobs", "has %d jobs; at most %d are taken at a time", len(req.GetJobs()), maxBatch)
	case len(req.GetIdempotencyKeys()) != 0 && len(req.GetIdempotencyKeys()) != len(req.GetJobs()):
		return nil, call.Bad("idempotency_keys", "has %d keys for %d jobs: give one for each job, or none", len(req.GetIdempotencyKeys()), len(req.GetJobs()))
	}
	if n := len(req.GetRequestIds()); n != 0 && n != len(req.GetJobs()) {
		return nil, call.Bad("request_ids", "has %d ids for %d jobs: give one for each job, or none", n, len(req.GetJobs()))
	}
	results := make([]*v1.SubmitJobResult, len(req.GetJobs()))
	var (
		part  batch
		first error
	)
	sent := 0
	flush := func() {
		if len(part.jobs) == 0 {
			return
		}
		if err := s.submitPart(ctx, part, results); err != nil {
			if sent == 0 && first == nil {
				first = err
			}
			for _, i := range part.places {
				results[i] = resultOf(err)
			}
		} else {
			sent++
		}
		part = batch{}
	}
	for i, one := range req.GetJobs() {
		key := ""
		switch {
		case len(req.GetIdempotencyKeys()) > 0 && req.GetIdempotencyKeys()[i] != "":
			key = req.GetIdempotencyKeys()[i]
		case c.Key != "":
			key = fmt.Sprintf("%s/%d", c.Key, i)
		}
		job, err := s.accept(ctx, one, key)
		if len(req.GetRequestIds()) > 0 {
			job.Request = req.GetRequestIds()[i]
		}
		if len(key) > call.MaxKey {
			err = call.Bad("idempotency_keys", "a key takes at most %d bytes", call.MaxKey)
		}
		if err != nil {
			results[i] = resultOf(err)
			continue
		}
		if part.bytes += len(job.Spec) + len(job.Credentials) + jobOverhead; part.bytes > s.config.Limits.EntryBytes && len(part.jobs) > 0 {
			flush()
			part.bytes = len(job.Spec) + len(job.Credentials) + jobOverhead
		}
		part.jobs, part.places = append(part.jobs, job), append(part.places, i)
	}
	flush()
	// When nothing at all went through, the call as a whole failed, and may be repeated as a whole.
	if first != nil && sent == 0 {
		return nil, first
	}
	return &v1.SubmitJobsResponse{Results: results}, nil
}

// jobOverhead is about what a job adds to an entry beside its spec.
const jobOverhead = 256

// batch is a part of a SubmitJobs that travels in one entry; places are the positions of its jobs in the request.
type batch struct {
	jobs   []fsm.NewJob
	places []int
	bytes  int
}

func (s *server) submitPart(ctx context.Context, part batch, results []*v1.SubmitJobResult) error {
	answer, err := replica.Propose[fsm.SubmitJobsResult](ctx, s.replica, fsm.SubmitJobs{Jobs: part.jobs, Actor: call.Of(ctx).Submitter()})
	if err != nil {
		return err
	}
	wait := s.waits(ctx)
	for n, r := range answer.Results {
		if r.Refusal != nil {
			results[part.places[n]] = resultOf(r.Refusal)
		} else {
			job := accepted(r.Job)
			job.EstimatedWaitSeconds = wait(r.Job)
			results[part.places[n]] = &v1.SubmitJobResult{Job: job}
		}
	}
	return nil
}

func resultOf(err error) *v1.SubmitJobResult {
	code, message, reason := codes.Internal, err.Error(), ""
	var f *call.Failure
	if errors.As(call.ToStatus(err), &f) {
		code, message = f.Code, f.Message
		if f.Outcome == status.QuotaExceeded {
			reason = f.Outcome
		}
	}
	return &v1.SubmitJobResult{Code: int32(code), Message: message, Reason: reason}
}

// job finds a job of the caller's tenant. Another tenant's does not exist.
func job(c *call.Call, v *fsm.View, text string) (*fsm.Job, error) {
	id, ok := fsm.ParseJobID(text)
	if ok {
		if j, ok := v.Job(id); ok && j.Tenant == c.Tenant {
			return j, nil
		}
	}
	return nil, call.NotFound("job", text)
}

// GetJob answers from this replica.
func (s *server) GetJob(ctx context.Context, req *v1.GetJobRequest) (*v1.GetJobResponse, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	j, err := job(call.Of(ctx), v, req.GetJobId())
	if err != nil {
		return nil, err
	}
	out := jobView(v, j, true)
	if at, ok := startOf(s.forecastFor(ctx, v, j), j); ok {
		out.EstimatedStartAt = timestamppb.New(at)
	}
	return &v1.GetJobResponse{Job: out}, nil
}

// CancelJob stops a job for good.
func (s *server) CancelJob(ctx context.Context, req *v1.CancelJobRequest) (*v1.CancelJobResponse, error) {
	if req.GetVouch() {
		if err := s.mayVouch(call.Of(ctx).Tenant, req.GetJobId()); err != nil {
			return nil, err
		}
	}
	j, err := s.control(ctx, req, req.GetJobId(), fsm.ControlJob{Action: fsm.ActionCancel, Reason: req.GetReason(), Vouch: req.GetVouch()})
	return &v1.CancelJobResponse{Job: j}, err
}

// mayVouch refuses a word that is known to be wrong: a node that renews its leases through its peers is alive, and so are
// its tasks.
func (s *server) mayVouch(tenant, id string) error {
	v := s.replica.View()
	key, ok := fsm.ParseJobID(id)
	j, there := v.Job(key)
	if !ok || !there || j.Tenant != tenant {
		return nil // control says so
	}
	for _, n := range silentTasks(v, j) {
		if s.sessions.RenewsThroughPeers(n.ID) {
			return call.Errorf(codes.FailedPrecondition, "node %s is cut off but alive: its leases are renewed through other nodes. Stop its agent and its tasks first", n.ID)
		}
	}
	return nil
}

// PauseJob stops a job so that it can be resumed.
func (s *server) PauseJob(ctx context.Context, req *v1.PauseJobRequest) (*v1.PauseJobResponse, error) {
	save := req.SaveCheckpoint == nil || *req.SaveCheckpoint
	j, err := s.control(ctx, req, req.GetJobId(), fsm.ControlJob{Action: fsm.ActionPause, SaveCheckpoint: save})
	return &v1.PauseJobResponse{Job: j}, err
}

// ResumeJob puts a paused job back into its queue.
func (s *server) ResumeJob(ctx context.Context, req *v1.ResumeJobRequest) (*v1.ResumeJobResponse, error) {
	checkpoint, err := checkpointID(req.GetCheckpointId())
	if err != nil {
		return nil, err
	}
	j, err := s.control(ctx, req, req.GetJobId(), fsm.ControlJob{Action: fsm.ActionResume, Checkpoint: checkpoint})
	return &v1.ResumeJobResponse{Job: j}, err
}

// RetryJob opens a new attempt of a job that is over, with other resources when asked.
func (s *server) RetryJob(ctx context.Context, req *v1.RetryJobRequest) (*v1.RetryJobResponse, error) {
	checkpoint, err := checkpointID(req.GetCheckpointId())
	if err != nil {
		return nil, err
	}
	command := fsm.ControlJob{Action: fsm.ActionRetry, Checkpoint: checkpoint}
	if req.GetModifyResources() != nil {
		if command.Spec, command.Shape, err = s.reshape(ctx, req); err != nil {
			return nil, err
		}
	}
	j, err := s.control(ctx, req, req.GetJobId(), command)
	return &v1.RetryJobResponse{Job: j}, err
}

// reshape puts other resources into the request of a job.
func (s *server) reshape(ctx context.Context, req *v1.RetryJobRequest) ([]byte, *fsm.Shape, error) {
	j, err := job(call.Of(ctx), s.replica.View(), req.GetJobId())
	if err != nil {
		return nil, nil, err
	}
	var spec v1.SubmitJobRequest
	if err := proto.Unmarshal(j.Spec, &spec); err != nil {
		return nil, nil, fmt.Errorf("reading the request of job %s: %w", j.ID, err)
	}
	if spec.ResourceConfig == nil {
		spec.ResourceConfig = &v1.ResourceConfig{}
	}
	to := spec.ResourceConfig.ProtoReflect()
	change := req.GetModifyResources()
	// A share instead of whole GPUs, or the other way round, replaces what it excludes.
	switch {
	case change.GetGpuCount() > 0 && change.GetGpuFraction() == 0:
		spec.ResourceConfig.GpuFraction = 0
	case change.GetGpuFraction() > 0 && change.GetGpuCount() == 0:
		spec.ResourceConfig.GpuCount = 0
	}
	change.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		to.Set(field, value)
		return true
	})
	var f call.Faults
	changed := fsm.NewJob{Queue: j.Queue, Shape: shapeOf(&f, &spec, &s.capacity)}
	if j.Terminal() { // else it is refused anyway, or was retried under this key before
		f.Add(s.checkRoom(ctx, &spec, &changed))
	}
	if err := f.Err(); err != nil {
		return nil, nil, err
	}
	if changed.Spec, err = deterministic.Marshal(&spec); err != nil {
		return nil, nil, call.Bad("modify_resources", "not encodable: %v", err)
	}
	if len(changed.Spec) > maxSpecBytes {
		return nil, nil, call.Bad("modify_resources", "makes the request %d bytes; at most %d are taken", len(changed.Spec), maxSpecBytes)
	}
	return changed.Spec, &changed.Shape, nil
}

func checkpointID(text string) (fsm.CheckpointID, error) {
	if text == "" {
		return 0, nil
	}
	id, ok := fsm.ParseCheckpointID(text)
	if !ok {
		return 0, call.Bad("checkpoint_id", "%q is not a checkpoint id", text)
	}
	return id, nil
}

// control carries out a user's will about a job of the caller's tenant.
func (s *server) control(ctx context.Context, req proto.Message, text string, command fsm.ControlJob) (*v1.Job, error) {
	c := call.Of(ctx)
	id, ok := fsm.ParseJobID(text)
	if !ok {
		return nil, call.NotFound("job", text)
	}
	command.Tenant, command.Job, command.Key, command.Actor = c.Tenant, id, c.Key, c.Actor()
	if len(command.Reason) > maxReason {
		return nil, call.Bad("reason", "takes at most %d bytes", maxReason)
	}
	if c.Key != "" {
		raw, err := deterministic.Marshal(req)
		if err != nil {
			return nil, fmt.Errorf("reading the request: %w", err)
		}
		// The action is part of what was asked: a key of a cancel is no key of a pause.
		command.Fingerprint = xxhash.Sum64(append(raw, byte(command.Action)))
	}
	if command.Action == fsm.ActionResume || command.Action == fsm.ActionRetry {
		var err error
		if command.Credentials, err = s.renewed(c, id); err != nil {
			return nil, err
		}
	}
	result, err := replica.Propose[fsm.ControlResult](ctx, s.replica, command)
	switch {
	case err != nil:
		return nil, err
	case result.Refusal != nil:
		said := *result.Refusal
		said.Message = inWords(s.replica.View(), said.Message)
		return nil, &said
	case result.Job == nil:
		return nil, call.NotFound("job", text)
	}
	return jobView(s.replica.View(), result.Job, false), nil
}

const maxReason = 1024

// ExplainJob says why a job is where it is.
func (s *server) ExplainJob(ctx context.Context, req *v1.ExplainJobRequest) (*v1.ExplainJobResponse, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	j, err := job(call.Of(ctx), v, req.GetJobId())
	if err != nil {
		return nil, err
	}
	seen := jobView(v, j, true)
	out := &v1.ExplainJobResponse{JobId: seen.JobId, State: j.State, Status: seen.Status, Reason: seen.Reason, QueuePosition: seen.QueuePosition}
	if j.State == v1.JobState_QUEUED {
		out.Details = append(explainStart(s.forecastFor(ctx, v, j), j), explain(v, j)...)
	}
	if j.Live() {
		out.Details = append(explainTransfers(j), explainLive(v, j)...)
	}
	out.Details = append(out.Details, explainSilence(v, j)...)
	return out, nil
}

// ListCheckpoints lists the checkpoints of a job, newest first.
func (s *server) ListCheckpoints(ctx context.Context, req *v1.ListCheckpointsRequest) (*v1.ListCheckpointsResponse, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	j, err := job(call.Of(ctx), v, req.GetJobId())
	if err != nil {
		return nil, err
	}
	out := &v1.ListCheckpointsResponse{}
	for checkpoint := range v.CheckpointsOf(j.ID) {
		out.Checkpoints = append(out.Checkpoints, checkpointView(checkpoint))
	}
	return out, nil
}

// StreamJobLogs, StreamJobMetrics and GetJobMetrics fetch from the agents what tasks wrote.
func (s *server) StreamJobLogs(req *v1.StreamJobLogsRequest, stream v1.JobService_StreamJobLogsServer) error {
	id, err := s.streamed(stream.Context(), req.GetJobId(), req.GetCursor())
	if err != nil {
		return err
	}
	return s.tasks().logs(stream.Context(), id, req, stream.Send)
}

// StreamJobMetrics streams the lines of the metrics file.
func (s *server) StreamJobMetrics(req *v1.StreamJobMetricsRequest, stream v1.JobService_StreamJobMetricsServer) error {
	id, err := s.streamed(stream.Context(), req.GetJobId(), req.GetCursor())
	if err != nil {
		return err
	}
	return s.tasks().metrics(stream.Context(), id, req, stream.Send)
}

// GetJobMetrics merges the metrics of the newest attempt.
func (s *server) GetJobMetrics(ctx context.Context, req *v1.GetJobMetricsRequest) (*v1.GetJobMetricsResponse, error) {
	id, err := s.streamed(ctx, req.GetJobId(), "")
	if err != nil {
		return nil, err
	}
	metrics, err := s.tasks().latestMetrics(ctx, id)
	if err != nil {
		return nil, err
	}
	out := &v1.GetJobMetricsResponse{JobId: req.GetJobId(), Metrics: metrics}
	if j, ok := s.replica.View().Job(id); ok && j.Progress != (fsm.Progress{}) {
		out.Progress = &v1.JobProgress{Step: j.Progress.Step, TotalSteps: j.Progress.Total}
	}
	return out, nil
}

// streamed finds the job whose output is asked for. A cursor of an attempt that it has not had is another job's: whoever went on
// there would wait for it, and miss all that comes before.
func (s *server) streamed(ctx context.Context, text, at string) (fsm.JobID, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return 0, err
	}
	j, err := job(call.Of(ctx), v, text)
	if err != nil {
		return 0, err
	}
	c, err := cursor.ParseLog(at)
	switch {
	case err != nil:
		return 0, call.Bad("cursor", "%s", err)
	case c.Attempt > max(1, j.Attempt) && !call.Of(ctx).Stale:
		return 0, call.Bad("cursor", "%.60q is of attempt %d, and job %s has had %d: send back the id of the last event that was seen of it", at, c.Attempt, j.ID, j.Attempt)
	}
	return j.ID, nil
}

// tasks is the way to what tasks write.
func (s *server) tasks() *taskStreams {
	return &taskStreams{agents: agentDialer{s.agents}, archive: s.archive, log: s.log, view: s.replica.View, changed: s.replica.Newer}
}

// agentDialer reaches agents over the kept connections.
type agentDialer struct{ links *links.Links }

func (d agentDialer) tasks(addr string) (v1.TaskServiceClient, error) {
	conn, err := d.links.To(addr)
	if err != nil {
		return nil, err
	}
	return v1.NewTaskServiceClient(conn), nil
}
