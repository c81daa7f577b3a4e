// Package admission decides which requests become jobs: it checks them, fills in defaults and reports faults.
//
// Guarantees. A refusal lists all faults of the request, each with its field and a remedy. Parse is pure: the same
// request and inventory give the same job. A job that the nodes could never hold, or that its queue or quota excludes
// permanently, is refused, unless it allows waiting; this is checked on a state with all writes that were acknowledged
// before the call. A request that was accepted before under the same idempotency key is not refused because the cluster
// has changed.
//
// Not guaranteed: that a job starts. The state checks again everything that may change until the job is committed.
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
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

// State is the state of the cluster as this replica has it.
type State interface {
	View() *fsm.View
	// Read waits until the state has all writes that were acknowledged before the call.
	Read(ctx context.Context) (*fsm.View, error)
}

// Sealer encrypts the caller's tokens that a job will need.
type Sealer interface {
	Seal(c *call.Call, req *v1.SubmitJobRequest) ([]byte, error)
}

// Launchers returns the launcher in use for a framework; nil for an unknown framework.
type Launchers func(v *fsm.View, framework string) *v1.Launcher

// Admission decides which requests become jobs.
type Admission struct {
	state     State
	capacity  *Capacity
	sealer    Sealer
	launchers Launchers
	notifies  func(url string) error
}

// New returns an Admission that checks jobs against capacity. notifies says why a URL cannot get notices.
func New(state State, capacity *Capacity, sealer Sealer, launchers Launchers, notifies func(url string) error) *Admission {
	return &Admission{state: state, capacity: capacity, sealer: sealer, launchers: launchers, notifies: notifies}
}

// Job turns a request into a job to create, with its caller, or returns all faults.
func (a *Admission) Job(ctx context.Context, req *v1.SubmitJobRequest, key string) (jobverbs.NewJob, error) {
	c := call.Of(ctx)
	var f call.Faults
	f.Add(reservedForEvaluations(req))
	job, err := Parse(req, a.capacity)
	f.Add(err)
	f.Add(a.checkNotices(&job))
	if wrong := a.checkRoom(ctx, req, &job); wrong != nil && (f.Count() > 0 || !a.acceptedBefore(c.Tenant, key, &job)) {
		f.Add(wrong)
	}
	if !f.Below("training_config") { // otherwise the launcher may be unknown
		f.Add(a.checkLaunch(req))
	}
	if err := f.Err(); err != nil {
		return job, err
	}
	return job, a.Sign(ctx, req, &job, key)
}

// acceptedBefore reports whether a job was accepted under the same key. Then it gets the same answer, even if the cluster
// has changed. Keys created by gateways live for one request only, and are not looked up.
func (a *Admission) acceptedBefore(tenant, key string, job *jobverbs.NewJob) bool {
	if strings.HasPrefix(key, status.AutoKeyPrefix) {
		return false
	}
	_, ok := a.state.View().SubmittedWith(tenant, key, job.Fingerprint)
	return ok
}

// Workload turns the request of an evaluation's job into a job to create, without its caller.
func (a *Admission) Workload(ctx context.Context, req *v1.SubmitJobRequest) (jobverbs.NewJob, error) {
	job, err := Parse(req, a.capacity)
	if err != nil {
		return job, err
	}
	return job, a.checkRoom(ctx, req, &job)
}

// Sign sets the caller of a job, and adds the caller's tokens that it will need.
func (a *Admission) Sign(ctx context.Context, req *v1.SubmitJobRequest, job *jobverbs.NewJob, key string) (err error) {
	c := call.Of(ctx)
	c.Sign(job, key)
	job.Credentials, err = a.sealer.Seal(c, req)
	return err
}

// Shape reads the needs of a job whose resources were changed after its submit. anyRoom: it need not fit the cluster.
func (a *Admission) Shape(ctx context.Context, req *v1.SubmitJobRequest, queue string, anyRoom bool) (work.Shape, error) {
	var f call.Faults
	job := jobverbs.NewJob{Queue: queue, Shape: shapeOf(&f, req, a.capacity)}
	if !anyRoom {
		f.Add(a.checkRoom(ctx, req, &job))
	}
	return job.Shape, f.Err()
}

// Changed reads the request of a job that was changed after its submit. anyRoom: it need not fit the cluster.
func (a *Admission) Changed(ctx context.Context, req *v1.SubmitJobRequest, anyRoom bool) (jobverbs.NewJob, error) {
	var f call.Faults
	job, err := Parse(req, a.capacity)
	f.Add(err)
	if !anyRoom {
		f.Add(a.checkRoom(ctx, req, &job))
		if !f.Below("training_config") {
			f.Add(a.checkLaunch(req))
		}
	}
	return job, f.Err()
}

// checkLaunch refuses a job that the launcher in use cannot start. It runs after the checks that need no state.
func (a *Admission) checkLaunch(req *v1.SubmitJobRequest) error {
	framework, _ := launcher.For(req)
	if framework == "" {
		return nil
	}
	v := a.state.View()
	l := a.launchers(v, framework)
	var f call.Faults
	f.Add(fitsLauncher(req, l))
	f.Add(needsCUDA(v.Nodes(), req, l))
	return f.Err()
}
