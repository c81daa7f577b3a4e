package simulate

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/claims"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/promises"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/picture"
	"github.com/mindcoordinator/mind/scheduler/reserve"
	"github.com/mindcoordinator/mind/simulate/trace"
)

// Limit gives each job a limit as its user might set it: the job's duration times a random factor between least and
// most.
func Limit(jobs []trace.Job, least, most float64, seed uint64) {
	draw := rand.New(rand.NewPCG(seed, 0))
	for i := range jobs {
		by := least + draw.Float64()*(most-least)
		jobs[i].Limit = time.Duration(float64(jobs[i].Takes) * by)
	}
}

// backfill is the part of a cluster from which the scheduler reserves starts.
type backfill struct {
	// limited says that some job has a limit. Without limits no start can be reserved, because it is unknown when GPUs
	// become free.
	limited  bool
	rows     map[ident.Job]*work.Job
	leases   map[string][]*work.Lease
	reserved map[ident.Job]*promises.Promise
}

func newBackfill() backfill {
	return backfill{rows: map[ident.Job]*work.Job{}, leases: map[string][]*work.Lease{}, reserved: map[ident.Job]*promises.Promise{}}
}

var _ reserve.View = (*cluster)(nil)

func (b *backfill) lease(j *work.Job, t *work.Task, now int64) {
	l := picture.LeaseOf(j, &work.TaskPlacement{GPUs: t.GPUs})
	l.Job, l.Node, l.Rank, l.GrantedAt = j.ID, t.Node, t.Rank, now
	b.leases[t.Node] = append(b.leases[t.Node], l)
}

func (b *backfill) unlease(j *work.Job, node string) {
	b.leases[node] = slices.DeleteFunc(b.leases[node], func(l *work.Lease) bool { return l.Job == j.ID })
}

func (b *backfill) started(id ident.Job) { delete(b.reserved, id) }

// reserve replaces the reserved starts. Like the state it refuses to reserve a GPU for two jobs at the same time.
func (b *backfill) reserve(c *jobverbs.PromiseStarts, now int64) error {
	next, taken := map[ident.Job]*promises.Promise{}, promises.Calendar{}
	for i := range c.Starts {
		s := &c.Starts[i]
		p := &promises.Promise{
			Job: s.Job, Attempt: s.Attempt, StartAt: s.At, Until: promises.EndOf(b.rows[s.Job], s.At), Tasks: s.Tasks,
			CPUs: b.rows[s.Job].Shape.CPUDemand(), MemMB: b.rows[s.Job].Shape.MemMB, Since: now, First: s.At, ChangedAt: now, Cause: s.Cause,
		}
		if old, there := b.reserved[s.Job]; there {
			p.Since, p.First = old.Since, old.First
		}
		if node := taken.Enter(p); node != "" {
			return fmt.Errorf("GPUs of %s are reserved for %s and for another job at the same time", node, s.Job)
		}
		next[s.Job] = p
	}
	b.reserved = next
	return nil
}

// Promises implements scheduler.View.
func (b *backfill) Promises() iter.Seq[*promises.Promise] {
	return func(yield func(*promises.Promise) bool) {
		for _, id := range slices.Sorted(maps.Keys(b.reserved)) {
			if !yield(b.reserved[id]) {
				return
			}
		}
	}
}

// Job implements scheduler.View.
func (b *backfill) Job(id ident.Job) (*work.Job, bool) { j, ok := b.rows[id]; return j, ok }

// LeasesOn implements scheduler.View.
func (b *backfill) LeasesOn(node string) iter.Seq[*work.Lease] { return slices.Values(b.leases[node]) }

// ClaimOf implements reserve.View. There are no claims, because the victims of a preemption leave at once.
func (b *backfill) ClaimOf(ident.Job) (*claims.Claim, bool) { return nil, false }

// Node implements scheduler.View.
func (c *cluster) Node(id string) (*work.Node, bool) {
	i, ok := c.at[id]
	if !ok {
		return nil, false
	}
	return c.nodes[i].Node, true
}

// backfill reserves starts and plans until nothing more can be placed. If the policy reserves starts without a delay,
// it plans one placement at a time and reserves before each: a job behind a blocked one must not delay it at the same
// moment.
func (r *run) backfill(ctx context.Context, opts scheduler.Options) (scheduler.Result, error) {
	c := r.cluster
	fill := c.policy.Backfill
	if !c.limited || fill.Reservations == 0 || c.waiting == 0 {
		result := c.planner.Plan(c, opts)
		return result, r.place(result)
	}
	opts.Backfill = true
	if fill.After == 0 {
		opts.PerPass = 1
	}
	for {
		if err := ctx.Err(); err != nil {
			return scheduler.Result{}, err
		}
		if err := r.reserve(opts); err != nil {
			return scheduler.Result{}, err
		}
		result := c.planner.Plan(c, opts)
		if err := r.place(result); err != nil || result.Placed == 0 || c.waiting == 0 {
			return result, err
		}
		if len(result.OrderPreemptions) > 0 {
			return result, nil
		}
	}
}

func (r *run) reserve(opts scheduler.Options) error {
	starts, changed := reserve.Starts(r.cluster, r.cluster.classes, r.cluster.now, opts.Model)
	if !changed {
		return nil
	}
	return r.cluster.reserve(&starts, r.cluster.now)
}
