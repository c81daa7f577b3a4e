// Package jobs answers the calls of JobService about jobs and checkpoints: submit, control, look at and list them.
//
// Guarantees. Writes run on the leader and are committed when they are answered; a batch has one result for each job. A call
// that comes again with its idempotency key is answered as it was. A job or checkpoint of another tenant does not exist. A
// list does not look at more jobs than one page may (package joblist).
//
// Not its own: what a request may hold (package admission), what users are shown (package jobview), and the streams of what
// tasks wrote (package output).
package jobs

import (
	"context"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/forecast"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
)

// State is the state of the cluster as this replica has it, and the way to change it.
type State interface {
	replica.Proposer
	View() *fsm.View
	// Read waits until the state has everything that was acknowledged before the call, unless the call asked for stale.
	Read(ctx context.Context) (*fsm.View, error)
}

// Admission decides which requests become jobs (package admission).
type Admission interface {
	Job(ctx context.Context, req *v1.SubmitJobRequest, key string) (work.NewJob, error)
	Shape(ctx context.Context, req *v1.SubmitJobRequest, queue string, anyRoom bool) (work.Shape, error)
}

// Sealer encrypts those of the caller's tokens that a job will need.
type Sealer interface {
	Seal(c *call.Call, req *v1.SubmitJobRequest) ([]byte, error)
}

// Config is what a Service needs.
type Config struct {
	State     State
	Admission Admission
	Sealer    Sealer
	Forecasts *forecast.Forecasts
	// RenewsThroughPeers says whether a node that is cut off is known to be alive, because other nodes pass its renewals on.
	RenewsThroughPeers func(node string) bool
	// EntryBytes bounds what of a batch travels in one entry.
	EntryBytes int
}

// Service answers JobService, but for the streams. It holds nothing itself.
type Service struct {
	v1.UnimplementedJobServiceServer

	state              State
	admission          Admission
	sealer             Sealer
	forecasts          *forecast.Forecasts
	renewsThroughPeers func(node string) bool
	entryBytes         int
}

// New makes a Service.
func New(c Config) *Service {
	return &Service{
		state: c.State, admission: c.Admission, sealer: c.Sealer, forecasts: c.Forecasts,
		renewsThroughPeers: c.RenewsThroughPeers, entryBytes: c.EntryBytes,
	}
}
