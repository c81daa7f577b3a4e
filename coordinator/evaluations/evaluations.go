// Package evaluations implements EvaluationService: an evaluation is a job that scores a model, with its results.
//
// Guarantees. An evaluation waits, runs, fails and is retried like any job; its label type=evaluation cannot be forged. The
// checkpoint that it scores is fixed when it is submitted. An evaluation of another tenant is not found.
//
// Not guaranteed: that a successful workload reported a result of every benchmark. The answer lists missing ones.
package evaluations

import (
	"context"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/admission"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/forecast"
	"github.com/mindcoordinator/mind/coordinator/joblist"
	"github.com/mindcoordinator/mind/coordinator/jobspec"
	"github.com/mindcoordinator/mind/coordinator/jobview"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
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
	Workload(ctx context.Context, req *v1.SubmitJobRequest) (jobverbs.NewJob, error)
	Sign(ctx context.Context, req *v1.SubmitJobRequest, job *jobverbs.NewJob, key string) error
}

// Service implements EvaluationService. It has no state.
type Service struct {
	v1.UnimplementedEvaluationServiceServer

	state     State
	admission Admission
	forecasts *forecast.Forecasts
}

// New makes a Service.
func New(state State, admission Admission, forecasts *forecast.Forecasts) *Service {
	return &Service{state: state, admission: admission, forecasts: forecasts}
}

// SubmitEvaluation submits the job that scores a model.
func (s *Service) SubmitEvaluation(ctx context.Context, req *v1.SubmitEvaluationRequest) (*v1.SubmitEvaluationResponse, error) {
	c := call.Of(ctx)
	if err := admission.CheckEvaluation(req.GetEvaluationConfig()); err != nil {
		return nil, err
	}
	raw, err := jobspec.Encode(req)
	if err != nil {
		return nil, call.Bad("request", "not encodable: %v", err)
	}
	// The fingerprint is of the request, not of its resolution: another checkpoint may be the newest when it is repeated.
	// Keys of evaluations and of jobs are separate.
	fingerprint := jobspec.Fingerprint(raw, []byte("evaluation")...)
	v, err := s.state.Read(ctx)
	if err != nil {
		return nil, err
	}
	spec, job, err := s.evaluationJob(ctx, v, req)
	if err != nil {
		// A repeated call gets the first answer, even if the model and the cluster have changed.
		if first, ok := v.SubmittedWith(c.Tenant, c.Key, fingerprint); ok {
			return acceptedEvaluation(first), nil
		}
		return nil, err
	}
	if err := s.admission.Sign(ctx, spec, &job, c.Key); err != nil {
		return nil, err
	}
	job.Fingerprint = fingerprint
	result, err := replica.Propose[jobverbs.SubmitJobsResult](ctx, s.state, jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{job}, Actor: call.Of(ctx).Submitter()})
	if err != nil {
		return nil, err
	}
	if r := result.Results[0].Refusal; r != nil {
		return nil, call.Refused(r)
	}
	out := acceptedEvaluation(result.Results[0].Job)
	out.EstimatedWaitSeconds = s.forecasts.Waits(ctx, s.state.View(), c.Tenant)(result.Results[0].Job)
	return out, nil
}

// evaluationJob makes the job and its request.
func (s *Service) evaluationJob(ctx context.Context, v *fsm.View, req *v1.SubmitEvaluationRequest) (*v1.SubmitJobRequest, jobverbs.NewJob, error) {
	spec, err := evaluationSpec(v, call.Of(ctx).Tenant, req)
	if err != nil {
		return nil, jobverbs.NewJob{}, err
	}
	job, err := s.admission.Workload(ctx, spec)
	return spec, job, err
}

// NewJob makes the job of an evaluation in the name of the caller.
func (s *Service) NewJob(ctx context.Context, v *fsm.View, req *v1.SubmitEvaluationRequest) (jobverbs.NewJob, error) {
	if err := admission.CheckEvaluation(req.GetEvaluationConfig()); err != nil {
		return jobverbs.NewJob{}, err
	}
	spec, job, err := s.evaluationJob(ctx, v, req)
	if err != nil {
		return job, err
	}
	return job, s.admission.Sign(ctx, spec, &job, "")
}

// Show returns the evaluation that a job is.
func (s *Service) Show(v *fsm.View, j *work.Job) *v1.Evaluation { return evaluationView(v, j) }

func acceptedEvaluation(id ident.Job) *v1.SubmitEvaluationResponse {
	return &v1.SubmitEvaluationResponse{EvaluationId: id.EvaluationID(), Status: v1.JobStatus_PENDING, Message: "accepted; its workload is job " + id.String()}
}

// evaluationSpec makes the request of the job. It contains the exact checkpoint to score, so that this does not change when
// the job that wrote it continues.
func evaluationSpec(v *fsm.View, tenant string, req *v1.SubmitEvaluationRequest) (*v1.SubmitJobRequest, error) {
	config := proto.CloneOf(req.GetEvaluationConfig())
	if err := pinModel(v, tenant, config); err != nil {
		return nil, err
	}
	labels := maps.Clone(req.GetLabels())
	if kind, given := labels[work.EvaluationLabel]; given && kind != work.EvaluationValue {
		return nil, call.Bad("labels", "%s is set to %q by mind: choose another name", work.EvaluationLabel, work.EvaluationValue)
	}
	if labels == nil {
		labels = map[string]string{}
	}
	labels[work.EvaluationLabel] = work.EvaluationValue
	spec := &v1.SubmitJobRequest{
		Name: req.GetName(), EvaluationConfig: config, ResourceConfig: req.GetResourceConfig(), SchedulingConfig: req.GetSchedulingConfig(), Labels: labels,
	}
	if spec.ResourceConfig == nil {
		spec.ResourceConfig = &v1.ResourceConfig{GpuCount: 1}
	}
	if spec.Name == "" {
		spec.Name = call.Clip("evaluation of "+scored(config), admission.MaxName)
	}
	return spec, nil
}

