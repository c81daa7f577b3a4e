package scheduler

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/changes"
	"github.com/mindcoordinator/mind/scheduler/order"
	"github.com/mindcoordinator/mind/scheduler/quota"
)

// classes are the classes of waiting jobs with their limits and searches. A Planner keeps it from pass to pass, so that a
// pass reads only what has changed; Plan makes a new one.
type classes struct {
	// all are in the order of the state.
	all      []*class
	byKey    map[work.ClassKey]*class
	room     *quota.Room
	searches searches
	lanes    order.Kept
	// keep: the views are of one state, one after the other.
	keep bool
	// mark and explained are the positions after the last changes of lanes and of reasons that were read.
	mark      changes.Mark[*work.Lane]
	explained changes.Mark[*work.ClassKey]
}

// changingView is a View that lists the lanes and the reasons that have changed. *fsm.View implements it.
type changingView interface {
	order.ChangingView
	ReasonsChanged() changes.Mark[*work.ClassKey]
}

// class is a group of waiting jobs with the same needs and limits.
type class struct {
	order.Class
	limits quota.Limits
	// search finds its places, and admitted says what the windows do to it. Both are of the given generation of
	// searches.
	search     *search
	admitted   *admitted
	generation uint64
	// soonest is at most the order.Rank.Above of each of its jobs, if the class was ranked in the pass. tried counts the
	// jobs that were tried on places that are kept for reserved starts, and backfilled those that got some.
	ranked                     bool
	soonest, tried, backfilled int
	// why is the reason in the state why its jobs wait, if it was read.
	why   reason.Reason
	known bool
}

// manyLimits is the number of limits that are kept without asking whether their classes still exist.
const manyLimits = 1024

// sync updates the classes and the limits to a view.
func (k *classes) sync(v View, r *order.Ranking) {
	if k.room == nil {
		k.room = quota.New(v)
	} else {
		k.room.Sync(v)
	}
	changing, ok := v.(changingView)
	ok = ok && k.keep
	if !ok || !k.update(changing) {
		k.all, k.byKey = k.all[:0], map[work.ClassKey]*class{}
		k.room.Reset(v)
		for key := range v.Classes() {
			c := k.newClass(&key)
			k.all = append(k.all, c)
		}
	}
	if ok {
		k.lanes.Sync(changing, r)
		k.mark, k.explained = changing.LanesChanged(), changing.ReasonsChanged()
	}
}

// update reads what has changed. It returns false if that is not known, or if most of the limits are of classes that are
// gone.
func (k *classes) update(v changingView) bool {
	if k.room.Len() > 2*len(k.all)+manyLimits {
		return false
	}
	lanes, known := changes.Between(k.mark, v.LanesChanged())
	reasons, also := changes.Between(k.explained, v.ReasonsChanged())
	if !known || !also {
		return false
	}
	var last *work.Lane
	for lane := range lanes {
		if lane != last {
			k.look(v, &lane.Key.Class)
		}
		last = lane
	}
	for key := range reasons {
		if c := k.byKey[*key]; c != nil {
			c.known = false
		}
	}
	for _, c := range k.all {
		c.Blocked, c.ranked, c.tried, c.backfilled, c.Lanes = false, false, 0, 0, 0
	}
	return true
}

// look adds a class that has jobs now, or removes one that has none.
func (k *classes) look(v changingView, key *work.ClassKey) {
	c, exists := k.byKey[*key], false
	for range v.NumberedLanes(*key) {
		exists = true
		break
	}
	if exists == (c != nil) {
		return
	}
	at, _ := slices.BinarySearchFunc(k.all, key, func(c *class, key *work.ClassKey) int {
		switch {
		case work.ClassLess(c.Key, *key):
			return -1
		case work.ClassLess(*key, c.Key):
			return 1
		}
		return 0
	})
	if exists {
		k.all = slices.Insert(k.all, at, k.newClass(key))
		return
	}
	delete(k.byKey, *key)
	k.all = slices.Delete(k.all, at, at+1)
	k.searches.drop(c)
}

func (k *classes) newClass(key *work.ClassKey) *class {
	c := &class{Class: order.NewClass(key), limits: k.room.Of(key)}
	k.byKey[*key] = c
	return c
}

// shapes iterates the shapes of all classes.
func (k *classes) shapes(yield func(work.Shape) bool) {
	for _, c := range k.all {
		if !yield(c.Key.Shape) {
			return
		}
	}
}

// rest forgets the view of the last pass, which may be large.
func (k *classes) rest() {
	k.room.Rest()
	k.lanes.Rest()
	k.searches.pass = nil
}

// waits returns the reason in the state why the jobs of a class wait.
func (c *class) waits(v View) reason.Reason {
	if !c.known {
		c.why, c.known = v.ClassReason(c.Key), true
	}
	return c.why
}
