package output

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/mindcoordinator/mind/api/cursor"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
)

const (
	// signOfLife is how often an idle stream sends an empty message.
	signOfLife = 10 * time.Second
	// A task that does not exist yet is asked for again after agentRetry; a node that does not answer after up to
	// agentRetryMax.
	agentRetry    = 50 * time.Millisecond
	agentRetryMax = 2 * time.Second
	// endedPatience is how long the node of an ended job may be silent before its stream is given up.
	endedPatience = 10 * time.Second
	// mergeBatches limits the read-ahead for a slow reader.
	mergeBatches = 4
)

// State is the state of the cluster as this replica has it.
type State interface {
	View() *fsm.View
	// Read waits until the state has all writes that were acknowledged before the call, unless the call asked for
	// stale.
	Read(ctx context.Context) (*fsm.View, error)
	// Newer waits for a view newer than an index.
	Newer(ctx context.Context, after uint64) (*fsm.View, error)
}

// Agents holds connections to the agents, by address. It owns them.
type Agents interface {
	To(addr string) (*grpc.ClientConn, error)
}

// Config configures a Service.
type Config struct {
	State  State
	Agents Agents
	// Archive is the archive to which agents ship.
	Archive Archive
	// TLS: agents have certificates, and may ask only for themselves.
	TLS      bool
	Registry prometheus.Registerer
	Log      *slog.Logger
}

// Service serves the output of tasks, on any replica. It has no state: the reader's cursor contains its position.
type Service struct {
	state   State
	agents  Agents
	archive archived
	tls     bool
	log     *slog.Logger
}

// New makes a service. It fails if the archive cannot be opened.
func New(config Config) (*Service, error) {
	kept, err := openArchive(config.Archive, config.Registry)
	if err != nil {
		return nil, err
	}
	return &Service{state: config.State, agents: config.Agents, archive: kept, tls: config.TLS, log: config.Log}, nil
}

// StreamJobLogs streams the lines of a job.
func (s *Service) StreamJobLogs(req *v1.StreamJobLogsRequest, stream v1.JobService_StreamJobLogsServer) error {
	id, err := s.streamed(stream.Context(), req.GetJobId(), req.GetCursor())
	if err != nil {
		return err
	}
	return s.logs(stream.Context(), id, req, stream.Send)
}

// StreamJobMetrics streams the lines of the metrics file.
func (s *Service) StreamJobMetrics(req *v1.StreamJobMetricsRequest, stream v1.JobService_StreamJobMetricsServer) error {
	id, err := s.streamed(stream.Context(), req.GetJobId(), req.GetCursor())
	if err != nil {
		return err
	}
	return s.metrics(stream.Context(), id, req, stream.Send)
}

// GetJobMetrics merges the metrics of the newest attempt.
func (s *Service) GetJobMetrics(ctx context.Context, req *v1.GetJobMetricsRequest) (*v1.GetJobMetricsResponse, error) {
	id, err := s.streamed(ctx, req.GetJobId(), "")
	if err != nil {
		return nil, err
	}
	metrics, err := s.latestMetrics(ctx, id)
	if err != nil {
		return nil, err
	}
	out := &v1.GetJobMetricsResponse{JobId: req.GetJobId(), Metrics: metrics}
	if j, ok := s.state.View().Find(id); ok && j.Progress != (work.Progress{}) {
		out.Progress = &v1.JobProgress{Step: j.Progress.Step, TotalSteps: j.Progress.Total}
	}
	return out, nil
}

// streamed finds the job whose output is requested. A cursor of an attempt that the job has not had belongs to another job:
// a reader that resumed there would wait for that attempt, and miss everything before it.
func (s *Service) streamed(ctx context.Context, text, at string) (ident.Job, error) {
	v, err := s.state.Read(ctx)
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
		return 0, call.Bad("cursor", "%.60q is a cursor of attempt %d, but job %s has had %d: send the id of this job's last event", at, c.Attempt, j.ID, j.Attempt)
	}
	return j.ID, nil
}
