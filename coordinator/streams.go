package coordinator

import (
	"context"

	"github.com/mindcoordinator/mind/api/cursor"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/links"
	"github.com/mindcoordinator/mind/fsm"
)

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
	j, err := call.Of(ctx).Job(v, text)
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
