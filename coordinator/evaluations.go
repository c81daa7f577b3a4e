package coordinator

import (
	"context"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
)

// An evaluation is a job like any other, with the label type=evaluation: it waits, runs, fails and is retried as they are. This
// file adds what makes it one: what is scored, and what came of it.

// SubmitEvaluation submits the job that scores a model.
func (s *server) SubmitEvaluation(ctx context.Context, req *v1.SubmitEvaluationRequest) (*v1.SubmitEvaluationResponse, error) {
	c := call.Of(ctx)
	if err := checkEvaluation(req.GetEvaluationConfig()); err != nil {
		return nil, err
	}
	raw, err := deterministic.Marshal(req)
	if err != nil {
		return nil, call.Bad("request", "not encodable: %v", err)
	}
	// The fingerprint is of what was asked, not of what was found: another checkpoint may be the newest when it is repeated. An
	// evaluation's key is no job's.
	fingerprint := xxhash.Sum64(append(raw, "evaluation"...))
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	spec, job, err := s.evaluationJob(ctx, v, req)
	if err != nil {
		// What was accepted once is answered as it was, whatever has become of the model and the cluster since.
		if first, ok := v.SubmittedWith(c.Tenant, c.Key, fingerprint); ok {
			return acceptedEvaluation(first), nil
		}
		return nil, err
	}
	if err := s.checkLaunch(spec); err != nil {
		return nil, err
	}
	if job.Credentials, err = s.credentials(c, spec); err != nil {
		return nil, err
	}
	c.Sign(&job, c.Key)
	job.Fingerprint = fingerprint
	result, err := replica.Propose[fsm.SubmitJobsResult](ctx, s.replica, fsm.SubmitJobs{Jobs: []fsm.NewJob{job}, Actor: call.Of(ctx).Submitter()})
	if err != nil {
		return nil, err
	}
	if r := result.Results[0].Refusal; r != nil {
		return nil, r
	}
	out := acceptedEvaluation(result.Results[0].Job)
	out.EstimatedWaitSeconds = s.waits(ctx)(result.Results[0].Job)
	return out, nil
}

// evaluationJob makes the job, and its request.
func (s *server) evaluationJob(ctx context.Context, v *fsm.View, req *v1.SubmitEvaluationRequest) (*v1.SubmitJobRequest, fsm.NewJob, error) {
	spec, err := evaluationSpec(v, call.Of(ctx).Tenant, req)
	if err != nil {
		return nil, fsm.NewJob{}, err
	}
	job, err := newJob(spec, &s.capacity)
	if err != nil {
		return nil, job, err
	}
	return spec, job, s.checkRoom(ctx, spec, &job)
}

func acceptedEvaluation(id fsm.JobID) *v1.SubmitEvaluationResponse {
	return &v1.SubmitEvaluationResponse{EvaluationId: id.EvaluationID(), Status: v1.JobStatus_PENDING, Message: "accepted; its workload is job " + id.String()}
}

// evaluationSpec makes the request of the job. It pins the checkpoint that is scored, so that it stays the same when the job that
// wrote it goes on.
func evaluationSpec(v *fsm.View, tenant string, req *v1.SubmitEvaluationRequest) (*v1.SubmitJobRequest, error) {
	config := proto.CloneOf(req.GetEvaluationConfig())
	if err := pinModel(v, tenant, config); err != nil {
		return nil, err
	}
	labels := maps.Clone(req.GetLabels())
	if kind, given := labels[fsm.EvaluationLabel]; given && kind != fsm.EvaluationValue {
		return nil, call.Bad("labels", "%s is set to %q by mind: choose another name", fsm.EvaluationLabel, fsm.EvaluationValue)
	}
	if labels == nil {
		labels = map[string]string{}
	}
	labels[fsm.EvaluationLabel] = fsm.EvaluationValue
	spec := &v1.SubmitJobRequest{
		Name: req.GetName(), EvaluationConfig: config, ResourceConfig: req.GetResourceConfig(), SchedulingConfig: req.GetSchedulingConfig(), Labels: labels,
	}
	if spec.ResourceConfig == nil {
		spec.ResourceConfig = &v1.ResourceConfig{GpuCount: 1}
	}
	if spec.Name == "" {
		spec.Name = call.Clip("evaluation of "+scored(config), maxName)
	}
	return spec, nil
}

// scored names what an evaluation scores.
func scored(config *v1.EvaluationConfig) string {
	switch {
	case config.GetJobId() != "" && config.GetCheckpointId() != "":
		return config.GetJobId() + " at " + config.GetCheckpointId()
	case config.GetJobId() != "":
		return config.GetJobId()
	}
	return config.GetModelUri()
}

