package jobs

import (
	"context"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/forecast"
	"github.com/mindcoordinator/mind/coordinator/joblist"
	"github.com/mindcoordinator/mind/coordinator/jobview"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler/foresee"
)

// Limits of GetQueue's list.
const (
	defaultQueueList = 100
	maxQueueList     = 1000
)

// GetQueue lists the caller's waiting jobs, with their places among those of all tenants. The depth counts the caller's
// jobs only.
func (s *Service) GetQueue(ctx context.Context, req *v1.GetQueueRequest) (*v1.GetQueueResponse, error) {
	limit := int(req.GetLimit())
	switch {
	case limit == 0:
		limit = defaultQueueList
	case limit < 0 || limit > maxQueueList:
		return nil, call.Bad("limit", "%d must be between 1 and %d", limit, maxQueueList)
	}
	v, err := s.state.Read(ctx)
	if err != nil {
		return nil, err
	}
	if _, ok := v.Queue(req.GetQueue()); !ok && req.GetQueue() != "" {
		return nil, call.NotFound("queue", req.GetQueue())
	}
	tenant := call.Of(ctx).Tenant
	return queueOf(v, tenant, req.GetQueue(), limit, s.forecasts.Tenant(ctx, v, tenant)), nil
}

// queueOf lists the first waiting jobs of a tenant, queue by queue. It examines no other jobs: the state keeps the
// number of a tenant's jobs, and of the jobs ahead in each queue.
func queueOf(v *fsm.View, tenant, queue string, limit int, foreseen *foresee.Forecast) *v1.GetQueueResponse {
	out := &v1.GetQueueResponse{}
	waiting := map[string][]work.CountedGroup{}
	for g := range v.JobGroups(tenant) {
		switch {
		case g.State != v1.JobState_QUEUED || queue != "" && g.Queue != queue:
		case g.Held:
			out.Held += int32(g.Jobs)
		default:
			out.Depth += int32(g.Jobs)
			waiting[g.Queue] = append(waiting[g.Queue], g)
		}
	}
	for q := range v.Queues() {
		if len(waiting[q.Name]) == 0 || len(out.Jobs) == limit {
			continue
		}
		places := v.Places(q.Name)
		for j := range joblist.ByPriority(v, waiting[q.Name]) {
			out.Jobs = append(out.Jobs, queuedView(v, j, int32(places.Ahead(j))+1, foreseen))
			if len(out.Jobs) == limit {
				break
			}
		}
	}
	return out
}

func queuedView(v *fsm.View, j *work.Job, position int32, foreseen *foresee.Forecast) *v1.QueuedJob {
	return &v1.QueuedJob{
		JobId: j.ID.String(), Name: j.Name, Queue: j.Queue, Position: position, Priority: int32(j.Priority),
		GpuCount: int32(j.Shape.GPUs) * int32(max(1, j.Shape.Nodes)), GpuType: j.Shape.GPUType,
		Reason: jobview.Reason(v, j), CreatedAt: call.Time(j.CreatedAt), EstimatedWaitSeconds: forecast.WaitOf(foreseen, j),
	}
}
