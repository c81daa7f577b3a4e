package order

import "github.com/mindcoordinator/mind/fsm/work/accounts"

// keptUsers are the users of the lanes that are kept, in no order.
type keptUsers struct {
	all   []*keptUser
	known map[userKey]*keptUser
}

type userKey struct{ queue, tenant, user string }

// keptUser has the lanes of a user in one queue.
type keptUser struct {
	userKey
	// at is the index in the list of users.
	at    int
	lanes []*keptLane
	// urgency is that of its most urgent job, if bounded is set.
	urgency Urgency
	bounded bool
	// stands is the lane that stands for all of them in a tree.
	stands Lane
}

func (u *keptUsers) add(l *keptLane) {
	key := userKey{l.Key.Class.Queue, l.Key.Tenant, l.Key.User}
	of := u.known[key]
	if of == nil {
		of = &keptUser{userKey: key, at: len(u.all)}
		u.known[key] = of
		u.all = append(u.all, of)
	}
	l.user, l.atUser = of, len(of.lanes)
	of.lanes = append(of.lanes, l)
}

func (u *keptUsers) remove(l *keptLane) {
	of := l.user
	of.lanes = dropAt(of.lanes, l.atUser)
	if l.atUser < len(of.lanes) {
		of.lanes[l.atUser].atUser = l.atUser
	}
	if len(of.lanes) > 0 {
		return
	}
	delete(u.known, of.userKey)
	u.all = dropAt(u.all, of.at)
	if of.at < len(u.all) {
		u.all[of.at].at = of.at
	}
}

// dropAt removes an element, and puts the last one in its place.
func dropAt[T any](all []*T, at int) []*T {
	last := len(all) - 1
	all[at], all[last] = all[last], nil
	return all[:last]
}

// above returns at most the Rank.Above of each job of a user.
func (u *keptUser) above(r *Ranking) int {
	if !u.bounded {
		u.bounded, u.urgency = true, nobody
		for _, l := range u.lanes {
			u.urgency.addAll(l.oldest)
		}
	}
	return r.Soonest(u.urgency)
}

// stand returns a lane that comes before all lanes of the user.
func (u *keptUser) stand(r *Ranking) *Lane {
	u.stands = Lane{user: u, Rank: Rank{Above: u.above(r), need: -1}}
	return &u.stands
}

// enlist adds the users of the lanes that are kept to the tree, each with one lane that stands for all of them: those of
// a user are opened when it is the user's turn. If the classes have few lanes for so many users, or if it matters how many
// GPUs the first job of a user needs, it adds the lanes at once.
func (t *Tree) enlist() {
	if t.kept == nil {
		return
	}
	if t.lanes() < 2*len(t.kept.users.all) && !t.kept.ByUser {
		for _, c := range t.opened {
			for _, l := range c.lanes {
				t.begin(t.userOf(&l.Key), l)
			}
		}
		return
	}
	for _, u := range t.kept.users.all {
		n := t.userOf(&u.lanes[0].Key)
		n.lanes = append(n.lanes, u.stand(t.ranking))
	}
	if t.nested {
		for _, u := range t.kept.users.all {
			n := t.userOf(&u.lanes[0].Key)
			n.lanes = n.lanes[:0]
			t.beginAll(n, u)
		}
	}
}

// lanes counts the lanes of the classes that were opened.
func (t *Tree) lanes() (n int) {
	for _, c := range t.opened {
		n += len(c.lanes)
	}
	return n
}

// begin adds a lane that is kept to a user.
func (t *Tree) begin(n *node, l *keptLane) {
	l.lane.begin(t.ranking, &l.Key, l.class.class, l.oldest)
	n.lanes = append(n.lanes, &l.lane)
}

// beginAll adds the lanes of a user that are of opened classes. Those of classes that are blocked by now are among them:
// until its turn, the need of such a lane counts for the guarantee of its queue.
func (t *Tree) beginAll(n *node, u *keptUser) {
	for _, l := range u.lanes {
		if l.class.opened == t.kept.number {
			t.begin(n, l)
		}
	}
}

// arrive opens the lanes of the first user, for which one lane has stood.
func (t *Tree) arrive() {
	n := t.leaf()
	u := n.lanes[0].user
	n.lanes = removeFirst(n.lanes)
	t.beginAll(n, u)
	heapify(n.lanes, laneBefore)
	t.rise(n, accounts.Usage{})
}
