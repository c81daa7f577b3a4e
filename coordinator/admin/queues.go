package admin

import (
	"context"
	"math"
	"regexp"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/accounts"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
)

// queueName matches names of queues: they are used in paths and in commands.
var queueName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

// PutQueue creates or changes a queue.
func (s *Service) PutQueue(ctx context.Context, req *v1.PutQueueRequest) (*v1.PutQueueResponse, error) {
	if !queueName.MatchString(req.GetName()) {
		return nil, call.Bad("name", "a queue name has 1 to 63 lower-case letters, digits, dots, dashes or underscores, and begins and ends with a letter or digit")
	}
	if req.Weight != nil && (req.GetWeight() < 1 || req.GetWeight() > work.MaxQueueWeight) {
		return nil, call.Bad("weight", "must be 1 to %d; omit it for 1", work.MaxQueueWeight)
	}
	if req.GetMaxGpus() < 0 {
		return nil, call.Bad("max_gpus", "must be 1 or more, or 0 for no limit")
	}
	if req.GetGuaranteedGpus() < 0 {
		return nil, call.Bad("guaranteed_gpus", "must be 1 or more, or 0 for none")
	}
	if req.GetMaxGpus() > 0 && req.GetGuaranteedGpus() > req.GetMaxGpus() {
		return nil, call.Bad("guaranteed_gpus", "must be at most max_gpus, %d", req.GetMaxGpus())
	}
	byType, err := s.typeLimits(req.GetMaxGpusByType())
	if err != nil {
		return nil, err
	}
	result, err := replica.Propose[queueverbs.QueueResult](ctx, s.replica, queueverbs.PutQueue{
		Queue: work.Queue{
			Name: req.GetName(), Weight: uint32(req.GetWeight()), MaxGPUs: uint32(req.GetMaxGpus()), Parent: req.GetParent(),
			MaxByType: byType, Guaranteed: uint32(req.GetGuaranteedGpus()),
		}, Actor: call.Of(ctx).Actor(),
	})
	if err != nil {
		return nil, err
	}
	if result.Refusal != nil {
		return nil, call.Refused(result.Refusal)
	}
	view := queueView(s.replica.View(), result.Queue, call.Of(ctx).Tenant, call.Of(ctx).Operator)
	if req.GetGuaranteedGpus() > 0 {
		view.Warning = overGuaranteed(s.replica.View())
	}
	return &v1.PutQueueResponse{Queue: view}, nil
}

// DeleteQueue deletes a queue without unfinished jobs.
func (s *Service) DeleteQueue(ctx context.Context, req *v1.DeleteQueueRequest) (*v1.DeleteQueueResponse, error) {
	result, err := replica.Propose[queueverbs.QueueResult](ctx, s.replica, queueverbs.DeleteQueue{Name: req.GetName(), Actor: call.Of(ctx).Actor()})
	if err != nil {
		return nil, err
	}
	if result.Refusal != nil {
		return nil, call.Refused(result.Refusal)
	}
	return &v1.DeleteQueueResponse{}, nil
}

// ListQueues lists all queues, with the usage of the caller's tenant in each.
func (s *Service) ListQueues(ctx context.Context, _ *v1.ListQueuesRequest) (*v1.ListQueuesResponse, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	out := &v1.ListQueuesResponse{}
	for q := range v.Queues() {
		out.Queues = append(out.Queues, queueView(v, q, call.Of(ctx).Tenant, call.Of(ctx).Operator))
	}
	return out, nil
}

// due returns the part of the cluster that the weights give to a queue.
func due(v *fsm.View, q *work.Queue) float64 {
	part := 1.0
	for above := range v.Lineage(q.Name) {
		all := 0.0
		for beside := range v.Queues() {
			if beside.Parent == above.Parent {
				all += float64(max(beside.Weight, 1))
			}
		}
		part *= float64(max(above.Weight, 1)) / all
	}
	return part
}

// lately returns the mean number of GPUs that the users of a tenant held in a queue lately.
func lately(v *fsm.View, tenant, queue string) float64 {
	sum, life := accounts.Usage{}, accounts.Life(v.Policy().HalfLife)
	for a := range v.AccountsOf(queue, tenant) {
		sum.Add(a.Lately(v.Now(), life))
	}
	return float64(sum.GPUMilli>>accounts.UsageBits) / 1000
}

func queueView(v *fsm.View, q *work.Queue, tenant string, operator bool) *v1.Queue {
	counts, held := v.QueueCountsOf(tenant, q.Name), v.QueueHeldOf(tenant, q.Name)
	live := counts[v1.JobState_ALLOCATED] + counts[v1.JobState_STARTING] + counts[v1.JobState_RUNNING]
	var borrowed *float64
	if operator && anyGuaranteed(v) {
		n := max(0, float64(v.QueueTreeGPUs(q.Name))/1000-float64(q.Guaranteed))
		borrowed = &n
	}
	return &v1.Queue{
		MaxGpusByType: typesOf(q.MaxByType), GuaranteedGpus: int32(q.Guaranteed), BorrowedGpus: borrowed,
		Name: q.Name, Weight: int32(q.Weight), MaxGpus: int32(q.MaxGPUs), Queued: int32(counts[v1.JobState_QUEUED] - held), Held: int32(held), Running: int32(live),
		// The state counts in thousandths; a shared GPU is allocated like any other.
		GpusAllocated: int32((v.QueueGPUsOf(tenant, q.Name) + 999) / 1000),
		Parent:        q.Parent, SharePercent: math.Round(1e4*due(v, q)) / 100, GpusLately: lately(v, tenant, q.Name),
	}
}
