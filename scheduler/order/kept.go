package order

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/changes"
)

// ChangingView is a View that lists the lanes that have changed. *fsm.View implements it.
type ChangingView interface {
	View
	LanesChanged() changes.Mark[*work.Lane]
	NumberedLanes(class work.ClassKey) iter.Seq[*work.Lane]
	OldestBelow(lane uint32, priority int) *work.Job
}

// Kept keeps the lanes of the classes that have fitted, and the oldest jobs of each lane, from pass to pass. Each
// pass reads only the lanes that have changed.
type Kept struct {
	// ByUser: a tree opens the lanes of a user when it is the user's turn, even if there are few. Tests set it, because
	// their clusters have few lanes.
	ByUser bool
	view   ChangingView
	// mark is the position after the last change that was read. stratified is Ranking.stratified at that time.
	mark       changes.Mark[*work.Lane]
	stratified bool
	classes    map[work.ClassKey]*keptClass
	lanes      map[uint32]*keptLane
	users      keptUsers
	// number counts the passes.
	number uint64
}

// keptClass has the lanes of a class. gone: they are not kept up to date any more.
type keptClass struct {
	lanes []*keptLane
	gone  bool
	// class is the class as which it was opened last, in the pass with the number opened.
	class  *Class
	opened uint64
}

type keptLane struct {
	*work.Lane
	class *keptClass
	user  *keptUser
	// at is the index of the lane in the list of its class, and atUser in that of its user.
	at, atUser int
	oldest     []oldest
	// lane is the memory of the lane in the tree of a pass.
	lane Lane
}

// Sync updates the lanes to a view.
func (k *Kept) Sync(v ChangingView, r *Ranking) {
	changed, known := changes.Between(k.mark, v.LanesChanged())
	if !known || k.stratified != r.stratified() {
		for _, c := range k.classes { // order-free: each is marked by itself
			c.gone = true
		}
		*k = Kept{ByUser: k.ByUser, number: k.number, stratified: r.stratified(), classes: map[work.ClassKey]*keptClass{}, lanes: map[uint32]*keptLane{}, users: keptUsers{known: map[userKey]*keptUser{}}}
	} else {
		k.view = v
		for lane := range changed {
			if c, ok := k.classes[lane.Key.Class]; ok {
				k.read(c, lane)
			}
		}
	}
	k.view, k.mark, k.number = v, v.LanesChanged(), k.number+1
}

// Rest forgets the view, which may be large, until the next Sync.
func (k *Kept) Rest() { k.view = nil }

// Ready reports whether Sync has read a view since the last Rest.
func (k *Kept) Ready() bool { return k.view != nil }

// of returns the lanes of a class.
func (k *Kept) of(c *Class) []*keptLane {
	if c.kept == nil || c.kept.gone {
		c.kept = k.classes[c.Key]
	}
	if c.kept == nil {
		c.kept = &keptClass{}
		k.classes[c.Key] = c.kept
		for lane := range k.view.NumberedLanes(c.Key) {
			k.read(c.kept, lane)
		}
	}
	return c.kept.lanes
}

// read reads the oldest jobs of a lane. A lane without jobs is removed, and so is a class without lanes.
func (k *Kept) read(class *keptClass, lane *work.Lane) {
	l := k.lanes[lane.Number]
	if l == nil {
		l = &keptLane{Lane: lane, class: class, at: len(class.lanes)}
		k.lanes[lane.Number] = l
		class.lanes = append(class.lanes, l)
		k.users.add(l)
	}
	l.user.bounded = false
	l.oldest = l.oldest[:0]
	for j := k.view.OldestBelow(lane.Number, 256); j != nil; j = k.view.OldestBelow(lane.Number, int(j.Priority)) {
		l.oldest = append(l.oldest, oldestJob(j))
		if !k.stratified {
			break
		}
	}
	if len(l.oldest) > 0 {
		return
	}
	delete(k.lanes, lane.Number)
	k.users.remove(l)
	last := class.lanes[len(class.lanes)-1]
	class.lanes[l.at], last.at = last, l.at
	class.lanes[len(class.lanes)-1] = nil
	if class.lanes = class.lanes[:len(class.lanes)-1]; len(class.lanes) == 0 {
		class.gone = true
		delete(k.classes, lane.Key.Class)
	}
}

// Ahead iterates the first jobs of each lane of a class, in no order.
func Ahead(v View, r *Ranking, c *Class) iter.Seq[Ranked] {
	return func(yield func(Ranked) bool) {
		for key := range v.Lanes(c.Key) {
			l := openLane(v, r, key, c)
			if l == nil {
				continue
			}
			l.readAll(v, r)
			for i := range l.strata {
				for _, job := range l.strata[i].rest {
					if !yield(job) {
						return
					}
				}
			}
		}
	}
}

// openLane reads the oldest jobs of a lane; nil: the lane has no jobs.
func openLane(v View, r *Ranking, key work.LaneKey, c *Class) *Lane {
	oldest := oldestOf(v, r, key)
	if len(oldest) == 0 {
		return nil
	}
	l := &Lane{}
	l.begin(r, &key, c, oldest)
	return l
}

// oldestOf returns the oldest job of each priority of a lane; of the highest one alone if the ranking reads no further.
func oldestOf(v View, r *Ranking, key work.LaneKey) []oldest {
	var all []oldest
	for found := v.LaneJobsAfter(key, nil, r.one[:]); len(found) > 0; {
		at := found[0]
		all = append(all, oldestJob(at))
		if !r.stratified() || at.Priority == 0 {
			break
		}
		found = v.LaneJobsAfter(key, &work.Job{Priority: at.Priority, ID: ^ident.Job(0) - 1}, r.one[:])
	}
	return all
}
