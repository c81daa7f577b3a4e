package waiting

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/changes"
)

const record = 31

// Lists has the waiting jobs. Its methods read; what changes it is functions, so that a frozen copy that is embedded in a view
// offers none of it.
type Lists struct {
	reasons kernel.Table[work.ClassKey, *classReason]
	// waiting lists the jobs by lane, then priority, then age; queued lists them by queue, then priority, then age.
	waiting kernel.Index[waitingJob]
	queued  kernel.Index[queuedJob]
	classes kernel.Index[work.ClassKey]
	lanes   kernel.Index[laneNumber]
	// changed is up to where the log of the lanes goes.
	changed changes.Mark[*work.Lane]
	// explained is up to where the log of the reasons goes.
	explained changes.Mark[*work.ClassKey]
	// queues are numbered, because numbers compare quickly.
	queues kernel.Index[queueNumber]
	// blocks counts the jobs by queue, priority and age.
	blocks kernel.Index[block]
	// work is nil in a frozen copy.
	work *working
}

// working has values that the applying goroutine keeps beside the lists to be quick. All of it follows from them. Its maps are looked
// into, never ranged over.
type working struct {
	classes map[work.ClassKey]*classSlot
	lanes   map[work.LaneKey]*laneSlot
	queues  map[string]uint32
	blocks  map[blockKey]*blockSlot
	// changed are the lanes in which a job began or stopped to wait, or has a new row.
	changed *changes.Log[*work.Lane]
	// explained are the classes whose reason has changed.
	explained *changes.Log[*work.ClassKey]
	// The slots that changed since the last flush, in the order of the changes.
	dirtyBlocks []*blockSlot
	dirtyLanes  []*laneSlot
	nextLane    uint32
}

type waitingJob struct {
	// place is the number of the lane, then 255 - priority.
	place uint64
	id    ident.Job
	job   *work.Job
}

type queuedJob struct {
	// place is the number of the queue, then 255 - priority.
	place uint64
	id    ident.Job
}

type laneNumber struct {
	key    work.LaneKey
	number uint32
}

type queueNumber struct {
	name   string
	number uint32
}

// classReason is why the jobs of a class wait, as the scheduler last said.
type classReason struct {
	Class  work.ClassKey `cbor:"1,keyasint,omitempty"`
	Reason reason.Reason `cbor:"2,keyasint,omitempty"`
}

func (r *classReason) AppendFields(f kernel.Fields) kernel.Fields {
	f = r.Class.Shape.AppendFields(f.Text(r.Class.Queue)).Text(string(r.Reason))
	return f.Num(uint64(r.Class.Own)).Text(r.Class.Tenant).Num(uint64(r.Class.Array)).Num(uint64(r.Class.Term))
}

type classSlot struct {
	key  work.ClassKey
	jobs int
}

type laneSlot struct {
	lane  *work.Lane
	jobs  int
	dirty bool
}

func (l *laneSlot) number() uint32 { return l.lane.Number }

func (w *working) touch(l *laneSlot) {
	if !l.dirty {
		l.dirty = true
		w.dirtyLanes = append(w.dirtyLanes, l)
	}
}

// New returns empty lists.
func New() Lists {
	return Lists{
		reasons: kernel.NewTable[work.ClassKey, *classReason](record, work.ClassLess),
		waiting: kernel.NewIndex(func(a, b waitingJob) bool { return a.place < b.place || a.place == b.place && a.id.Older(b.id) }),
		queued:  kernel.NewIndex(func(a, b queuedJob) bool { return a.place < b.place || a.place == b.place && a.id.Older(b.id) }),
		classes: kernel.NewIndex(work.ClassLess),
		lanes:   kernel.NewIndex(func(a, b laneNumber) bool { return laneLess(a.key, b.key) }),
		queues:  kernel.NewIndex(func(a, b queueNumber) bool { return a.name < b.name }),
		blocks:  kernel.NewIndex(blockLess),
		work: &working{
			classes: map[work.ClassKey]*classSlot{},
			lanes:   map[work.LaneKey]*laneSlot{},
			queues:  map[string]uint32{},
			blocks:  map[blockKey]*blockSlot{},
			changed: changes.New[*work.Lane](), explained: changes.New[*work.ClassKey](),
		},
	}
}

// Record is the kind of row; at finds the lists of a state.
func Record(at func(*kernel.State) *Lists) kernel.RecordDef {
	return kernel.Rows(record, "class reason", func(s *kernel.State) *kernel.Table[work.ClassKey, *classReason] { return &at(s).reasons },
		func(s *kernel.State, r *classReason) error { at(s).reasons.Put(r.Class, r); return nil })
}

// Flush makes visible to Freeze what is counted in place.
func Flush(l *Lists) {
	w := l.work
	for _, lane := range w.dirtyLanes {
		lane.dirty = false
		w.changed.Add(lane.lane)
	}
	w.dirtyLanes, l.changed, l.explained = w.dirtyLanes[:0], w.changed.End(), w.explained.End()
	flushBlocks(l)
}

