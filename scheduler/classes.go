package scheduler

import (
	"iter"
	"slices"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/changes"
	"github.com/mindcoordinator/mind/scheduler/order"
	"github.com/mindcoordinator/mind/scheduler/quota"
)

// classes are the classes of waiting jobs, each where it waits: at its limits, or at a search for places. A Planner keeps
// it from pass to pass, so that a pass looks only at what has changed; Plan makes a new one.
type classes struct {
	// all are in the order of the state. own are those of one job, which a pass always looks at.
	all, own []*class
	byKey    map[work.ClassKey]*class
	// shapes counts the classes by shape.
	shapes map[work.Shape]int
	room   *quota.Room
	// limited are the classes by their limits, and byLimits the same by name.
	limited  []*limited
	byLimits map[quota.Limits]*limited
	searches searches
	lanes    order.Kept
	// aging: the urgency of classes was found for jobs that age.
	aging bool
	// keep: the views are of one state, one after the other.
	keep bool
	// mark and explained are the positions after the last changes of lanes and of reasons that were read.
	mark      changes.Mark[*work.Lane]
	explained changes.Mark[*work.ClassKey]
	// number counts the passes. generation is that of the searches for which all classes have been looked at.
	number, generation uint64
	// changed are the classes to look at in the next pass, and untold those whose reason in the state may be wrong.
	changed, untold []*class
}

// changingView is a View that lists the lanes and the reasons that have changed. *fsm.View implements it.
type changingView interface {
	order.ChangingView
	ReasonsChanged() changes.Mark[*work.ClassKey]
}

// manyLimits is the number of limits that are kept without asking whether their classes still exist.
const manyLimits = 1024

// sync begins a pass: it updates the classes and the limits to a view.
func (k *classes) sync(v View, r *order.Ranking) {
	if k.number++; k.aging != (r.Policy.AgingStep > 0) {
		k.aging = !k.aging
		for _, c := range k.all {
			c.forgetUrgency()
		}
	}
	if k.room == nil {
		k.room = quota.New(v)
	} else {
		k.room.Sync(v)
	}
	changing, ok := v.(changingView)
	ok = ok && k.keep
	if !ok || !k.update(changing) {
		k.reset(v)
	}
	if ok {
		k.lanes.Sync(changing, r)
		k.mark, k.explained = changing.LanesChanged(), changing.ReasonsChanged()
	}
}

// reset forgets all classes, and reads them from a view.
func (k *classes) reset(v View) {
	k.all, k.own, k.limited, k.changed, k.untold = k.all[:0], k.own[:0], k.limited[:0], k.changed[:0], k.untold[:0]
	k.byKey, k.shapes, k.byLimits = map[work.ClassKey]*class{}, map[work.Shape]int{}, map[quota.Limits]*limited{}
	k.room.Reset(v)
	k.searches.empty()
	for key := range v.Classes() {
		k.all = append(k.all, k.newClass(&key))
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
			k.doubt(c)
		}
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
		if c != nil {
			c.forgetUrgency()
		}
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
	k.all = slices.Delete(k.all, at, at+1)
	k.remove(c)
}

func (k *classes) newClass(key *work.ClassKey) *class {
	c := &class{Class: order.NewClass(key), limits: k.room.Of(key)}
	k.byKey[*key] = c
	k.shapes[key.Shape]++
	if key.Own != 0 {
		k.own = append(k.own, c)
	} else {
		k.limit(c)
		k.changed = append(k.changed, c)
	}
	k.doubt(c)
	return c
}

func (k *classes) remove(c *class) {
	c.gone = true
	delete(k.byKey, c.Key)
	if k.shapes[c.Key.Shape]--; k.shapes[c.Key.Shape] == 0 {
		delete(k.shapes, c.Key.Shape)
	}
	if c.Key.Own != 0 {
		k.own = slices.DeleteFunc(k.own, func(other *class) bool { return other == c })
		k.searches.drop(c)
		return
	}
	c.waitAt(nil)
	k.free(c)
}

// shape iterates the shapes of all classes, in no order.
func (k *classes) shape() iter.Seq[work.Shape] {
	return func(yield func(work.Shape) bool) {
		for s := range k.shapes { // order-free: the labels that they select by are sorted
			if !yield(s) {
				return
			}
		}
	}
}

// place finds out where the classes wait that have changed, or whose limits or windows have. The searches have begun.
func (k *classes) place() {
	if k.generation != k.searches.generation {
		k.generation = k.searches.generation
		for _, g := range k.limited {
			g.limits.Moved(&g.stand, g.most)
		}
		k.lookAt(k.all)
	} else {
		for _, g := range k.limited {
			if g.limits.Moved(&g.stand, g.most) {
				k.lookAt(g.classes)
			}
		}
		if k.searches.rearranged() {
			for _, c := range k.all {
				if c.at != nil && c.at.key.kept != c.admitted.arrangement {
					k.lookAt([]*class{c})
				}
			}
		}
		k.lookAt(k.changed)
	}
	clear(k.changed)
	k.changed = k.changed[:0]
}

// lookAt finds out where classes wait.
func (k *classes) lookAt(all []*class) {
	for _, c := range all {
		if c.Key.Own != 0 || c.gone {
			continue
		}
		if c.limits.Bars(c.Key.Shape) != "" {
			c.waitAt(nil)
		} else {
			c.waitAt(k.searches.of(c))
		}
		k.doubt(c)
	}
}

// blocked reports whether a class was blocked by the last pass. The pass has not touched the classes that stay where
// they wait.
func (k *classes) blocked(c *class) bool { return c.pass != k.number || c.Blocked }

// touch prepares a class that takes part in a pass.
func (k *classes) touch(c *class) {
	c.pass, c.Blocked, c.tried, c.backfilled, c.Lanes = k.number, false, 0, 0, 0
}

// doubt notes that the reason in the state why the jobs of a class wait may be wrong.
func (k *classes) doubt(c *class) {
	if !c.doubted {
		c.doubted = true
		k.untold = append(k.untold, c)
	}
}

// rest forgets the view of the last pass, which may be large.
func (k *classes) rest() {
	k.room.Rest()
	k.lanes.Rest()
	k.searches.pass = nil
}
