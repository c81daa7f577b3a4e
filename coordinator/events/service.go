package events

import (
	"context"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/work"
)

// State is the state of the cluster as this replica has it.
type State interface {
	View() *fsm.View
	// Read waits until the state has all writes that were acknowledged before the call, unless the call asked for
	// stale.
	Read(ctx context.Context) (*fsm.View, error)
	IsLeader() bool
}

// StatusIn returns the status of a job in a job state. The job is nil if it was removed.
type StatusIn func(job *work.Job, state v1.JobState_Value) v1.JobStatus_Value

// Service implements EventService, on any replica.
type Service struct {
	v1.UnimplementedEventServiceServer
	state    State
	statusIn StatusIn
	log      ring
}

// New makes a service without events. Its Observe must be called with every entry.
func New(state State, statusIn StatusIn) *Service {
	return &Service{state: state, statusIn: statusIn}
}

// Observe records the events of an entry. The applying goroutine calls it.
func (s *Service) Observe(v *fsm.View, events []event.Event) { s.log.observe(v, events) }