// Freeze returns a copy for a view.
func Freeze(l *Lists) Lists {
	return Lists{
		reasons: l.reasons.Freeze(), waiting: l.waiting.Freeze(), queued: l.queued.Freeze(), classes: l.classes.Freeze(),
		lanes: l.lanes.Freeze(), changed: l.changed, explained: l.explained, queues: l.queues.Freeze(), blocks: l.blocks.Freeze(),
	}
}

func (l *Lists) queueNumber(name string) uint32 {
	n, ok := l.work.queues[name]
	if !ok {
		n = uint32(len(l.work.queues) + 1)
		l.work.queues[name] = n
		l.queues.Put(queueNumber{name, n})
	}
	return n
}

// placeIn is the place of a lane or a queue, and a priority.
func placeIn(number uint32, priority uint8) uint64 {
	return uint64(number)<<8 | uint64(255-priority)
}

// List puts a job among the waiting ones of a lane; its class and the lane are born with their first job.
func List(l *Lists, key work.LaneKey, j *work.Job) {
	w := l.work
	c, ok := w.classes[key.Class]
	if !ok {
		c = &classSlot{key: key.Class}
		w.classes[key.Class] = c
		l.classes.Put(key.Class)
	}
	c.jobs++
	lane, ok := w.lanes[key]
	if !ok {
		w.nextLane++
		lane = &laneSlot{lane: &work.Lane{Key: key, Number: w.nextLane}}
		w.lanes[key] = lane
		l.lanes.Put(laneNumber{key, lane.number()})
	}
	lane.jobs++
	w.touch(lane)
	count(l, j, j.Places())
	l.waiting.Put(waitingJob{placeIn(lane.number(), j.Priority), j.ID, j})
	l.queued.Put(queuedJob{placeIn(l.queueNumber(j.Queue), j.Priority), j.ID})
}

// Relist puts the new row of a job in the place of its old one. Its lane and its priority are the same.
func Relist(l *Lists, key work.LaneKey, old, j *work.Job) {
	lane := l.work.lanes[key]
	l.work.touch(lane)
	l.waiting.Put(waitingJob{placeIn(lane.number(), j.Priority), j.ID, j})
	if was, is := old.Places(), j.Places(); was != is {
		count(l, j, is-was)
	}
}

// Unlist takes a job from the waiting ones of a lane; the lane, its class and the reason given for that die with their last job.
func Unlist(l *Lists, key work.LaneKey, j *work.Job) {
	w := l.work
	c, lane := w.classes[key.Class], w.lanes[key]
	w.touch(lane)
	count(l, j, -j.Places())
	l.waiting.Delete(waitingJob{place: placeIn(lane.number(), j.Priority), id: j.ID})
	l.queued.Delete(queuedJob{placeIn(l.queueNumber(j.Queue), j.Priority), j.ID})
	if lane.jobs--; lane.jobs == 0 {
		delete(w.lanes, key)
		l.lanes.Delete(laneNumber{key: key})
	}
	if c.jobs--; c.jobs == 0 {
		delete(w.classes, key.Class)
		l.classes.Delete(key.Class)
		l.reasons.Delete(key.Class)
		w.explained.Add(&c.key)
	}
}

// Explain takes down why the jobs of a class wait; a class of which none waits any more needs no reason.
func Explain(l *Lists, class work.ClassKey, why reason.Reason) {
	slot, ok := l.work.classes[class]
	if !ok {
		return
	}
	l.work.explained.Add(&slot.key)
	if why == "" {
		l.reasons.Delete(slot.key)
		return
	}
	l.reasons.Put(slot.key, &classReason{Class: slot.key, Reason: why})
}

// Classes iterates the classes of which a job waits.
func (l *Lists) Classes() iter.Seq[work.ClassKey] { return l.classes.All() }

// ClassReason is why the jobs of a class wait, as the scheduler last said; empty: it has not said.
func (l *Lists) ClassReason(k work.ClassKey) reason.Reason {
	if r, ok := l.reasons.Get(k); ok {
		return r.Reason
	}
	return ""
}

// ClassReasons iterates the classes with a reason.
func (l *Lists) ClassReasons() iter.Seq2[work.ClassKey, reason.Reason] {
	return func(yield func(work.ClassKey, reason.Reason) bool) {
		for r := range l.reasons.Rows() {
			if !yield(r.Class, r.Reason) {
				return
			}
		}
	}
}

// laneLess orders lanes: by class, then tenant and user.
func laneLess(a, b work.LaneKey) bool {
	switch {
	case a.Class != b.Class:
		return work.ClassLess(a.Class, b.Class)
	case a.Tenant != b.Tenant:
		return a.Tenant < b.Tenant
	}
	return a.User < b.User
}
