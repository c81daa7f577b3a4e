// Package admission decides which requests become jobs: it checks them, fills in defaults and says what is wrong.
//
// Guarantees. A request that is refused hears of all its faults at once, each with its field and what to do. Parse is pure: the
// same request and inventory give the same job. A job that the nodes could never hold, or whose queue or quota bars it for
// ever, is refused only on a state that has everything that was acknowledged before the call, unless it says that it waits.
// A request that was accepted under the same idempotency key is not refused because the cluster is another one now.
//
// Not guaranteed: that a job starts. The state checks once more what may change until the job is committed.
package admission

import (
	"context"
	"strings"

	"github.com/mindcoordinator/mind/api/launcher"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
)

// State is the state of the cluster as this replica has it.
type State interface {
	View() *fsm.View
	// Read waits until the state has everything that was acknowledged before the call.
	Read(ctx context.Context) (*fsm.View, error)
}

// Sealer encrypts those of the caller's tokens that a job will need.
type Sealer interface {
	Seal(c *call.Call, req *v1.SubmitJobRequest) ([]byte, error)
}

// Launchers finds the launcher in force for a framework; nil for what is no framework.
type Launchers func(v *fsm.View, framework string) *v1.Launcher

// Admission decides which requests become jobs.
type Admission struct {
	state     State
	capacity  *Capacity
	sealer    Sealer
	launchers Launchers
}

// New makes an Admission that asks capacity what the nodes could hold.
func New(state State, capacity *Capacity, sealer Sealer, launchers Launchers) *Admission {
	return &Admission{state: state, capacity: capacity, sealer: sealer, launchers: launchers}
}

// Job turns a request into a job to create, signed by its caller, or says all that is wrong with it.
func (a *Admission) Job(ctx context.Context, req *v1.SubmitJobRequest, key string) (work.NewJob, error) {
	c := call.Of(ctx)
	var f call.Faults
	f.Add(reservedForEvaluations(req))
	job, err := Parse(req, a.capacity)
	f.Add(err)
	if wrong := a.checkRoom(ctx, req, &job); wrong != nil && (f.Count() > 0 || !a.acceptedBefore(c.Tenant, key, &job)) {
		f.Add(wrong)
	}
	if !f.Below("training_config") { // else it may not be known which launcher is meant
		f.Add(a.checkLaunch(req))
	}
	if err := f.Err(); err != nil {
		return job, err
	}
	return job, a.Sign(ctx, req, &job, key)
}

// acceptedBefore says whether a job was accepted under the same key. It is answered as it was then, whatever has become of the
// cluster since. The keys that gateways make live for one request, and are not looked for.
func (a *Admission) acceptedBefore(tenant, key string, job *work.NewJob) bool {
	if strings.HasPrefix(key, status.AutoKeyPrefix) {
		return false
	}
	_, ok := a.state.View().SubmittedWith(tenant, key, job.Fingerprint)
	return ok
}

// Workload turns the request of an evaluation's job into a job to create. It is not signed yet.
func (a *Admission) Workload(ctx context.Context, req *v1.SubmitJobRequest) (work.NewJob, error) {
	job, err := Parse(req, a.capacity)
	if err != nil {
		return job, err
	}
	return job, a.checkRoom(ctx, req, &job)
}

// Sign says on whose behalf a job is created, and adds the caller's tokens that it will need.
func (a *Admission) Sign(ctx context.Context, req *v1.SubmitJobRequest, job *work.NewJob, key string) (err error) {
	c := call.Of(ctx)
	c.Sign(job, key)
	job.Credentials, err = a.sealer.Seal(c, req)
	return err
}

// Shape reads what a job of a queue needs, with other resources than it was submitted with. anyRoom says that it need not
// fit the cluster.
func (a *Admission) Shape(ctx context.Context, req *v1.SubmitJobRequest, queue string, anyRoom bool) (work.Shape, error) {
	var f call.Faults
	job := work.NewJob{Queue: queue, Shape: shapeOf(&f, req, a.capacity)}
	if !anyRoom {
		f.Add(a.checkRoom(ctx, req, &job))
	}
	return job.Shape, f.Err()
}

// checkLaunch refuses what the launcher in force cannot start. It comes after the checks that need no state.
func (a *Admission) checkLaunch(req *v1.SubmitJobRequest) error {
	framework, _ := launcher.For(req)
	if framework == "" {
		return nil
	}
	return fitsLauncher(req, a.launchers(a.state.View(), framework))
}
