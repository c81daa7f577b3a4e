package order

import (
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/accounts"
)

// Tree has the waiting jobs in the order in which they are offered. The most urgent ones come first. Among equally
// urgent ones the order goes down the tree of queues, from a queue to its tenants, from a tenant to its users and from
// a user to the user's jobs, and at each step to the node with the smallest share. A share is the past and present
// usage of the resource of which the node has the largest part of the cluster (dominant resource fairness), divided by
// the weight. Of equal shares, the one with the older job comes first.
//
// A placement is charged at once to all nodes on the way to its job, so users that submit at the same time take turns.
type Tree struct {
	view    View
	ranking *Ranking
	// per is the reciprocal of the cluster's capacity of each resource; 0 where it has none.
	per    [3]float64
	root   *node
	queues map[string]*node
	users  int
	// opened are the classes whose lanes are kept, and kept has them; nil: there are none. nested: a queue below another
	// one has a guarantee.
	opened []*keptClass
	kept   *Kept
	nested bool
}

// node is a queue, the queue's own jobs, those of a tenant in the queue, or those of a user.
type node struct {
	parent *node
	// perWeight is the reciprocal of the weight.
	perWeight float64
	usage     accounts.Usage
	share     float64
	// children are the nodes below, and byName the same nodes by name if they are tenants or users. heap has the
	// children with jobs that may still be offered, ordered by turn. lanes is the heap of a user's lanes.
	children []*node
	byName   map[string]*node
	heap     []*node
	lanes    []*Lane
	// best is the lane with the job to offer first; nil: no job is left.
	best *Lane
	// guaranteed is the guarantee of a queue (0: none), and holds the GPUs of the queue and of those below it, both in
	// thousandths of a GPU.
	guaranteed, holds int
	// own is the child of a queue that has its own jobs, a sibling of the queues below.
	own *node
}

// NewTree returns a tree without lanes. Open adds them, and Ready orders them.
func NewTree(v View, r *Ranking) *Tree {
	t := &Tree{view: v, ranking: r, root: &node{perWeight: 1}, queues: map[string]*node{}}
	total := v.Total()
	for i, n := range [...]uint64{total.GPUMilli, total.CPUs, total.Mem} {
		if n > 0 {
			t.per[i] = 1 / float64(n)
		}
	}
	return t
}

func (n *node) child() *node {
	c := &node{parent: n, perWeight: 1}
	n.children = append(n.children, c)
	return c
}

// named returns the child with a name, and makes it if there is none.
func (n *node) named(name string) *node {
	c, ok := n.byName[name]
	if !ok {
		if n.byName == nil {
			n.byName = map[string]*node{}
		}
		c = n.child()
		n.byName[name] = c
	}
	return c
}

// queue returns the node of a queue, and makes it and those of the queues above it if there are none.
func (t *Tree) queue(name string) *node {
	if n, ok := t.queues[name]; ok {
		return n
	}
	parent, weight, guaranteed := t.root, uint32(1), 0
	if q, ok := t.view.Queue(name); ok {
		weight, guaranteed = max(q.Weight, 1), int(q.Guaranteed)
		if q.Parent != "" {
			parent = t.queue(q.Parent)
			t.nested = t.nested || guaranteed > 0
		}
	}
	n := parent.child()
	n.perWeight, n.own = 1/float64(weight), n.child()
	if guaranteed > 0 {
		n.guaranteed, n.holds = 1000*guaranteed, t.view.QueueTreeGPUs(name)
	}
	t.queues[name] = n
	return n
}

// Open adds the lanes of a class to the tree.
func (t *Tree) Open(c *Class) {
	for key := range t.view.Lanes(c.Key) {
		if l := openLane(t.view, t.ranking, key, c); l != nil {
			t.add(l)
		}
	}
}

// OpenKept does the same, with the lanes that were kept.
func (t *Tree) OpenKept(c *Class, k *Kept) {
	lanes := k.of(c)
	if len(lanes) == 0 {
		return
	}
	c.Lanes, c.kept.class, c.kept.opened = c.Lanes+len(lanes), c, k.number
	t.kept, t.opened = k, append(t.opened, c.kept)
}

// add adds a lane to the tree.
func (t *Tree) add(l *Lane) {
	user := t.userOf(l.key)
	user.lanes = append(user.lanes, l)
	l.Class.Lanes++
}

// userOf returns the node of the user of a lane, and makes it if there is none.
func (t *Tree) userOf(key *work.LaneKey) *node {
	tenant := t.queue(key.Class.Queue).own.named(key.Tenant)
	before := len(tenant.children)
	user := tenant.named(key.User)
	t.users += len(tenant.children) - before
	return user
}

// Ready orders the tree after all lanes were added. It reads the accounts only if there is more than one user.
func (t *Tree) Ready() {
	t.enlist()
	if t.users > 1 {
		t.charge()
	}
	t.settle(t.root)
}

