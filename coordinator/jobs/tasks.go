package jobs

import (
	"context"
	"slices"
	"strconv"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/jobview"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Sizes of a page of elements.
const (
	defaultTasks = 100
	maxTasks     = 1000
)

// ListJobTasks lists the elements of an array by number; any other job has none. The page token is the number of the
// page's first element.
func (s *Service) ListJobTasks(ctx context.Context, req *v1.ListJobTasksRequest) (*v1.ListJobTasksResponse, error) {
	v, err := s.state.Read(ctx)
	if err != nil {
		return nil, err
	}
	j, err := call.Of(ctx).Job(v, req.GetJobId())
	if err != nil {
		return nil, err
	}
	from, size := uint64(0), int(req.GetPageSize())
	if token := req.GetPageToken(); token != "" {
		if from, err = strconv.ParseUint(token, 10, 32); err != nil {
			return nil, call.Bad("page_token", "is not a next_page_token of this list")
		}
	}
	switch {
	case size == 0:
		size = defaultTasks
	case size < 0 || size > maxTasks:
		return nil, call.Bad("page_size", "must be between 1 and %d", maxTasks)
	}
	return tasksOf(v, j, uint32(from), size, req.GetStatus()), nil
}

func tasksOf(v *fsm.View, j *work.Job, from uint32, size int, want []v1.JobStatus_Value) *v1.ListJobTasksResponse {
	out := &v1.ListJobTasksResponse{}
	if j.Array == nil {
		return out // It has no elements.
	}
	for e := range v.ElementStates(j) {
		shown := status.Of(e.State, 0, jobview.Considered(v, j))
		if e.Row != nil {
			shown = jobview.Status(v, e.Row)
		}
		if len(want) > 0 && !slices.Contains(want, shown) {
			continue
		}
		out.TotalCount++
		switch {
		case e.Number < from:
		case len(out.Tasks) == size:
			if out.NextPageToken == "" {
				out.NextPageToken = strconv.FormatUint(uint64(e.Number), 10)
			}
		default:
			out.Tasks = append(out.Tasks, taskOf(j, &e, shown))
		}
	}
	return out
}

func taskOf(j *work.Job, e *work.ElementState, shown v1.JobStatus_Value) *v1.JobTask {
	out := &v1.JobTask{
		JobId: j.ID.At(e.Number).String(), Index: int32(e.Number), Status: shown, State: e.State,
		ExitCode: e.ExitCode, ErrorType: e.ErrorType,
	}
	if e.Row != nil {
		out.Attempt, out.Nodes = int32(e.Row.Attempt), work.TaskNodes(e.Row.Tasks)
		out.StartedAt, out.FinishedAt = call.Time(e.Row.StartedAt), call.Time(e.Row.FinishedAt)
	}
	return out
}