// pinModel finds what is to be scored, and writes down which checkpoint that is.
func pinModel(v *fsm.View, tenant string, config *v1.EvaluationConfig) error {
	if config.GetJobId() == "" {
		return nil
	}
	id, ok := fsm.ParseJobID(config.GetJobId())
	j, known := v.Job(id)
	if !ok || !known || j.Tenant != tenant {
		return call.NotFound("job", config.GetJobId())
	}
	var newest *fsm.Checkpoint
	for c := range v.CheckpointsOf(id) {
		newest = c
	}
	if j.State != v1.JobState_SUCCEEDED && newest == nil {
		return call.Errorf(codes.FailedPrecondition, "job %s, which is %s, has nothing to score yet: it must succeed, or register a checkpoint", id, statusOf(v, j))
	}
	switch {
	case config.GetCheckpointId() != "":
		at, ok := fsm.ParseCheckpointID(config.GetCheckpointId())
		c, known := v.Checkpoint(at)
		if !ok || !known || c.Tenant != tenant {
			return call.NotFound("checkpoint", config.GetCheckpointId())
		}
		if c.Job != id {
			return call.Bad("checkpoint_id", "%s is a checkpoint of %s, not of %s", at, c.Job, id)
		}
	case config.GetModelUri() != "":
	case newest == nil:
		return call.Errorf(codes.FailedPrecondition, "job %s registered no checkpoint, so it is not known where its model is: say it in model_uri", id)
	default:
		config.CheckpointId = newest.ID.String()
	}
	return nil
}

// evaluation finds one of the caller's tenant. Another tenant's does not exist.
func evaluation(c *call.Call, v *fsm.View, text string) (*fsm.Job, error) {
	if id, ok := fsm.ParseEvaluationID(text); ok {
		if j, ok := v.Job(id); ok && j.Tenant == c.Tenant && j.Evaluation() {
			return j, nil
		}
	}
	return nil, call.NotFound("evaluation", text)
}

// GetEvaluation answers from this replica.
func (s *server) GetEvaluation(ctx context.Context, req *v1.GetEvaluationRequest) (*v1.GetEvaluationResponse, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	j, err := evaluation(call.Of(ctx), v, req.GetEvaluationId())
	if err != nil {
		return nil, err
	}
	return &v1.GetEvaluationResponse{Evaluation: evaluationView(v, j)}, nil
}

// ListEvaluations lists those of the caller's tenant, newest first. It is the list of jobs with the label type=evaluation.
func (s *server) ListEvaluations(ctx context.Context, req *v1.ListEvaluationsRequest) (*v1.ListEvaluationsResponse, error) {
	labels := []string{fsm.EvaluationLabel + "=" + fsm.EvaluationValue}
	of := req.GetJobId()
	if of != "" {
		if _, ok := fsm.ParseJobID(of); !ok {
			return nil, call.Bad("job_id", "%.64q is no id of a job", of)
		}
	}
	q, err := newListQuery(&v1.ListJobsRequest{Status: req.GetStatus(), Label: labels, PageSize: req.GetPageSize(), PageToken: req.GetPageToken()}, "evaluations of "+of)
	if err != nil {
		return nil, err
	}
	if of != "" {
		q.also = func(j *fsm.Job) bool { return evaluationConfig(j).GetJobId() == of }
	}
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	found := q.run(v, call.Of(ctx).Tenant)
	out := &v1.ListEvaluationsResponse{NextPageToken: found.next, TotalCount: found.count(), TotalCountIsMinimum: !found.exact}
	for _, j := range found.jobs {
		out.Evaluations = append(out.Evaluations, evaluationView(v, j))
	}
	return out, nil
}

// maxCompared bounds what one comparison lays side by side.
const maxCompared = 20

// CompareEvaluations lays results side by side.
func (s *server) CompareEvaluations(ctx context.Context, req *v1.CompareEvaluationsRequest) (*v1.CompareEvaluationsResponse, error) {
	ids := req.GetEvaluationIds()
	if len(ids) < 2 || len(ids) > maxCompared {
		return nil, call.Bad("evaluation_ids", "names %d evaluations: 2 to %d can be compared", len(ids), maxCompared)
	}
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			return nil, call.Bad("evaluation_ids", "%.64s is named twice", id)
		}
	}
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	out := &v1.CompareEvaluationsResponse{}
	for _, id := range ids {
		j, err := evaluation(call.Of(ctx), v, id)
		if err != nil {
			return nil, err
		}
		out.Evaluations = append(out.Evaluations, evaluationView(v, j))
	}
	out.Rows = compared(out.GetEvaluations())
	return out, nil
}
