package tables

import (
	"cmp"
	"math/bits"

	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/budgets"
	"github.com/mindcoordinator/mind/fsm/work/figures"
	"github.com/mindcoordinator/mind/fsm/work/typed"
)

// typedTables count the GPUs of each type that tenants hold, and queues with those below them.
type typedTables struct{ tenants, queues typed.Book }

func newTypedTables() typedTables { return typedTables{typed.NewBook(), typed.NewBook()} }

func (t *typedTables) freeze() typedTables {
	return typedTables{typed.Freeze(&t.tenants), typed.Freeze(&t.queues)}
}

func (t *typedTables) flush() {
	typed.Flush(&t.tenants)
	typed.Flush(&t.queues)
}

// HeldOfType is the number of GPUs of a type that a tenant holds, in thousandths, QueueTreeOfType the same of the jobs of a queue and of
// those below it.
func (s *rows) HeldOfType(tenant, name string) int { return s.typed.tenants.Held(tenant, name) }

// QueueTreeOfType says it of a queue.
func (s *rows) QueueTreeOfType(queue, name string) int { return s.typed.queues.Held(queue, name) }

// TypesHeld calls f for each type of GPU that a tenant holds something of.
func (v *View) TypesHeld(tenant string, f func(name string, milli int)) {
	v.typed.tenants.Of(tenant, f)
}

// holdTypes counts what a lease takes (1) or gives back (-1), by the types that its node has now.
func (s *State) holdTypes(j *work.Job, l *work.Lease, by int) {
	if n, ok := s.Node(l.Node); ok {
		s.holdTypesOn(n, j, l, by)
	}
}

func (s *State) holdTypesOn(n *work.Node, j *work.Job, l *work.Lease, by int) {
	eachType(n, l, func(name string, milli int) {
		typed.Hold(&s.typed.tenants, j.Tenant, name, by*milli)
		for q := range s.Lineage(j.Queue) {
			typed.Hold(&s.typed.queues, q.Name, name, by*milli)
		}
	})
}

// holdTypesInTree counts what a queue and those below it hold for another one and those above it.
func (s *State) holdTypesInTree(queue, above string, by int) {
	for _, name := range s.GPUTypes() {
		held := s.typed.queues.Held(queue, name)
		for q := range s.Lineage(above) {
			typed.Hold(&s.typed.queues, q.Name, name, by*held)
		}
	}
}

// retype counts the leases on a node again when its GPUs are others now. A node that is new may have leases: it was taken out
// while they lasted.
func (s *State) retype(was, is *work.Node) {
	if sameTypes(was.GPUs, is.GPUs) {
		return
	}
	for l := range s.LeasesOn(cmp.Or(is.ID, was.ID)) {
		if j, ok := s.Job(l.Job); ok {
			s.holdTypesOn(was, j, l, -1)
			s.holdTypesOn(is, j, l, 1)
			figures.Touch(&s.Sums, j.Tenant)
		}
	}
}

func sameTypes(a, b []work.GPU) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Index != b[i].Index || a[i].Type != b[i].Type {
			return false
		}
	}
	return true
}

// eachType calls f for the GPUs that a lease is of, with those of one type together if they are beside each other. A GPU without
// a type, or that the node does not have any more, is of none.
func eachType(n *work.Node, l *work.Lease, f func(name string, milli int)) {
	each := 1000
	if l.FractionMilli > 0 {
		each = int(l.FractionMilli)
	}
	name, milli := "", 0
	for m := l.GPUs; m != 0; m &= m - 1 {
		is := n.GPUType(uint8(bits.TrailingZeros64(m)))
		if is != name {
			if name != "" {
				f(name, milli)
			}
			name, milli = is, 0
		}
		milli += each
	}
	if name != "" {
		f(name, milli)
	}
}

