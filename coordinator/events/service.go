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
	// Read waits until the state has everything that was acknowledged before the call, unless the call asked for stale.
	Read(ctx context.Context) (*fsm.View, error)
	IsLeader() bool
}

// StatusIn is the status that a job showed in a state. The job is nil when the state has dropped it.
type StatusIn func(job *work.Job, state v1.JobState_Value) v1.JobStatus_Value

// Service answers EventService, on any replica.
type Service struct {
	v1.UnimplementedEventServiceServer
	state    State
	statusIn StatusIn
	log      ring
}

// New makes a service that has seen no event yet. Its Observe must be told of every entry.
func New(state State, statusIn StatusIn) *Service {
	return &Service{state: state, statusIn: statusIn}
}

// Observe takes in the events of an entry. It is called on the applying goroutine.
func (s *Service) Observe(v *fsm.View, events []event.Event) { s.log.observe(v, events) }
