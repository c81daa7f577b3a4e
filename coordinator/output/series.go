package output

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/series"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/tasks"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Limits of one answer: the tasks that are read, their attempts if the caller names none, the series, and the points of
// all series together.
const (
	maxSeriesTasks    = 512
	maxSeriesAttempts = 32
	maxSeries         = 2000
	maxSeriesPoints   = 40_000
	defaultPoints     = 200
	mostPoints        = 2000
	maxSeriesNames    = 100
)

const (
	// seriesCalls limits the concurrent calls to agents, seriesTimeout the time for one task.
	seriesCalls   = 16
	seriesTimeout = 5 * time.Second
	// maxMissing limits the sentences about what is missing.
	maxMissing = 20
)

// GetJobSeries returns the history of a job's numbers, of each attempt and rank.
func (s *Service) GetJobSeries(ctx context.Context, req *v1.GetJobSeriesRequest) (*v1.GetJobSeriesResponse, error) {
	id, err := s.streamed(ctx, req.GetJobId(), "")
	if err != nil {
		return nil, err
	}
	points := int(cmp.Or(req.GetPoints(), defaultPoints))
	if points < 1 || points > mostPoints {
		return nil, call.Bad("points", "must be from 1 to %d, not %d", mostPoints, points)
	}
	if n := len(req.GetNames()); n > maxSeriesNames {
		return nil, call.Bad("name", "is given %d times; at most %d are allowed", n, maxSeriesNames)
	}
	wanted, err := s.tasksWanted(id, req)
	if err != nil {
		return nil, err
	}
	answer := &seriesAnswer{}
	s.readSeries(ctx, id, wanted, req.GetNames(), points, answer)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case len(answer.found) > maxSeries:
		return nil, call.Bad("name", "is needed: the job has more than %d series; ask for some names, ranks or attempts", maxSeries)
	case len(answer.found) == 0 && len(answer.lost) > 0:
		return nil, missing(answer.lost)
	}
	answer.finish()
	out := &v1.GetJobSeriesResponse{JobId: req.GetJobId(), Series: answer.found}
	for _, l := range answer.lost[:min(len(answer.lost), maxMissing)] {
		out.Missing = append(out.Missing, l.message)
	}
	return out, nil
}

// seriesTask is one task whose series are wanted.
type seriesTask struct {
	attempt uint32
	source
}

// tasksWanted returns the tasks that may have the requested series, by attempt and rank.
func (s *Service) tasksWanted(id ident.Job, req *v1.GetJobSeriesRequest) (wanted []seriesTask, err error) {
	j, ok := s.state.View().Find(id)
	if !ok {
		return nil, status.Errorf(codes.NotFound, "job %s is no longer known", id)
	}
	first := uint32(1)
	if len(req.GetAttempts()) == 0 && j.Attempt > maxSeriesAttempts {
		first = j.Attempt - maxSeriesAttempts + 1
	}
	for attempt := first; attempt <= j.Attempt; attempt++ {
		if len(req.GetAttempts()) > 0 && !slices.Contains(req.GetAttempts(), int32(attempt)) {
			continue
		}
		for _, src := range sourcesOf(j, attempt) {
			if len(req.GetRanks()) > 0 && !slices.Contains(req.GetRanks(), int32(src.rank)) {
				continue
			}
			if wanted = append(wanted, seriesTask{attempt, src}); len(wanted) > maxSeriesTasks {
				return nil, call.Bad("rank", "is needed: the job has had more than %d tasks; ask for some ranks or attempts", maxSeriesTasks)
			}
		}
	}
	return wanted, nil
}

// seriesAnswer collects series, in bounded memory.
type seriesAnswer struct {
	mu     sync.Mutex
	found  []*v1.MetricSeries
	lost   []*loss
	points int // of found
}

// take adds the result of one task. It returns false if the limits are exceeded.
func (a *seriesAnswer) take(some []*v1.MetricSeries, err error) (goOn bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := (*loss)(nil); errors.As(err, &l) {
		a.lost = append(a.lost, l)
	}
	for _, one := range some {
		a.points += len(one.GetPoints())
	}
	if a.found = append(a.found, some...); len(a.found) > maxSeries {
		return false
	}
	if a.points > 2*maxSeriesPoints {
		a.thin()
	}
	return true
}

// thin reduces the number of points to at most maxSeriesPoints.
func (a *seriesAnswer) thin() {
	a.points = 0
	for _, one := range a.found {
		one.Points = series.Merge(one.GetPoints(), maxSeriesPoints/len(a.found))
		a.points += len(one.GetPoints())
	}
}

// finish sorts the series.
func (a *seriesAnswer) finish() {
	a.thin()
	slices.SortFunc(a.found, func(x, y *v1.MetricSeries) int {
		return cmp.Or(cmp.Compare(x.GetAttempt(), y.GetAttempt()), cmp.Compare(x.GetRank(), y.GetRank()), cmp.Compare(x.GetName(), y.GetName()))
	})
	slices.SortFunc(a.lost, func(x, y *loss) int { return cmp.Compare(x.message, y.message) })
}