// checkTypes holds that the counts by type are those of the leases, and I7 for the limits by type: one may be below what
// is held only if nothing of the type was granted since it was set, or a node has come back with other GPUs.
func checkTypes(s *rows, report kernel.Report) {
	type owned struct{ owner, name string }
	type sum struct {
		milli int
		last  uint64
		other bool
	}
	tenants, queues := map[owned]*sum{}, map[owned]*sum{}
	add := func(to map[owned]*sum, k owned, milli int, l *work.Lease, other bool) {
		if to[k] == nil {
			to[k] = &sum{}
		}
		to[k].milli += milli
		to[k].last = max(to[k].last, l.Token)
		to[k].other = to[k].other || other
	}
	for l := range s.Leases() {
		j, ok := s.Job(l.Job)
		n, there := s.Node(l.Node)
		if !ok || !there {
			continue
		}
		eachType(n, l, func(name string, milli int) {
			other := n.RegisteredAt > l.GrantedAt
			add(tenants, owned{j.Tenant, name}, milli, l, other)
			for q := range s.Lineage(j.Queue) {
				add(queues, owned{q.Name, name}, milli, l, other)
			}
		})
	}
	for _, b := range []struct {
		of   string
		book *typed.Book
		want map[owned]*sum
	}{{"tenant", &s.typed.tenants, tenants}, {"queue", &s.typed.queues, queues}} {
		n := 0
		b.book.All(func(owner, name string, milli int) {
			n++
			if w := b.want[owned{owner, name}]; w == nil || w.milli != milli {
				report("%s %q holds %d thousandths of %s GPUs by count, and its leases differ", b.of, owner, milli, name)
			}
		})
		if n != len(b.want) {
			report("%d figures of %ss by type of GPU instead of %d", n, b.of, len(b.want))
		}
	}
	over := func(of, owner string, limits typed.Limits, since uint64, held map[owned]*sum) {
		for _, name := range s.GPUTypes() {
			most, ok := limits.Of(name)
			if h := held[owned{owner, name}]; ok && h != nil && h.milli > 1000*int(most) && h.last > since && !h.other {
				report("I7: %s %q holds %s %s GPUs of %d, some granted at index %d, after the limit of index %d", of, owner, work.FormatGPUs(h.milli), name, most, h.last, since)
			}
		}
	}
	for q := range s.Quotas() {
		over("tenant", q.Tenant, q.MaxByType, q.Revision, tenants)
	}
	moved := uint64(0)
	for q := range s.Queues() {
		moved = max(moved, q.Moved)
	}
	for q := range s.Queues() {
		over("queue", q.Name, q.MaxByType, max(q.Revision, moved), queues)
	}
}

// checkBudgets holds I16.
func checkBudgets(s *rows, report kernel.Report) {
	if _, any := s.NextMonth(); !any {
		return
	}
	held := map[string]int{}
	for l := range s.Leases() {
		if j, ok := s.Job(l.Job); ok {
			held[j.Tenant] += l.GPUMilli()
		}
	}
	s.CheckBudgets(s.meta.Now, func(tenant string) int { return held[tenant] }, func(tenant string) (int32, uint64, bool) {
		q, ok := s.Quota(tenant)
		if !ok || q.MaxGPUHours == nil {
			return 0, 0, false
		}
		return *q.MaxGPUHours, q.Revision, true
	}, report)
}

// checkGuarantees holds that what the parts of a queue are guaranteed is guaranteed to the queue.
func checkGuarantees(s *rows, report kernel.Report) {
	parts := map[string]uint64{}
	for q := range s.Queues() {
		if q.Parent != "" {
			parts[q.Parent] += uint64(q.Guaranteed)
		}
	}
	for q := range s.Queues() {
		if parts[q.Name] > uint64(q.Guaranteed) {
			report("I16: the parts of queue %q are guaranteed %d GPUs, and the queue %d", q.Name, parts[q.Name], q.Guaranteed)
		}
	}
}

// SettleBudgets brings the budgets that a command has touched up to date.
func (s *State) SettleBudgets(now int64, index uint64) {
	budgets.Settle(&s.Meter, now, index, func(tenant string) int { return s.UsageNow(tenant).GPUMilli })
}
