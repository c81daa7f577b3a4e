package virtual

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/chaos/virtual/disk"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
)

// otherTenant is the second tenant of an episode.
const otherTenant = "others"

// healTime is how long a whole cluster may take to carry out a command of an operator.
const healTime = 5 * time.Minute

// operate makes a call as an operator.
func (a *Attack) operate(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(client.WithCall(ctx, client.Call{Tenant: "operators", User: "root", Operator: true}), callTime)
	defer cancel()
	return call(ctx)
}

// limit makes an operator limit a tenant or the queue, change the limits half-way, and remove them at the end. In a
// partitioned cluster each of these calls may fail; then the limits stay as they are.
func (a *Attack) limit(ctx context.Context, f Fault, r *rand.Rand) {
	set := a.limits(r)
	a.cluster.log.note("fault", fmt.Sprint(f, " ", set.what))
	for range 2 {
		_ = a.operate(ctx, set.draw)
		wait.For(ctx, f.For/2)
	}
	_ = a.operate(ctx, set.clear)
}

// limits sets and removes limits of a tenant or a queue.
type limits struct {
	what        string
	draw, clear func(context.Context) error
}

func (a *Attack) limits(r *rand.Rand) limits {
	if r.IntN(3) == 0 {
		put := func(ctx context.Context, gpus int32) error {
			_, err := a.operators.Cluster().PutQueue(ctx, &v1.PutQueueRequest{Name: work.DefaultQueue, Weight: proto.Int32(1), MaxGpus: gpus})
			return err
		}
		return limits{
			what: "of queue " + work.DefaultQueue,
			draw: func(ctx context.Context) error { return put(ctx, 1+r.Int32N(8)) }, clear: func(ctx context.Context) error { return put(ctx, 0) },
		}
	}
	whose := tenant
	if r.IntN(3) == 0 {
		whose = otherTenant
	}
	some := func(most int32) *int32 {
		n := r.Int32N(2*most + 1)
		if n > most {
			return nil
		}
		return &n
	}
	quotas := v1.NewQuotaServiceClient(a.operators)
	return limits{
		what: "of tenant " + whose,
		draw: func(ctx context.Context) error {
			_, err := quotas.PutQuota(ctx, &v1.PutQuotaRequest{Quota: &v1.Quota{TenantId: whose, MaxGpus: some(6), MaxRunningJobs: some(4), MaxJobs: some(12)}})
			return err
		},
		clear: func(ctx context.Context) error {
			_, err := quotas.DeleteQuota(ctx, &v1.DeleteQuotaRequest{TenantId: whose})
			if status.Code(err) == codes.NotFound {
				return nil
			}
			return err
		},
	}
}

// unlimit removes all limits, so that waiting jobs can run. The cluster must be whole.
func (a *Attack) unlimit(ctx context.Context) {
	quotas := v1.NewQuotaServiceClient(a.operators)
	for _, whose := range []string{tenant, otherTenant} {
		a.insist(ctx, "taking the quota of "+whose+" away", func(ctx context.Context) error {
			_, err := quotas.DeleteQuota(ctx, &v1.DeleteQuotaRequest{TenantId: whose})
			if status.Code(err) == codes.NotFound {
				return nil
			}
			return err
		})
	}
	a.insist(ctx, "taking the limit of the queue away", func(ctx context.Context) error {
		_, err := a.operators.Cluster().PutQueue(ctx, &v1.PutQueueRequest{Name: work.DefaultQueue, Weight: proto.Int32(1)})
		return err
	})
}

// insist repeats a call to a whole cluster until it succeeds.
func (a *Attack) insist(ctx context.Context, what string, call func(context.Context) error) {
	var err error
	for end := time.Now().Add(healTime); time.Now().Before(end); {
		if err = a.operate(ctx, call); err == nil {
			return
		}
		wait.For(ctx, time.Second)
	}
	a.cluster.Findings.Add("%s failed for %s in a whole cluster: %v", what, healTime, err)
}

// replace makes an operator remove a coordinator for good, and some time later start another one in its place, with an
// empty disk and a new id, which asks the others to add it. The old one may be dead by then, or run until it learns
// that it was removed.
func (a *Attack) replace(ctx context.Context, f Fault, r *rand.Rand, seat int) {
	c := a.cluster
	if len(c.places()) < 3 || !a.replacing.TryLock() {
		return // operators replace one at a time
	}
	defer a.replacing.Unlock()
	old, dead := c.place(seat), r.IntN(2) == 0
	c.log.note("fault", fmt.Sprint(f, " ", old.id, ", dead: ", dead))
	c.leave(old, true)
	if dead {
		c.CrashCoordinator(seat, r.IntN(2) == 0)
	}
	if err := a.remove(ctx, old.id, f.For+time.Minute); err != nil {
		// Whether the coordinator is a voter is unknown until the cluster is whole again: see finish.
		c.log.note("fault", fmt.Sprint(old.id, " stays: ", err))
		a.mu.Lock()
		a.begun = append(a.begun, seat)
		a.mu.Unlock()
		c.leave(old, false)
		a.revive(seat, old)
		return
	}
	wait.For(ctx, time.Duration(r.Int64N(int64(10*time.Second)))) // it keeps running for a while
	c.CrashCoordinator(seat, false)
	wait.For(ctx, f.For)
	next := c.succeed(seat)
	c.log.note("fault", fmt.Sprint(next.id, " comes in the place of ", old.id))
	a.revive(seat, next)
	// The next replacement may begin when this coordinator is a voter, or after some time.
	for end := time.Now().Add(healTime); time.Now().Before(end); wait.For(ctx, 5*time.Second) {
		if voters, err := a.voters(ctx); err == nil && slices.Contains(voters, next.id) {
			return
		}
	}
}

