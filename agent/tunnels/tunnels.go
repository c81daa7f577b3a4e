package tunnels

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

const (
	// mostOfNode and mostOfJob limit the tunnels.
	mostOfNode = 64
	mostOfJob  = 16
	// abandoned is how long a tunnel lives without a client.
	abandoned = time.Minute
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

// Tunnels are the tunnels into the tasks of a node.
type Tunnels struct {
	node  string
	tasks Tasks
	group func(task string) string
	log   *slog.Logger

	mu     sync.Mutex
	open   map[string]*entry
	closed bool
}

// entry is a tunnel, or the place of one that is being opened.
type entry struct {
	owner owner
	// ready is closed when tunnel or err is set.
	ready  chan struct{}
	tunnel *tunnel
	err    error
	// streams counts the streams that use it, and timer ends it when there is none.
	streams int
	timer   *time.Timer
}

// New returns the tunnels of a node. group returns the control group of a task; empty: it has none. Close ends the tunnels.
func New(node string, tasks Tasks, group func(task string) string, log *slog.Logger) *Tunnels {
	return &Tunnels{node: node, tasks: tasks, group: group, log: log, open: map[string]*entry{}}
}

// Close ends all tunnels, and waits for their goroutines.
func (s *Tunnels) Close() {
	s.mu.Lock()
	s.closed = true
	var all []string
	for id := range s.open {
		all = append(all, id)
	}
	s.mu.Unlock()
	for _, id := range all {
		s.end(id)
	}
}

// enter finds the tunnel that a stream wants, or opens it. The caller leaves it.
func (s *Tunnels) enter(opening *v1.TunnelOpening, whose owner) (*entry, error) {
	id := opening.GetTunnelId()
	s.mu.Lock()
	e := s.open[id]
	switch {
	case s.closed:
		s.mu.Unlock()
		return nil, errStopping
	case e != nil && e.owner != whose, e == nil && opening.GetResume():
		s.mu.Unlock()
		return nil, status.Errorf(codes.NotFound, "node %s does not have this tunnel any more: it was closed, or the agent of the node was restarted", s.node)
	case e != nil:
		e.streams++
		e.timer.Stop()
		s.mu.Unlock()
		<-e.ready
		if e.err != nil {
			s.leave(id, e)
		}
		return e, e.err
	}
	if err := s.room(whose.job); err != nil {
		s.mu.Unlock()
		return nil, err
	}
	e = &entry{owner: whose, ready: make(chan struct{}), streams: 1}
	e.timer = time.AfterFunc(abandoned, func() { s.expire(id, e) })
	e.timer.Stop()
	s.open[id] = e
	s.mu.Unlock()
	e.tunnel, e.err = s.dig(id, opening, whose)
	close(e.ready)
	if e.err != nil {
		s.mu.Lock()
		delete(s.open, id)
		s.mu.Unlock()
		s.leave(id, e)
	}
	return e, e.err
}

// room refuses a tunnel beyond the limits. The caller holds the lock.
func (s *Tunnels) room(job string) error {
	of := 0
	for _, e := range s.open {
		if e.owner.job == job {
			of++
		}
	}
	switch {
	case of >= mostOfJob:
		return status.Errorf(codes.ResourceExhausted, "job %s has %d tunnels on node %s, and no more are allowed: close one", job, of, s.node)
	case len(s.open) >= mostOfNode:
		return status.Errorf(codes.ResourceExhausted, "node %s has %d tunnels, and no more are allowed: close one", s.node, len(s.open))
	}
	return nil
}

// dig makes the tunnel.
func (s *Tunnels) dig(id string, opening *v1.TunnelOpening, whose owner) (*tunnel, error) {
	task, found, adopted := s.tasks.Find(opening.GetJobId(), opening.GetAttempt(), opening.GetRank())
	if !adopted {
		return nil, status.Error(codes.Unavailable, "the agent is starting")
	}
	if ended, known := s.tasks.Ended(task); !found || !known || ended {
		return nil, status.Errorf(codes.FailedPrecondition, "rank %d of job %s does not run on node %s", opening.GetRank(), opening.GetJobId(), s.node)
	}
	far, err := s.reach(s.tasks.Dir(task), opening)
	if err != nil {
		return nil, err
	}
	return newTunnel(id, whose, task, far), nil
}

// leave is called when a stream does not use a tunnel any more.
func (s *Tunnels) leave(id string, e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.streams--; e.streams == 0 && s.open[id] == e {
		e.timer.Reset(abandoned)
	}
}

// expire ends a tunnel that has had no client for long.
func (s *Tunnels) expire(id string, e *entry) {
	s.mu.Lock()
	mine := s.open[id] == e && e.streams == 0
	if mine {
		delete(s.open, id)
	}
	s.mu.Unlock()
	if mine {
		e.close()
	}
}

// end ends a tunnel, and forgets it.
func (s *Tunnels) end(id string) {
	s.mu.Lock()
	e := s.open[id]
	delete(s.open, id)
	s.mu.Unlock()
	if e != nil {
		e.close()
	}
}

// close ends the tunnel of an entry that is forgotten.
func (e *entry) close() {
	e.timer.Stop()
	<-e.ready
	if e.tunnel != nil {
		e.tunnel.close()
	}
}

var errStopping = status.Error(codes.Unavailable, "the agent is stopping")