// scored describes what an evaluation scores.
func scored(config *v1.EvaluationConfig) string {
	switch {
	case config.GetJobId() != "" && config.GetCheckpointId() != "":
		return config.GetJobId() + " at " + config.GetCheckpointId()
	case config.GetJobId() != "":
		return config.GetJobId()
	}
	return config.GetModelUri()
}

// pinModel finds the checkpoint or model to score, and records it.
func pinModel(v *fsm.View, tenant string, config *v1.EvaluationConfig) error {
	if config.GetJobId() == "" {
		return nil
	}
	id, ok := ident.ParseJob(config.GetJobId())
	j, known := v.Job(id)
	if !ok || !known || j.Tenant != tenant {
		return call.NotFound("job", config.GetJobId())
	}
	var newest *checkpoints.Checkpoint
	for c := range v.CheckpointsOf(id) {
		if !c.Expired() {
			newest = c
		}
	}
	if j.State != v1.JobState_SUCCEEDED && newest == nil {
		return call.Errorf(codes.FailedPrecondition, "job %s, which is %s, has nothing to score yet: it must succeed, or register a checkpoint", id, jobview.Status(v, j))
	}
	switch {
	case config.GetCheckpointId() != "":
		at, ok := ident.ParseCheckpoint(config.GetCheckpointId())
		c, known := v.Checkpoint(at)
		if !ok || !known || c.Tenant != tenant {
			return call.NotFound("checkpoint", config.GetCheckpointId())
		}
		if c.Job != id {
			return call.Bad("checkpoint_id", "%s is a checkpoint of %s, not of %s", at, c.Job, id)
		}
	case config.GetModelUri() != "":
	case newest == nil:
		return call.Errorf(codes.FailedPrecondition, "job %s registered no checkpoint, so the location of its model is unknown: give it in model_uri", id)
	default:
		config.CheckpointId = newest.ID.String()
	}
	return nil
}

// evaluation finds an evaluation of the caller's tenant. Another tenant's is not found.
func evaluation(c *call.Call, v *fsm.View, text string) (*work.Job, error) {
	if id, ok := ident.ParseEvaluation(text); ok {
		if j, ok := v.Job(id); ok && j.Tenant == c.Tenant && j.Evaluation() {
			return j, nil
		}
	}
	return nil, call.NotFound("evaluation", text)
}

// GetEvaluation answers from this replica.
func (s *Service) GetEvaluation(ctx context.Context, req *v1.GetEvaluationRequest) (*v1.GetEvaluationResponse, error) {
	v, err := s.state.Read(ctx)
	if err != nil {
		return nil, err
	}
	j, err := evaluation(call.Of(ctx), v, req.GetEvaluationId())
	if err != nil {
		return nil, err
	}
	return &v1.GetEvaluationResponse{Evaluation: evaluationView(v, j)}, nil
}

// ListEvaluations lists the evaluations of the caller's tenant, newest first: the jobs with the label type=evaluation.
func (s *Service) ListEvaluations(ctx context.Context, req *v1.ListEvaluationsRequest) (*v1.ListEvaluationsResponse, error) {
	labels := []string{work.EvaluationLabel + "=" + work.EvaluationValue}
	of := req.GetJobId()
	if of != "" {
		if _, ok := ident.ParseJob(of); !ok {
			return nil, call.Bad("job_id", "%.64q is not the id of a job", of)
		}
	}
	q, err := joblist.Parse(&v1.ListJobsRequest{Status: req.GetStatus(), Label: labels, PageSize: req.GetPageSize(), PageToken: req.GetPageToken()}, "evaluations of "+of, call.Of(ctx).User)
	if err != nil {
		return nil, err
	}
	if of != "" {
		q.Also = func(j *work.Job) bool { return evaluationConfig(j).GetJobId() == of }
	}
	v, err := s.state.Read(ctx)
	if err != nil {
		return nil, err
	}
	found, err := q.Find(v, call.Of(ctx).Tenant)
	if err != nil {
		return nil, err
	}
	out := &v1.ListEvaluationsResponse{NextPageToken: found.Next, TotalCount: found.Count(), TotalCountIsMinimum: !found.Exact}
	for _, j := range found.Jobs {
		out.Evaluations = append(out.Evaluations, evaluationView(v, j))
	}
	return out, nil
}

// maxCompared is the largest number of evaluations in a comparison.
const maxCompared = 20

// CompareEvaluations compares the results of evaluations.
func (s *Service) CompareEvaluations(ctx context.Context, req *v1.CompareEvaluationsRequest) (*v1.CompareEvaluationsResponse, error) {
	ids := req.GetEvaluationIds()
	if len(ids) < 2 || len(ids) > maxCompared {
		return nil, call.Bad("evaluation_ids", "has %d evaluations: 2 to %d can be compared", len(ids), maxCompared)
	}
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			return nil, call.Bad("evaluation_ids", "%.64s is given twice", id)
		}
	}
	v, err := s.state.Read(ctx)
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