// finish completes removals that an operator gave up in a partitioned cluster: a coordinator that was removed all the
// same is replaced. The cluster must be whole.
func (a *Attack) finish(ctx context.Context) {
	c := a.cluster
	for _, seat := range a.begun {
		old := c.place(seat)
		var voters []string
		a.insist(ctx, "learning who votes", func(ctx context.Context) (err error) {
			voters, err = a.voters(ctx)
			return err
		})
		if slices.Contains(voters, old.id) {
			continue
		}
		c.leave(old, true)
		c.CrashCoordinator(seat, false)
		a.insist(ctx, "taking "+old.id+" out", func(ctx context.Context) error { return a.remove(ctx, old.id, callTime) })
		next := c.succeed(seat)
		c.log.note("fault", fmt.Sprint(next.id, " comes in the place of ", old.id, " after all"))
		c.StartCoordinator(seat)
	}
}

// revive starts the coordinator in a seat, unless a fault keeps it down; then the end of that fault starts it.
func (a *Attack) revive(seat int, r *replica) {
	a.mu.Lock()
	down := a.downs[r.ip] > 0
	a.mu.Unlock()
	if !down {
		a.cluster.Revive(seat)
	}
}

// remove removes a coordinator from the voters. If it leads, remove transfers leadership first.
func (a *Attack) remove(ctx context.Context, id string, within time.Duration) error {
	var err error
	for end := time.Now().Add(within); time.Now().Before(end); wait.For(ctx, 2*time.Second) {
		err = a.operate(ctx, func(ctx context.Context) error {
			_, err := a.operators.Operators().RemovePeer(ctx, &v1.RemovePeerRequest{Id: id})
			return err
		})
		switch status.Code(err) {
		case codes.OK:
			return nil
		case codes.NotFound: // an earlier try has removed it
			return nil
		case codes.FailedPrecondition:
			_ = a.operate(ctx, func(ctx context.Context) error {
				_, err := a.operators.Operators().TransferLeadership(ctx, &v1.TransferLeadershipRequest{})
				return err
			})
		}
	}
	return err
}

// voters returns the voters according to the leader.
func (a *Attack) voters(ctx context.Context) ([]string, error) {
	var resp *v1.ListPeersResponse
	err := a.operate(ctx, func(ctx context.Context) (err error) {
		resp, err = a.operators.Operators().ListPeers(ctx, &v1.ListPeersRequest{})
		return err
	})
	if err != nil {
		return nil, err
	}
	var ids []string
	leads := false
	for _, p := range resp.GetPeers() {
		if p.GetVoter() {
			ids = append(ids, p.GetId())
		}
		leads = leads || p.GetLeader() && p.GetId() == resp.GetAnsweredBy()
	}
	if !leads {
		return nil, errors.New("the leader did not answer")
	}
	slices.Sort(ids)
	return ids, nil
}

// CheckMembers checks that the voters, and the coordinators in the state, are exactly the coordinators in the seats: a
// removed coordinator does not return, and a new one is not lost. The cluster must be whole.
func (a *Attack) CheckMembers() {
	c := a.cluster
	var seats, voters, named []string
	for _, r := range c.places() {
		seats = append(seats, r.id)
	}
	slices.Sort(seats)
	for end := time.Now().Add(healTime); time.Now().Before(end); time.Sleep(time.Second) {
		voters, named = nil, nil
		voters, _ = a.voters(context.Background())
		if v := c.newest(); v != nil {
			for row := range v.Coordinators() {
				named = append(named, row.ID)
			}
		}
		if slices.Equal(seats, voters) && slices.Equal(seats, named) {
			return
		}
	}
	c.Findings.Add("coordinators are %v; voters are %v, and the state names %v", seats, voters, named)
}

// leave marks a coordinator as being replaced, so that it is not started meanwhile.
func (c *Cluster) leave(r *replica, leaves bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.leaves = leaves
}

// succeed puts a new coordinator into a seat. It does not run yet.
func (c *Cluster) succeed(seat int) *replica {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replaced++
	n, old := len(c.founders)+c.replaced, c.coordinators[seat]
	next := &replica{id: fmt.Sprintf("c%d", n), ip: old.ip, skew: old.skew, joins: true, disk: disk.New(c.Seed*1000+uint64(n), false)}
	c.coordinators[seat] = next
	return next
}

// newest returns the newest state that any coordinator published.
func (c *Cluster) newest() *fsm.View {
	var v *fsm.View
	for i := range c.places() {
		if other := c.View(i); other != nil && (v == nil || other.Index() > v.Index()) {
			v = other
		}
	}
	return v
}
