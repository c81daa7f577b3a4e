package simulate

import (
	"cmp"
	"iter"
	"slices"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/accounts"
	"github.com/mindcoordinator/mind/fsm/work/budgets"
)

// shares records what users, tenants and queues hold of the cluster, and how much they may hold: the accounts of fair
// share, the tree of queues, and quotas. The code of the replicated state keeps the accounts that decay and the budgets of
// a month. The picture of the cluster counts what is held now.
type shares struct {
	// fair says that each user has a lane and an account.
	fair   bool
	queues map[string]*work.Queue
	quotas map[string]*work.Quota
	// metered says that some quota limits the GPU hours of a month.
	metered bool

	capacity accounts.Amount
	models   []work.GPU // kinds of GPU

	accounts []*accounts.Account // sorted by queue, tenant and user
	budgets  map[string]*budgets.Budget
	// bounds is how many elements of an array may run at a time.
	bounds map[ident.Job]uint32
}

func newShares(on Cluster) shares {
	s := shares{
		fair: on.FairShare, queues: map[string]*work.Queue{}, quotas: map[string]*work.Quota{},
		budgets: map[string]*budgets.Budget{}, bounds: map[ident.Job]uint32{},
	}
	for _, q := range on.Queues {
		s.queues[q.Name] = q
	}
	for _, q := range on.Quotas {
		s.quotas[q.Tenant] = q
		s.metered = s.metered || q.MaxGPUHours != nil
	}
	if !s.fair {
		return s
	}
	for _, n := range on.Nodes {
		s.capacity.Add(n.Amount())
		for i := range n.GPUs {
			s.models = append(s.models, work.GPU{Type: n.GPUs[i].Type, Model: n.GPUs[i].Model, MIG: n.GPUs[i].MIG})
		}
	}
	slices.SortFunc(s.models, func(a, b work.GPU) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Model, b.Model), cmp.Compare(a.MIG, b.MIG))
	})
	s.models = slices.Compact(s.models)
	return s
}

// Lineage implements picture.Shared.
func (s *shares) Lineage(name string) iter.Seq[*work.Queue] {
	return func(yield func(*work.Queue) bool) {
		for range work.MaxQueueDepth {
			q, ok := s.queues[name]
			if !ok || !yield(q) || q.Parent == "" {
				return
			}
			name = q.Parent
		}
	}
}

// charge adds what a job begins to hold (by is 1) to its account and its tenant's budget, or subtracts what it gives back
// (by is -1).
func (s *shares) charge(j *work.Job, c *cluster, by int) {
	if !s.fair {
		return
	}
	s.account(j, c, by)
	b := s.budgets[j.Tenant]
	if b == nil {
		b = &budgets.Budget{Tenant: j.Tenant, At: c.now / 1e6}
		b.Month, _ = budgets.MonthOf(b.At)
		s.budgets[j.Tenant] = b
	}
	b.Settle(c.now)
	b.Holds = uint64(c.Usage(j.Tenant).GPUMilli)
}

// account changes the account of the job's user in its queue.
func (s *shares) account(j *work.Job, c *cluster, by int) {
	key := accounts.Key{Queue: j.Queue, Tenant: j.Tenant, User: j.User}
	i, found := slices.BinarySearchFunc(s.accounts, key, func(a *accounts.Account, k accounts.Key) int { return a.Key().Compare(k) })
	if !found {
		a := &accounts.Account{Queue: j.Queue, Tenant: j.Tenant, User: j.User, At: c.now / 1e6}
		s.accounts = slices.Insert(s.accounts, i, a)
	}
	a := s.accounts[i]
	a.Settle(c.now, accounts.Life(c.policy.HalfLife))
	if by > 0 {
		a.Holds.Add(j.Shape.Amount())
	} else {
		a.Holds.Sub(j.Shape.Amount())
	}
}

// bars returns the limit that keeps a job from its leases, as the state would; empty: none does.
func (c *cluster) bars(j *work.Job) reason.Reason {
	if q, ok := c.quotas[j.Tenant]; ok {
		if why := cmp.Or(q.Bars(c.Usage(j.Tenant), j.Shape), q.BarsHours(c.Budget(j.Tenant).SpentBy(c.now), c.now, j.Shape)); why != "" {
			return why
		}
	}
	for q := range c.Lineage(j.Queue) {
		if why := q.Bars(c.QueueTreeGPUs(q.Name), j.Shape); why != "" {
			return why
		}
	}
	return ""
}

// monthEnds returns the time at which the GPU hours of the month begin again; 0: no quota limits them.
func (c *cluster) monthEnds() int64 {
	if !c.metered {
		return 0
	}
	_, end := budgets.MonthOf(c.now / 1e6)
	return end * 1e6
}

// Quota implements scheduler.View.
func (s *shares) Quota(tenant string) (*work.Quota, bool) { q, ok := s.quotas[tenant]; return q, ok }

// Queue implements scheduler.View.
func (s *shares) Queue(name string) (*work.Queue, bool) { q, ok := s.queues[name]; return q, ok }

// Budget implements scheduler.View.
func (s *shares) Budget(tenant string) *budgets.Budget { return s.budgets[tenant] }

// Accounts implements scheduler.View.
func (s *shares) Accounts() iter.Seq[*accounts.Account] { return slices.Values(s.accounts) }

// Total implements scheduler.View.
func (s *shares) Total() accounts.Amount { return s.capacity }

// GPUModels implements scheduler.View.
func (s *shares) GPUModels() iter.Seq[work.GPU] { return slices.Values(s.models) }
