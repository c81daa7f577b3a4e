package jobs

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/jobspec"
	"github.com/mindcoordinator/mind/coordinator/jobview"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

// CancelJob cancels a job.
func (s *Service) CancelJob(ctx context.Context, req *v1.CancelJobRequest) (*v1.CancelJobResponse, error) {
	if req.GetVouch() {
		if err := s.mayVouch(call.Of(ctx).Tenant, req.GetJobId()); err != nil {
			return nil, err
		}
	}
	j, err := s.control(ctx, req, req.GetJobId(), jobverbs.ControlJob{Action: work.ActionCancel, Reason: req.GetReason(), Vouch: req.GetVouch()})
	return &v1.CancelJobResponse{Job: j}, err
}

// mayVouch refuses a confirmation that is known to be wrong: a node that renews its leases through its peers is alive, and
// so are its tasks.
func (s *Service) mayVouch(tenant, id string) error {
	v := s.state.View()
	key, ok := ident.ParseJob(id)
	j, there := v.Find(key)
	if !ok || !there || j.Tenant != tenant {
		return nil // control says so
	}
	for _, n := range jobview.SilentTasks(v, j) {
		if s.renewsThroughPeers(n.ID) {
			return call.Errorf(codes.FailedPrecondition, "node %s is cut off but alive: its leases are renewed through other nodes. Stop its agent and its tasks first", n.ID)
		}
	}
	return nil
}

// PauseJob stops a job so that it can be resumed.
func (s *Service) PauseJob(ctx context.Context, req *v1.PauseJobRequest) (*v1.PauseJobResponse, error) {
	save := req.SaveCheckpoint == nil || *req.SaveCheckpoint
	j, err := s.control(ctx, req, req.GetJobId(), jobverbs.ControlJob{Action: work.ActionPause, SaveCheckpoint: save})
	return &v1.PauseJobResponse{Job: j}, err
}

// ResumeJob puts a paused job back into its queue.
func (s *Service) ResumeJob(ctx context.Context, req *v1.ResumeJobRequest) (*v1.ResumeJobResponse, error) {
	checkpoint, err := checkpointID(req.GetCheckpointId())
	if err != nil {
		return nil, err
	}
	j, err := s.control(ctx, req, req.GetJobId(), jobverbs.ControlJob{Action: work.ActionResume, Checkpoint: checkpoint})
	return &v1.ResumeJobResponse{Job: j}, err
}

// RetryJob starts a new attempt of an ended job, with other resources if requested.
func (s *Service) RetryJob(ctx context.Context, req *v1.RetryJobRequest) (*v1.RetryJobResponse, error) {
	checkpoint, err := checkpointID(req.GetCheckpointId())
	if err != nil {
		return nil, err
	}
	command := jobverbs.ControlJob{Action: work.ActionRetry, Checkpoint: checkpoint, Waits: true}
	if req.GetModifyResources() != nil {
		if command.Spec, command.Shape, err = s.reshape(ctx, req); err != nil {
			return nil, err
		}
	}
	j, err := s.control(ctx, req, req.GetJobId(), command)
	return &v1.RetryJobResponse{Job: j}, err
}

// reshape changes the resources in the request of a job.
func (s *Service) reshape(ctx context.Context, req *v1.RetryJobRequest) ([]byte, *work.Shape, error) {
	j, err := call.Of(ctx).Job(s.state.View(), req.GetJobId())
	if err != nil {
		return nil, nil, err
	}
	if j.SpecDropped {
		return nil, nil, nil // The state refuses the retry, and says why.
	}
	spec, err := jobspec.Decode(j)
	if err != nil {
		return nil, nil, err
	}
	if err := mayTakeAway("modify_resources", req.GetTakenAway()); err != nil {
		return nil, nil, err
	}
	mergeResources(spec, req.GetModifyResources(), req.GetTakenAway())
	// A job that has not ended is refused anyway, or was retried under this key before.
	shape, err := s.admission.Shape(ctx, spec, j.Queue, !j.Terminal())
	if err != nil {
		return nil, nil, err
	}
	encoded, err := jobspec.Encode(spec)
	if err != nil {
		return nil, nil, call.Bad("modify_resources", "not encodable: %v", err)
	}
	if len(encoded) > jobspec.MaxBytes {
		return nil, nil, call.Bad("modify_resources", "makes the request %d bytes long; at most %d are allowed", len(encoded), jobspec.MaxBytes)
	}
	return encoded, &shape, nil
}

func checkpointID(text string) (ident.Checkpoint, error) {
	if text == "" {
		return 0, nil
	}
	id, ok := ident.ParseCheckpoint(text)
	if !ok {
		return 0, call.Bad("checkpoint_id", "%q is not a checkpoint id", text)
	}
	return id, nil
}

// control carries out a user's command for a job of the caller's tenant.
func (s *Service) control(ctx context.Context, req proto.Message, text string, command jobverbs.ControlJob) (*v1.Job, error) {
	c := call.Of(ctx)
	id, ok := ident.ParseJob(text)
	if !ok {
		return nil, call.NotFound("job", text)
	}
	command.Tenant, command.Job, command.Key, command.Actor = c.Tenant, id, c.Key, c.Actor()
	if len(command.Reason) > call.MaxReason {
		return nil, call.Bad("reason", "must have at most %d bytes", call.MaxReason)
	}
	if c.Key != "" {
		raw, err := jobspec.Encode(req)
		if err != nil {
			return nil, fmt.Errorf("reading the request: %w", err)
		}
		// The action is part of the fingerprint: a key of a cancel is not a key of a pause.
		command.Fingerprint = jobspec.Fingerprint(raw, byte(command.Action))
	}
	if command.Action == work.ActionResume || command.Action == work.ActionRetry {
		var err error
		if command.Credentials, err = s.renewed(c, id); err != nil {
			return nil, err
		}
	}
	result, err := replica.Propose[jobverbs.ControlResult](ctx, s.state, command)
	switch {
	case err != nil:
		return nil, err
	case result.Refusal != nil:
		refused := call.Refused(result.Refusal)
		refused.Message = jobview.InWords(s.state.View(), refused.Message)
		return nil, refused
	case result.Job == nil:
		return nil, call.NotFound("job", text)
	}
	return jobview.Of(s.state.View(), result.Job, false), nil
}

// renewed returns credentials for a job that will run again. For another tenant's job it returns none, because the
// command will be refused.
func (s *Service) renewed(c *call.Call, id ident.Job) ([]byte, error) {
	if c.DriveToken == "" && c.AtlasToken == "" {
		return nil, nil
	}
	j, ok := s.state.View().Find(id)
	if !ok || j.Tenant != c.Tenant {
		return nil, nil
	}
	spec, err := jobspec.Decode(j)
	if err != nil {
		return nil, err
	}
	return s.sealer.Seal(c, spec)
}