// readSeries reads the series of all tasks.
func (s *Service) readSeries(ctx context.Context, job ident.Job, wanted []seriesTask, names []string, points int, answer *seriesAnswer) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var calls sync.WaitGroup
	defer calls.Wait()
	slots := make(chan struct{}, seriesCalls)
	for _, task := range wanted {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		calls.Go(func() {
			defer func() { <-slots }()
			r := &seriesReading{Service: s, job: job, seriesTask: task, names: names, points: points}
			if !answer.take(r.run(ctx)) {
				cancel()
			}
		})
	}
}

// seriesReading reads the series of one task, from its node or from the archive.
type seriesReading struct {
	*Service
	seriesTask
	job    ident.Job
	names  []string
	points int
}

// run returns the series, or a *loss.
func (r *seriesReading) run(ctx context.Context) ([]*v1.MetricSeries, error) {
	ctx, cancel := context.WithTimeout(ctx, seriesTimeout)
	defer cancel()
	found, err := r.fromNodes(ctx)
	if err == nil {
		return found, nil
	}
	found, archiveErr := r.fromArchive(ctx)
	if archiveErr == nil {
		return found, nil
	}
	if !r.started && status.Code(err) == codes.NotFound {
		return nil, nil // a task that never began has none
	}
	r.log.Warn("the series of a task are missing", "job", r.job, "attempt", r.attempt, "rank", r.rank, "node", r.node, "node_error", err, "archive_error", archiveErr)
	return nil, &loss{message: fmt.Sprintf("the series of job %s, attempt %d, rank %d, are missing: %s", r.job, r.attempt, r.rank, r.why(err, archiveErr))}
}

// why describes the errors without addresses and paths, because the job's users read it.
func (r *seriesReading) why(nodeErr, archiveErr error) string {
	where := "its node"
	if r.node != "" {
		where = "node " + r.node
	}
	why := where + " does not answer"
	switch status.Code(nodeErr) {
	case codes.NotFound:
		why = where + " no longer has them"
	case codes.Unimplemented:
		why = where + " has an agent that keeps none"
	case codes.DataLoss:
		why = where + " cannot read them"
	}
	switch {
	case r.archive.store == nil:
		return why + ", and there is no log archive"
	case errors.Is(archiveErr, archive.ErrNotFound):
		return why + ", and the log archive does not have them"
	}
	return why + ", and the log archive fails"
}

// fromNodes asks the node of the task or, if that is no longer known, all nodes.
func (r *seriesReading) fromNodes(ctx context.Context) ([]*v1.MetricSeries, error) {
	v := r.state.View()
	if r.node != "" {
		n, ok := v.Node(r.node)
		if !ok {
			return nil, status.Errorf(codes.NotFound, "node %s is no longer known", r.node)
		}
		return r.fromNode(ctx, n)
	}
	last := status.Errorf(codes.NotFound, "no node has attempt %d of job %s", r.attempt, r.job)
	for n := range v.Nodes() {
		found, err := r.fromNode(ctx, n)
		if err == nil {
			return found, nil
		}
		if status.Code(err) != codes.NotFound {
			last = err
		}
	}
	return nil, last
}

func (r *seriesReading) fromNode(ctx context.Context, n *work.Node) ([]*v1.MetricSeries, error) {
	if n.State == v1.NodeState_LOST {
		return nil, status.Errorf(codes.Unavailable, "node %s is lost", n.ID)
	}
	conn, err := r.agents.To(n.GRPCAddr)
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "reaching the agent of node %s: %v", n.ID, err)
	}
	answer, err := v1.NewTaskServiceClient(conn).ReadTaskSeries(ctx, &v1.ReadTaskSeriesRequest{
		JobId: r.job.String(), Attempt: int32(r.attempt), Rank: int32(r.rank), Names: r.names, Points: int32(r.points),
	})
	return answer.GetSeries(), err
}

func (r *seriesReading) fromArchive(ctx context.Context) ([]*v1.MetricSeries, error) {
	if r.archive.store == nil {
		return nil, archive.ErrNotFound
	}
	m, err := tasks.Find(ctx, r.archive.store, r.job.String(), int32(r.attempt), int32(r.rank))
	r.archive.asked(err)
	if err != nil {
		return nil, err
	}
	data, err := tasks.ReadSeries(ctx, r.archive.store, m)
	if errors.Is(err, archive.ErrNotFound) && m.Series == nil && m.Final {
		return nil, nil // the task recorded none
	}
	if err != nil {
		return nil, err
	}
	set, err := series.Decode(data)
	if err != nil {
		return nil, err
	}
	found := set.Select(r.names, r.points)
	for _, one := range found {
		one.Attempt, one.Rank = int32(r.attempt), int32(r.rank)
	}
	return found, nil
}