// charge adds the accounts to the usage of the nodes. An account of a tenant or user without waiting jobs counts for
// the nodes above.
func (t *Tree) charge() {
	now, life := t.view.Now(), accounts.Life(t.view.Policy().HalfLife)
	first, last := true, accounts.Key{}
	var queue, tenant *node
	for a := range t.view.Accounts() {
		if first || a.Queue != last.Queue {
			queue = t.nearest(a.Queue)
			first, last, tenant = false, accounts.Key{Queue: a.Queue}, nil
		}
		if queue == nil {
			continue // No job waits in the queue, or in one above it.
		}
		if tenant == nil || a.Tenant != last.Tenant {
			tenant, last.Tenant = queue, a.Tenant
			if t.queues[a.Queue] == queue {
				if tenant = queue.own.byName[a.Tenant]; tenant == nil {
					tenant = queue.own
				}
			}
		}
		at := tenant
		if user, ok := tenant.byName[a.User]; ok && tenant != queue.own {
			at = user
		}
		for u := a.Usage(now, life); at != nil; at = at.parent {
			at.usage.Add(u)
		}
	}
}

// nearest returns the node of a queue, or of the nearest queue above that has a node; nil: none has.
func (t *Tree) nearest(name string) *node {
	for range work.MaxQueueDepth {
		if n, ok := t.queues[name]; ok {
			return n
		}
		q, ok := t.view.Queue(name)
		if !ok || q.Parent == "" {
			return nil
		}
		name = q.Parent
	}
	return nil
}

// settle computes the shares of a node and of all nodes below it, and orders their heaps.
func (t *Tree) settle(n *node) {
	n.share = t.shareOf(n)
	if len(n.lanes) > 0 {
		heapify(n.lanes, laneBefore)
		n.best = n.lanes[0]
		return
	}
	for _, c := range n.children {
		if t.settle(c); c.best != nil {
			n.heap = append(n.heap, c)
		}
	}
	if len(n.heap) > 0 {
		heapify(n.heap, turn)
		n.best = n.heap[0].best
	}
}

func (t *Tree) shareOf(n *node) float64 {
	u := &n.usage
	return max(float64(u.GPUMilli)*t.per[0], float64(u.CPUs)*t.per[1], float64(u.Mem)*t.per[2]) * n.perWeight
}

// turn reports whether it is the turn of a rather than of its sibling b.
func turn(a, b *node) bool {
	if a.guaranteed|b.guaranteed != 0 {
		if x, y := a.saturation(), b.saturation(); x != y {
			return x < y
		}
	}
	if x, y := a.best.Rank.Above, b.best.Rank.Above; x != y {
		return x < y
	}
	if a.share != b.share {
		return a.share < b.share
	}
	return laneBefore(a.best, b.best)
}

// saturation returns the part of its guarantee that a queue holds, if its next job fits into the rest of the guarantee;
// 1 otherwise. Queues below their guarantee come before all others, the least saturated first.
func (n *node) saturation() float64 {
	if n.guaranteed == 0 {
		return 1
	}
	if n.best.user != nil {
		return min(1, float64(n.holds)/float64(n.guaranteed)) // It is not known what the jobs need.
	}
	if need := n.best.Class.Key.Shape.GPUMilli(); need == 0 || n.holds+need > n.guaranteed {
		return 1
	}
	return float64(n.holds) / float64(n.guaranteed)
}

// laneBefore compares two lanes by rank. Bounds may be equal: then the oldest jobs decide, so that the order does not depend
// on that in which lanes were added.
func laneBefore(a, b *Lane) bool {
	if a.Rank == b.Rank {
		return a.first.Older(b.first)
	}
	return a.Rank.before(b.Rank)
}

// First returns the lane with the next job to offer; nil: no job is left.
func (t *Tree) First() *Lane {
	for t.root.best != nil {
		l := t.root.best
		switch {
		case l.user != nil:
			t.arrive()
		case l.Class.Blocked:
			t.advance(false, accounts.Usage{})
		case l.Head == nil:
			l.settle(t.view, t.ranking)
			t.advance(true, accounts.Usage{})
		default:
			return l
		}
	}
	return nil
}

// Placed charges the first job, and moves its lane to the next job.
func (t *Tree) Placed() {
	l := t.root.best
	t.advance(l.next(t.view, t.ranking), l.Class.Costs)
}

// Skip moves the first lane past its first job; past all elements if that is an array.
func (t *Tree) Skip() {
	t.advance(t.root.best.nextJob(t.view, t.ranking), accounts.Usage{})
}

// advance charges the first lane for a placed job, and sorts it again; it removes the lane if goesOn is false.
func (t *Tree) advance(goesOn bool, given accounts.Usage) {
	n := t.leaf()
	if !goesOn {
		n.lanes[0].Class.Lanes--
		n.lanes = removeFirst(n.lanes)
	}
	sink(n.lanes, 0, laneBefore)
	t.rise(n, given)
}

// leaf returns the user of the first lane.
func (t *Tree) leaf() *node {
	n := t.root
	for n.lanes == nil {
		n = n.heap[0]
	}
	return n
}

// rise charges the first user, whose lanes have changed, and sorts it again.
func (t *Tree) rise(n *node, given accounts.Usage) {
	n.best = nil
	if len(n.lanes) > 0 {
		n.best = n.lanes[0]
	}
	for ; n != t.root; n = n.parent {
		n.usage.Add(given)
		n.holds += int(given.GPUMilli >> accounts.UsageBits)
		n.share = t.shareOf(n)
		p := n.parent
		if n.best == nil {
			p.heap = removeFirst(p.heap)
		}
		sink(p.heap, 0, turn)
		p.best = nil
		if len(p.heap) > 0 {
			p.best = p.heap[0].best
		}
	}
}
