package taskservice

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/agent/datacache"
	"github.com/mindcoordinator/mind/agent/doctor"
	"github.com/mindcoordinator/mind/agent/series"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskid"
	"github.com/mindcoordinator/mind/agent/tasklog"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
)

const (
	// maxEntries and maxEntryBytes limit one message of a stream.
	maxEntries    = 1000
	maxEntryBytes = 1 << 20
	// pollMin and pollMax limit the pause between reads of a followed file: it is short while the file grows, and long
	// while it does not.
	pollMin = 2 * time.Millisecond
	pollMax = 50 * time.Millisecond
)

// Tasks are the tasks of the node.
type Tasks interface {
	// Find returns the task of a rank; adopted: the tasks of an earlier agent were adopted already.
	Find(job string, attempt, rank int32) (id taskid.ID, found, adopted bool)
	// Ended reports whether a task has ended; known: its directory exists.
	Ended(id taskid.ID) (ended, known bool)
	// Dir returns the directory of a task.
	Dir(id taskid.ID) string
	// Context returns a context that ends when the agent stops.
	Context() context.Context
}

// Service implements TaskService, for coordinators.
type Service struct {
	v1.UnimplementedTaskServiceServer
	Node string
	// Tasks are the tasks of the node, and Cache is its data cache.
	Tasks Tasks
	Cache *datacache.Cache
	// Series has the metric series of the tasks.
	Series *series.Book
	// Doctor finds out which trainings can run on the node.
	Doctor *doctor.Doctor
	// MetricsBytes limits how much of a task's metrics is read.
	MetricsBytes int64
}

// source reads the output of a task.
type source struct {
	*Service
	id  taskid.ID
	dir string
}

func (s *Service) find(job string, attempt, rank int32) (*source, error) {
	id, found, adopted := s.Tasks.Find(job, attempt, rank)
	switch {
	case !adopted:
		// Before that, a task that is not known yet must not be reported as missing.
		return nil, status.Error(codes.Unavailable, "the agent is starting")
	case !found:
		return nil, status.Errorf(codes.NotFound, "node %s has no task %s attempt %d rank %d (or has removed it)", s.Node, job, attempt, rank)
	}
	return &source{Service: s, id: id, dir: s.Tasks.Dir(id)}, nil
}

// ended reports whether the task's output is complete. Call it before the read that is expected to return the rest. It
// fails if that is unknown, because the task's directory was removed or the agent is stopping.
func (s *source) ended() (bool, error) {
	ended, known := s.Tasks.Ended(s.id)
	switch {
	case s.Tasks.Context().Err() != nil:
		return false, errStopping
	case !known:
		return false, s.removed()
	}
	return ended, nil
}

func (s *source) removed() error {
	return status.Errorf(codes.NotFound, "node %s has removed task %s attempt %d rank %d", s.Node, s.id.Job, s.id.Attempt, s.id.Rank)
}

var errStopping = status.Error(codes.Unavailable, "the agent is stopping")

// follow calls read until it has read everything of an ended task, or, without following, everything that exists.
func (s *source) follow(ctx context.Context, follow bool, read func() (more bool, err error)) (eof bool, err error) {
	pauses := wait.Backoff{First: pollMin, Longest: pollMax}
	for {
		ended, err := s.ended()
		if err != nil {
			return false, err
		}
		more, err := read()
		switch {
		case err != nil:
			return false, err
		case more:
			pauses.Reset()
			continue
		case ended:
			// An operator who frees a disk may remove the directory. Its output is missing then, and not empty.
			if _, err := os.Stat(s.dir); errors.Is(err, fs.ErrNotExist) {
				return false, s.removed()
			}
			return true, nil
		case !follow:
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, status.FromContextError(ctx.Err()).Err()
		case <-s.Tasks.Context().Done():
			return false, errStopping
		case <-time.After(pauses.Next()):
		}
	}
}

// ReadTaskLogs streams the log of a task.
func (s *Service) ReadTaskLogs(req *v1.ReadTaskLogsRequest, stream v1.TaskService_ReadTaskLogsServer) error {
	task, err := s.find(req.GetJobId(), req.GetAttempt(), req.GetRank())
	if err != nil {
		return err
	}
	reader := tasklog.NewReader(filepath.Join(task.dir, shim.LogDir))
	defer reader.Close()
	if req.GetSince() != nil {
		reader.Since(req.GetSince().AsTime().UnixNano())
	}
	if req.Tail != nil {
		err = reader.SeekTail(int(req.GetTail()))
	}
	if err == nil && req.GetOffset() > reader.Offset() {
		err = reader.SeekOffset(req.GetOffset())
	}
	if err != nil {
		return status.Errorf(codes.Internal, "read log: %v", err)
	}
	if begins := reader.Offset(); req.Tail != nil {
		if err := stream.Send(&v1.ReadTaskLogsResponse{Begins: &begins}); err != nil {
			return err
		}
	}
	eof, err := task.follow(stream.Context(), req.GetFollow(), func() (bool, error) {
		entries, err := reader.Next(maxEntries)
		if err != nil {
			return false, status.Errorf(codes.Internal, "read log: %v", err)
		}
		return len(entries) > 0, sendLog(stream, entries)
	})
	if err != nil {
		return err
	}
	return stream.Send(&v1.ReadTaskLogsResponse{Eof: eof})
}

// sendLog sends entries in messages of bounded size.
func sendLog(stream v1.TaskService_ReadTaskLogsServer, entries []tasklog.Entry) error {
	response, size := &v1.ReadTaskLogsResponse{}, 0
	for i, e := range entries {
		response.Entries = append(response.Entries, &v1.TaskLogEntry{
			Offset: e.Offset, UnixNanos: e.UnixNanos, Stderr: e.Kind != tasklog.Stdout, Line: e.Text,
		})
		size += len(e.Text) + 32
		if size >= maxEntryBytes || i == len(entries)-1 {
			if err := stream.Send(response); err != nil {
				return err
			}
			response, size = &v1.ReadTaskLogsResponse{}, 0
		}
	}
	return nil
}

// ReadTaskMetrics streams the lines of a task's metrics file without interpreting them. A line has no time; the time of
// an entry is the file's change time when it was read, which is accurate for a reader that follows, and too late for a
// later reader.
func (s *Service) ReadTaskMetrics(req *v1.ReadTaskMetricsRequest, stream v1.TaskService_ReadTaskMetricsServer) error {
	task, err := s.find(req.GetJobId(), req.GetAttempt(), req.GetRank())
	if err != nil {
		return err
	}
	reader := newMetricsReader(task.dir, s.MetricsBytes, int64(min(req.GetOffset(), math.MaxInt64)))
	eof, err := task.follow(stream.Context(), req.GetFollow(), func() (bool, error) {
		entries, more := reader.next()
		if len(entries) == 0 {
			return more, nil
		}
		return true, stream.Send(&v1.ReadTaskMetricsResponse{Entries: entries})
	})
	if err != nil {
		return err
	}
	return stream.Send(&v1.ReadTaskMetricsResponse{Eof: eof})
}
