// Package jobs implements the calls of JobService about jobs and checkpoints: submit, control, show and list.
//
// Guarantees. Writes run on the leader and are committed when they are answered; a batch has one result for each job. A
// call that is repeated with its idempotency key gets the first answer. A job or checkpoint of another tenant is not found.
// A list examines a bounded number of jobs (package joblist).
//
// Other packages check requests (admission), convert jobs for users (jobview), and stream the output of tasks (output).
package jobs

import (
	"context"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/explain"
	"github.com/mindcoordinator/mind/coordinator/forecast"
	"github.com/mindcoordinator/mind/coordinator/replay"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

// State is the state of the cluster as this replica has it, and the way to change it.
type State interface {
	replica.Proposer
	View() *fsm.View
	// Read waits until the state has all writes that were acknowledged before the call, unless the call asked for
	// stale.
	Read(ctx context.Context) (*fsm.View, error)
}

// Admission decides which requests become jobs (package admission).
type Admission interface {
	Job(ctx context.Context, req *v1.SubmitJobRequest, key string) (jobverbs.NewJob, error)
	Shape(ctx context.Context, req *v1.SubmitJobRequest, queue string, anyRoom bool) (work.Shape, error)
	Changed(ctx context.Context, req *v1.SubmitJobRequest, anyRoom bool) (jobverbs.NewJob, error)
}

// Sealer encrypts the caller's tokens that a job will need.
type Sealer interface {
	Seal(c *call.Call, req *v1.SubmitJobRequest) ([]byte, error)
}

// Config configures a Service.
type Config struct {
	State     State
	Admission Admission
	Sealer    Sealer
	Forecasts *forecast.Forecasts
	Replays   *replay.Replays
	// RenewsThroughPeers reports whether a disconnected node is known to be alive, because it renews through other nodes.
	RenewsThroughPeers func(node string) bool
	// EntryBytes limits the part of a batch in one entry.
	EntryBytes int
}

// Service implements JobService except the streams. It has no state.
type Service struct {
	v1.UnimplementedJobServiceServer

	state              State
	admission          Admission
	sealer             Sealer
	forecasts          *forecast.Forecasts
	explainer          *explain.Explainer
	replays            *replay.Replays
	renewsThroughPeers func(node string) bool
	entryBytes         int
}

// New makes a Service.
func New(c Config) *Service {
	return &Service{
		state: c.State, admission: c.Admission, sealer: c.Sealer, forecasts: c.Forecasts, explainer: explain.New(), replays: c.Replays,
		renewsThroughPeers: c.RenewsThroughPeers, entryBytes: c.EntryBytes,
	}
}
