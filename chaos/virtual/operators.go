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

// otherTenant is the second one of an episode.
const otherTenant = "others"

// healTime is how long a whole cluster has to take in what operators ask of it.
const healTime = 5 * time.Minute

// operate makes a call as an operator does.
func (a *Attack) operate(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(client.WithCall(ctx, client.Call{Tenant: "operators", User: "root", Operator: true}), callTime)
	defer cancel()
	return call(ctx)
}

// limit has an operator limit a tenant, or the queue of all; half-way otherwise, and then not any more. Whether a cluster in
// pieces hears of it is open: what holds is what it took in.
func (a *Attack) limit(ctx context.Context, f Fault, r *rand.Rand) {
	set := a.limits(r)
	a.cluster.log.note("fault", fmt.Sprint(f, " ", set.what))
	for range 2 {
		_ = a.operate(ctx, set.draw)
		wait.For(ctx, f.For/2)
	}
	_ = a.operate(ctx, set.clear)
}

// limits are those of a tenant or of a queue.
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

// unlimit takes every limit away: what waits for one is to run. The cluster must be whole.
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

// replace has an operator take a coordinator out of the voters for good, and some time later start another one in its
// place: with an empty disk, under a new id, and asking the others to be let in. The old one may be dead by then, or
// run on until it is told that it is removed.
func (a *Attack) replace(ctx context.Context, f Fault, r *rand.Rand, seat int) {
	c := a.cluster
	if len(c.places()) < 3 || !a.replacing.TryLock() {
		return // operators do one at a time
	}
	defer a.replacing.Unlock()
	old, dead := c.place(seat), r.IntN(2) == 0
	c.log.note("fault", fmt.Sprint(f, " ", old.id, ", dead: ", dead))
	c.leave(old, true)
	if dead {
		c.CrashCoordinator(seat, r.IntN(2) == 0)
	}
	if err := a.remove(ctx, old.id, f.For+time.Minute); err != nil {
		// Whether it is a voter is open until the cluster is whole again: see finish.
		c.log.note("fault", fmt.Sprint(old.id, " stays: ", err))
		a.mu.Lock()
		a.begun = append(a.begun, seat)
		a.mu.Unlock()
		c.leave(old, false)
		a.revive(seat, old)
		return
	}
	wait.For(ctx, time.Duration(r.Int64N(int64(10*time.Second)))) // until it is shut down
	c.CrashCoordinator(seat, false)
	wait.For(ctx, f.For)
	next := c.succeed(seat)
	c.log.note("fault", fmt.Sprint(next.id, " comes in the place of ", old.id))
	a.revive(seat, next)
	// The next one is replaced when this one votes, or has had its time.
	for end := time.Now().Add(healTime); time.Now().Before(end); wait.For(ctx, 5*time.Second) {
		if voters, err := a.voters(ctx); err == nil && slices.Contains(voters, next.id) {
			return
		}
	}
}

// finish ends what was begun in a cluster in pieces: a coordinator whose removal was given up, and came about all the same,
// is replaced now. The cluster must be whole.
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

// revive starts who has a seat unless a fault keeps it down, which does it when it is over.
func (a *Attack) revive(seat int, r *replica) {
	a.mu.Lock()
	down := a.downs[r.ip] > 0
	a.mu.Unlock()
	if !down {
		a.cluster.Revive(seat)
	}
}

// remove takes a coordinator out of the voters, and leadership from it before if it has it.
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
		case codes.NotFound: // an earlier try did it
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

// voters are those that the leader knows.
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

// CheckMembers holds that those who have the seats are the voters, and nobody else is, and that the state names the same:
// nobody who was removed comes back, and nobody who came is forgotten. The cluster must be whole.
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

// leave marks a coordinator that is being replaced: nobody starts it meanwhile.
func (c *Cluster) leave(r *replica, leaves bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.leaves = leaves
}

// succeed gives a seat to a new coordinator, which does not run yet.
func (c *Cluster) succeed(seat int) *replica {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replaced++
	n, old := len(c.founders)+c.replaced, c.coordinators[seat]
	next := &replica{id: fmt.Sprintf("c%d", n), ip: old.ip, skew: old.skew, joins: true, disk: disk.New(c.Seed*1000+uint64(n), false)}
	c.coordinators[seat] = next
	return next
}

// newest is the newest state that any coordinator published.
func (c *Cluster) newest() *fsm.View {
	var v *fsm.View
	for i := range c.places() {
		if other := c.View(i); other != nil && (v == nil || other.Index() > v.Index()) {
			v = other
		}
	}
	return v
}
