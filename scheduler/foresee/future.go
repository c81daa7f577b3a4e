package foresee

import (
	"iter"
	"maps"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/accounts"
	"github.com/mindcoordinator/mind/fsm/work/budgets"
	"github.com/mindcoordinator/mind/fsm/work/claims"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/fsm/work/promises"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/order"
	"github.com/mindcoordinator/mind/scheduler/picture"
)

// future is a view of a future time, as if one tenant had the cluster to itself. It does not embed the present view,
// but passes on shared data and the tenant's own data only.
type future struct {
	now    View
	tenant string

	// Picture has the tenant's running jobs alone.
	*picture.Picture
	// users are the accounts of the tenant's users, in each queue.
	users map[accounts.Key]*accounts.Account
	life  accounts.Life
	// at is the future time.
	at int64
	// running are the tenant's jobs that hold resources now.
	running []*holding
	// classes are the groups of its waiting jobs, lanes the parts of each by user; lines their jobs, in order; waiting has all
	// of them.
	classes []work.ClassKey
	lanes   map[work.ClassKey][]work.LaneKey
	lines   map[work.LaneKey][]*work.Job
	waiting map[ident.Job]*work.Job
}

// holding is a job that has resources, and its places.
type holding struct {
	job   *work.Job
	tasks []work.TaskPlacement
}

var _ scheduler.View = (*future)(nil)

// Windows are shared data, because they are about nodes.
func (f *future) Windows() iter.Seq[*windows.Window] { return f.now.Windows() }

func newFuture(v View, tenant string) *future {
	f := &future{
		now: v, tenant: tenant, Picture: picture.Empty(v), users: map[accounts.Key]*accounts.Account{},
	}
	f.life, f.at = accounts.Life(v.Policy().HalfLife), v.Now()
	for a := range v.Accounts() {
		if a.Tenant == tenant {
			b := *a
			b.Settle(f.at, f.life)
			b.Holds = accounts.Amount{} // hold counts the running jobs, below.
			f.users[a.Key()] = &b
		}
	}
	for j := range v.ActiveJobs() {
		if j.Tenant != tenant {
			continue
		}
		h := &holding{job: j}
		for i := range j.Tasks {
			if t := &j.Tasks[i]; t.State != v1.TaskState_ENDED {
				h.tasks = append(h.tasks, work.TaskPlacement{Node: t.Node, GPUs: t.GPUs})
			}
		}
		f.running = append(f.running, h)
		f.hold(h)
	}
	return f
}

// wait loads up to most waiting jobs of the tenant, from the head of the queue.
func (f *future) wait(most int) {
	var all []*work.Job
	for key := range f.now.Classes() {
		if key.Tenant != "" && key.Tenant != f.tenant {
			continue
		}
		own := 0
		for j := range f.now.ClassJobs(key) {
			if j.Tenant != f.tenant {
				continue
			}
			for _, one := range order.InFull(j, most-own) {
				all = append(all, one)
				own++
			}
			if own == most {
				break
			}
		}
	}
	slices.SortFunc(all, order.InOrder)
	all = all[:min(len(all), most)]
	f.lanes = map[work.ClassKey][]work.LaneKey{}
	f.lines, f.waiting = map[work.LaneKey][]*work.Job{}, make(map[ident.Job]*work.Job, len(all))
	for _, j := range all {
		key := f.laneOf(j)
		if f.lines[key] == nil {
			if f.lanes[key.Class] == nil {
				f.classes = append(f.classes, key.Class)
			}
			f.lanes[key.Class] = append(f.lanes[key.Class], key)
		}
		f.lines[key] = append(f.lines[key], j)
		f.waiting[j.ID] = j
	}
}

func (f *future) laneOf(j *work.Job) work.LaneKey {
	return work.LaneKey{Class: f.now.ClassOf(j), Tenant: j.Tenant, User: j.User}
}

// start places a waiting job as planned. The job need not be the head of its lane, because others pass a job that was
// preempted.
func (f *future) start(p *work.Placement) *holding {
	j := f.waiting[p.Job]
	delete(f.waiting, p.Job)
	key := f.laneOf(j)
	if line := f.lines[key]; line[0] == j {
		f.lines[key] = line[1:] // the common case
	} else {
		i := slices.Index(line, j)
		f.lines[key] = slices.Delete(line, i, i+1)
	}
	if len(f.lines[key]) == 0 {
		delete(f.lines, key)
		f.lanes[key.Class] = slices.DeleteFunc(f.lanes[key.Class], func(k work.LaneKey) bool { return k == key })
		if len(f.lanes[key.Class]) == 0 {
			f.classes = slices.DeleteFunc(f.classes, func(k work.ClassKey) bool { return k == key.Class })
		}
	}
	h := &holding{job: j, tasks: p.Tasks}
	f.hold(h)
	return h
}

