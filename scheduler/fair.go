package scheduler

import (
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/accounts"
)

// tree is the waiting jobs in the order in which they are offered. The most urgent ones come first; among equally urgent ones
// it goes down the tree of queues, from there to the tenants of a queue, the users of a tenant and the jobs of a user, and
// at each step to the one with the smallest share: what it had lately and has now of the resource of which it has most of
// the cluster (dominant resource fairness), divided by its weight. Of equal shares the one with the older job comes first.
//
// A placement is charged at once, to all that it goes through, so jobs that come at the same time take turns.
type tree struct {
	view    View
	ranking *ranking
	// per is one over what the cluster has of each resource; 0 where it has none.
	per    [3]float64
	root   *node
	queues map[string]*node
	users  int
}

// node is a queue, the jobs of a queue itself, the jobs of a tenant there, or those of a user.
type node struct {
	parent *node
	// perWeight is one over its weight.
	perWeight float64
	usage     accounts.Usage
	share     float64
	// children are the nodes below it, byName the same by name where they are tenants or users. heap has those with jobs
	// that may still be offered, the one whose turn it is first; lanes are the same of a user.
	children []*node
	byName   map[string]*node
	heap     []*node
	lanes    []*lane
	// best is the lane with the job to offer first; nil: there is none left.
	best *lane
	// own is, of a queue, the node of its own jobs, which is beside the queues below it.
	own *node
}

func newTree(v View, r *ranking) *tree {
	t := &tree{view: v, ranking: r, root: &node{perWeight: 1}, queues: map[string]*node{}}
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

// named returns the child of a name; it is made when it is first asked for.
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

// queue returns the node of a queue, and makes those of the queues that it is a part of.
func (t *tree) queue(name string) *node {
	if n, ok := t.queues[name]; ok {
		return n
	}
	parent, weight := t.root, uint32(1)
	if q, ok := t.view.Queue(name); ok {
		weight = max(q.Weight, 1)
		if q.Parent != "" {
			parent = t.queue(q.Parent)
		}
	}
	n := parent.child()
	n.perWeight, n.own = 1/float64(weight), n.child()
	t.queues[name] = n
	return n
}

// add puts a lane in.
func (t *tree) add(l *lane) {
	tenant := t.queue(l.key.Class.Queue).own.named(l.key.Tenant)
	before := len(tenant.children)
	user := tenant.named(l.key.User)
	t.users += len(tenant.children) - before
	user.lanes = append(user.lanes, l)
}

// ready orders the tree, once all lanes are in. What was used is read only if there is anybody to compare with.
func (t *tree) ready() {
	if t.users > 1 {
		t.charge()
	}
	t.settle(t.root)
}

// charge reads the accounts into the nodes that are there.
func (t *tree) charge() {
	now, life := t.view.Now(), accounts.Life(t.view.Policy().HalfLife)
	first, last := true, accounts.Key{}
	var queue, tenant *node
	for a := range t.view.Accounts() {
		if first || a.Queue != last.Queue {
			queue = t.nearest(a.Queue)
			first, last, tenant = false, accounts.Key{Queue: a.Queue}, nil
		}
		if queue == nil {
			continue // Nothing waits in it, or beside it.
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

// nearest returns the node of a queue, or of the first of those that it is a part of which has one; nil: none has.
func (t *tree) nearest(name string) *node {
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

// settle computes the shares of a node and all below it, and orders what is in them.
func (t *tree) settle(n *node) {
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

func (t *tree) shareOf(n *node) float64 {
	u := &n.usage
	return max(float64(u.GPUMilli)*t.per[0], float64(u.CPUs)*t.per[1], float64(u.Mem)*t.per[2]) * n.perWeight
}

// turn says whose turn it is of two nodes that are beside each other.
func turn(a, b *node) bool {
	if x, y := a.best.rank.above, b.best.rank.above; x != y {
		return x < y
	}
	if a.share != b.share {
		return a.share < b.share
	}
	return laneBefore(a.best, b.best)
}

func laneBefore(a, b *lane) bool { return a.rank.before(b.rank) }

// first returns the lane with the job to offer now; nil at the end.
func (t *tree) first() *lane {
	for t.root.best != nil {
		l := t.root.best
		switch {
		case l.class.blocked:
			t.advance(false, accounts.Usage{})
		case l.head == nil:
			l.settle(t.view, t.ranking)
			t.advance(true, accounts.Usage{})
		default:
			return l
		}
	}
	return nil
}

// placed charges the first job, and moves on.
func (t *tree) placed() {
	l := t.root.best
	t.advance(l.next(t.view, t.ranking), l.class.costs)
}

// advance moves on from the first lane, which goes on or not, after a job of it was given so much.
func (t *tree) advance(goesOn bool, given accounts.Usage) {
	n := t.root
	for n.lanes == nil {
		n = n.heap[0]
	}
	if !goesOn {
		n.lanes = removeFirst(n.lanes)
	}
	sink(n.lanes, 0, laneBefore)
	n.best = nil
	if len(n.lanes) > 0 {
		n.best = n.lanes[0]
	}
	for ; n != t.root; n = n.parent {
		n.usage.Add(given)
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