// hold gives a job its places, and end takes them away.
func (f *future) hold(h *holding) {
	f.Add(h.job, h.tasks)
	f.account(h.job).Holds.Add(h.job.Shape.Amount())
}

func (f *future) end(h *holding) {
	f.Remove(h.job, h.tasks)
	f.Settle() // Nothing of it is undone.
	f.account(h.job).Holds.Sub(h.job.Shape.Amount())
}

// account returns the account of a job's user, settled at the future time.
func (f *future) account(j *work.Job) *accounts.Account {
	key := accounts.Key{Queue: j.Queue, Tenant: j.Tenant, User: j.User}
	a := f.users[key]
	if a == nil {
		a = &accounts.Account{Queue: key.Queue, Tenant: key.Tenant, User: key.User, At: f.at / 1e6}
		f.users[key] = a
	}
	a.Settle(f.at, f.life)
	return a
}

// Array returns the row of an array at the future time.
func (f *future) Array(id ident.Job) (*work.Job, bool) {
	j, ok := f.now.Array(id)
	if !ok {
		return nil, false
	}
	row := *j
	a := *j.Array
	a.Rows.Live = uint32(f.Live(id))
	row.Array = &a
	return &row, true
}

func (f *future) Index() uint64                           { return f.now.Index() }
func (f *future) Queue(name string) (*work.Queue, bool)   { return f.now.Queue(name) }
func (f *future) Policy() policy.Policy                   { return f.now.Policy() }
func (f *future) Now() int64                              { return f.at }
func (f *future) Total() accounts.Amount                  { return f.now.Total() }
func (f *future) Quota(tenant string) (*work.Quota, bool) { return f.now.Quota(tenant) }
func (f *future) ClassReason(work.ClassKey) reason.Reason { return "" }
func (f *future) Classes() iter.Seq[work.ClassKey]        { return slices.Values(f.classes) }

// Nodes are those of the present. Nodes that a maintenance has drained are enabled when it is over.
func (f *future) Nodes() iter.Seq[*work.Node] {
	return func(yield func(*work.Node) bool) {
		for n := range f.now.Nodes() {
			if !yield(f.later(n)) {
				return
			}
		}
	}
}

func (f *future) Node(id string) (*work.Node, bool) {
	n, ok := f.now.Node(id)
	if ok {
		n = f.later(n)
	}
	return n, ok
}

func (f *future) later(n *work.Node) *work.Node {
	if n.Drain == nil {
		return n
	}
	for w := range f.now.Windows() {
		if w.Until <= f.at && slices.Contains(w.Drained, n.ID) {
			return picture.Enabled(n)
		}
	}
	return n
}

// Budget is the tenant's present one: GPU hours are forecast as if the tenant kept the GPUs that it has now.
func (f *future) Budget(string) *budgets.Budget { return f.now.Budget(f.tenant) }
func (f *future) GPUModels() iter.Seq[work.GPU] { return f.now.GPUModels() }

// ClaimOf returns none: claimed places are free for the jobs that have the claims, and future counts running jobs only.
func (f *future) ClaimOf(ident.Job) (*claims.Claim, bool) { return nil, false }

// Mix counts the tenant's jobs only, because the shapes of other tenants' jobs must not show.
func (f *future) Mix() iter.Seq2[work.Shape, int] { return f.now.MixOf(f.tenant) }

// Promises are none, because reserved starts of other tenants must not show.
func (f *future) Promises() iter.Seq[*promises.Promise] {
	return slices.Values([]*promises.Promise(nil))
}

func (f *future) Job(id ident.Job) (*work.Job, bool) {
	j, ok := f.waiting[id]
	return j, ok
}

func (f *future) ClassOf(j *work.Job) work.ClassKey     { return f.now.ClassOf(j) }
func (f *future) LeasesOn(string) iter.Seq[*work.Lease] { return slices.Values([]*work.Lease(nil)) }

// Accounts are the accounts of the tenant's users.
func (f *future) Accounts() iter.Seq[*accounts.Account] {
	all := slices.Collect(maps.Values(f.users))
	slices.SortFunc(all, func(a, b *accounts.Account) int { return a.Key().Compare(b.Key()) })
	return slices.Values(all)
}

func (f *future) Lanes(class work.ClassKey) iter.Seq[work.LaneKey] {
	return slices.Values(f.lanes[class])
}

func (f *future) LaneJobs(lane work.LaneKey) iter.Seq[*work.Job] { return slices.Values(f.lines[lane]) }

func (f *future) LaneJobsAfter(key work.LaneKey, after *work.Job, buf []*work.Job) []*work.Job {
	line := f.lines[key]
	if after != nil {
		i, found := slices.BinarySearchFunc(line, after, order.InOrder)
		if found {
			i++
		}
		line = line[i:]
	}
	return buf[:copy(buf, line)]
}
