package executions

import (
	"iter"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

const (
	recordExecution = 142
	recordDecision  = 143
	recordSegment   = 144
)

// Book is the part of the state that has executions, decisions and events. Its exported methods read; what changes it is functions,
// so that a view offers none of it.
type Book struct {
	executions kernel.Table[ident.Execution, *Execution]
	decisions  kernel.Table[ident.Decision, *Decision]
	segments   kernel.Table[uint64, *Segment]
	// happened has the segments of each execution.
	happened kernel.Index[ofExecution]
	// ready has the executions that a leader advances next, by their Core, so that the leader can be fair between Cores.
	ready kernel.Index[ofCore]
	// live has the executions that are not over, and finished the others in the order in which they ended.
	live     kernel.Index[ofCore]
	finished kernel.Index[ended]
	byTenant kernel.Index[ofTenant]
	// jobs has the waits for jobs, and events those for events.
	jobs   kernel.Index[jobWait]
	events kernel.Index[eventWait]
	timers kernel.Index[timer]
	// keys has the executions that were started with a key.
	keys kernel.Index[started]
	// pending has the decisions that people have to answer, by tenant, and all has all of them.
	pending kernel.Index[tenantDecision]
	all     kernel.Index[tenantDecision]
	// asked has the decisions of each execution, and gates those about each job.
	asked kernel.Index[question]
	gates kernel.Index[ofJob]
	// untold has the decisions with notices that were not told, by tenant, so that the leader can be fair between tenants.
	untold kernel.Index[tenantDecision]
	// counts has the number of the live executions of each tenant.
	counts kernel.Index[count]
	// statuses and answers have the numbers of executions and of decisions by status.
	statuses tally
	answers  tally
	bytes    int
}

// tally counts rows by status. The last place is for a status that there is not.
type tally [8]int

func (c *tally) add(status uint8, in bool) {
	n := 1
	if !in {
		n = -1
	}
	c[min(int(status), len(c)-1)] += n
}

type (
	ofCore struct {
		core ident.Core
		id   ident.Execution
	}
	ofTenant struct {
		tenant string
		id     ident.Execution
	}
	ofExecution struct {
		execution ident.Execution
		segment   uint64
	}
	ended struct {
		at int64
		id ident.Execution
	}
	jobWait struct {
		job  ident.Job
		id   ident.Execution
		wait uint32
	}
	eventWait struct {
		core ident.Core
		name string
		id   ident.Execution
		wait uint32
	}
	// timer is when time does something to a wait of an execution, or to a decision.
	timer struct {
		at       int64
		id       ident.Execution
		wait     uint32
		decision ident.Decision
	}
	started struct {
		core ident.Core
		key  string
		id   ident.Execution
	}
	tenantDecision struct {
		tenant string
		id     ident.Decision
	}
	question struct {
		by ident.Execution
		id ident.Decision
	}
	count struct {
		tenant string
		n      int
	}
)

// View reads the executions of a frozen state.
type View struct{ *Book }

// ViewOf returns the executions of a view.
func ViewOf(v *kernel.View) View { return View{Of(v.State())} }

// Of returns the executions of a state.
func Of(s *kernel.State) *Book { return kernel.PartOf[*Book](s) }

func open(*kernel.State) kernel.Part {
	return &Book{
		executions: kernel.NewTable[ident.Execution, *Execution](recordExecution, func(a, b ident.Execution) bool { return a < b }),
		decisions:  kernel.NewTable[ident.Decision, *Decision](recordDecision, func(a, b ident.Decision) bool { return a < b }),
		segments:   kernel.NewTable[uint64, *Segment](recordSegment, func(a, b uint64) bool { return a < b }),
		happened: kernel.NewIndex(func(a, b ofExecution) bool {
			return a.execution < b.execution || a.execution == b.execution && a.segment < b.segment
		}),
		ready: kernel.NewIndex(ofCore.less), live: kernel.NewIndex(ofCore.less),
		finished: kernel.NewIndex(func(a, b ended) bool { return a.at < b.at || a.at == b.at && a.id < b.id }),
		byTenant: kernel.NewIndex(func(a, b ofTenant) bool { return a.tenant < b.tenant || a.tenant == b.tenant && a.id < b.id }),
		jobs: kernel.NewIndex(func(a, b jobWait) bool {
			return a.job < b.job || a.job == b.job && (a.id < b.id || a.id == b.id && a.wait < b.wait)
		}),
		events: kernel.NewIndex(func(a, b eventWait) bool {
			if a.core != b.core {
				return a.core < b.core
			}
			return a.name < b.name || a.name == b.name && (a.id < b.id || a.id == b.id && a.wait < b.wait)
		}),
		timers: kernel.NewIndex(func(a, b timer) bool {
			if a.at != b.at {
				return a.at < b.at
			}
			if a.id != b.id {
				return a.id < b.id
			}
			return a.wait < b.wait || a.wait == b.wait && a.decision < b.decision
		}),
		keys:    kernel.NewIndex(func(a, b started) bool { return a.core < b.core || a.core == b.core && a.key < b.key }),
		pending: kernel.NewIndex(tenantDecision.less), all: kernel.NewIndex(tenantDecision.less),
		asked:  kernel.NewIndex(func(a, b question) bool { return a.by < b.by || a.by == b.by && a.id < b.id }),
		gates:  kernel.NewIndex(ofJob.less),
		untold: kernel.NewIndex(tenantDecision.less),
		counts: kernel.NewIndex(func(a, b count) bool { return a.tenant < b.tenant }),
	}
}

func (a ofCore) less(b ofCore) bool { return a.core < b.core || a.core == b.core && a.id < b.id }

func (a tenantDecision) less(b tenantDecision) bool {
	return a.tenant < b.tenant || a.tenant == b.tenant && a.id < b.id
}

// Freeze implements kernel.Part.
func (t *Book) Freeze(*kernel.State) kernel.Part {
	return &Book{
		executions: t.executions.Freeze(), decisions: t.decisions.Freeze(), segments: t.segments.Freeze(), happened: t.happened.Freeze(),
		ready: t.ready.Freeze(), live: t.live.Freeze(), finished: t.finished.Freeze(), byTenant: t.byTenant.Freeze(),
		jobs: t.jobs.Freeze(), events: t.events.Freeze(), timers: t.timers.Freeze(), keys: t.keys.Freeze(),
		pending: t.pending.Freeze(), all: t.all.Freeze(), asked: t.asked.Freeze(), gates: t.gates.Freeze(), untold: t.untold.Freeze(),
		counts: t.counts.Freeze(), statuses: t.statuses, answers: t.answers, bytes: t.bytes,
	}
}

// Put puts an execution in, in the place of the one of its id. The caller has settled it.
func Put(t *Book, e *Execution) {
	if old, ok := t.executions.Get(e.ID); ok {
		t.derive(old, false)
	}
	t.executions.Put(e.ID, e)
	t.derive(e, true)
}

// Remove takes an execution out that is over.
func Remove(t *Book, e *Execution) {
	t.derive(e, false)
	t.executions.Delete(e.ID)
}

// set puts a key into an index, or takes it out.
func set[T any](x *kernel.Index[T], key T, in bool) {
	if in {
		x.Put(key)
	} else {
		x.Delete(key)
	}
}

func (t *Book) derive(e *Execution, in bool) {
	t.statuses.add(uint8(e.Status), in)
	set(&t.byTenant, ofTenant{e.Tenant, e.ID}, in)
	if e.Key != "" {
		set(&t.keys, started{e.Core, e.Key, e.ID}, in)
	}
	if e.Status.Over() {
		set(&t.finished, ended{e.FinishedAt, e.ID}, in)
		return
	}
	set(&t.live, ofCore{e.Core, e.ID}, in)
	t.count(e.Tenant, in)
	if e.Status == Ready {
		set(&t.ready, ofCore{e.Core, e.ID}, in)
	}
	for i := range e.Waits {
		w := &e.Waits[i]
		if w.Done {
			continue
		}
		set(&t.timers, timer{at: w.wakes(), id: e.ID, wait: w.ID}, in)
		switch w.Kind {
		case ForJob:
			set(&t.jobs, jobWait{w.Job, e.ID, w.ID}, in)
		case ForEvent:
			set(&t.events, eventWait{e.Core, w.Event, e.ID, w.ID}, in)
		}
	}
}

func (t *Book) count(tenant string, in bool) {
	c, _ := t.counts.Get(count{tenant: tenant})
	c.tenant = tenant
	if in {
		c.n++
	} else {
		c.n--
	}
	set(&t.counts, c, c.n > 0)
}

// PutDecision puts a decision in, in the place of the one of its id.
func PutDecision(t *Book, d *Decision) {
	if old, ok := t.decisions.Get(d.ID); ok {
		t.deriveDecision(old, false)
	}
	t.decisions.Put(d.ID, d)
	t.deriveDecision(d, true)
}

// RemoveDecision takes a decision out.
func RemoveDecision(t *Book, d *Decision) {
	t.deriveDecision(d, false)
	t.decisions.Delete(d.ID)
}

func (t *Book) deriveDecision(d *Decision, in bool) {
	t.answers.add(uint8(d.Status), in)
	set(&t.all, tenantDecision{d.Tenant, d.ID}, in)
	if d.Job != 0 {
		set(&t.gates, ofJob{d.Job, d.ID}, in)
	} else {
		set(&t.asked, question{d.Execution, d.ID}, in)
	}
	if len(d.Untold) > 0 {
		set(&t.untold, tenantDecision{d.Tenant, d.ID}, in)
	}
	if d.Status != Pending {
		return
	}
	set(&t.pending, tenantDecision{d.Tenant, d.ID}, in)
	if at := d.wakes(); at != 0 {
		set(&t.timers, timer{at: at, id: d.Execution, wait: d.Wait, decision: d.ID}, in)
	}
}

// Append adds the events of an execution, and drops the oldest ones beyond the bounds.
func Append(t *Book, s *Segment) {
	PutSegment(t, s)
	for t.segments.Len() > MaxSegments || t.bytes > MaxEventBytes {
		id, first, _ := t.segments.First()
		t.segments.Delete(id)
		t.happened.Delete(ofExecution{first.Execution, id})
		t.bytes -= first.size()
	}
}

// PutSegment puts a segment in that is not there yet.
func PutSegment(t *Book, s *Segment) {
	t.segments.Put(s.ID, s)
	t.happened.Put(ofExecution{s.Execution, s.ID})
	t.bytes += s.size()
}

// Execution returns an execution by its id.
func (t *Book) Execution(id ident.Execution) (*Execution, bool) { return t.executions.Get(id) }

// Decision returns a decision by its id.
func (t *Book) Decision(id ident.Decision) (*Decision, bool) { return t.decisions.Get(id) }

// Live is how many executions are not over, LiveOf how many of a tenant.
func (t *Book) Live() int { return t.live.Len() }

// LiveOf is how many executions of a tenant are not over.
func (t *Book) LiveOf(tenant string) int {
	c, _ := t.counts.Get(count{tenant: tenant})
	return c.n
}

// LiveExecutionsOf lists the executions of a Core that are not over, the oldest first.
func (t *Book) LiveExecutionsOf(core ident.Core) iter.Seq[ident.Execution] {
	return func(yield func(ident.Execution) bool) {
		t.live.AscendFrom(ofCore{core: core}, func(o ofCore) bool { return o.core == core && yield(o.id) })
	}
}

// StartedWith finds the execution of a Core that was started with a key.
func (t *Book) StartedWith(core ident.Core, key string) (*Execution, bool) {
	s, ok := t.keys.Get(started{core: core, key: key})
	if !ok {
		return nil, false
	}
	return t.executions.Get(s.id)
}

// ExecutionsOf iterates the executions of a tenant that are older than one, the newest first; before 0: all.
func (t *Book) ExecutionsOf(tenant string, before ident.Execution) iter.Seq[*Execution] {
	if before == 0 {
		before--
	}
	return func(yield func(*Execution) bool) {
		t.byTenant.DescendFrom(ofTenant{tenant, before - 1}, func(o ofTenant) bool {
			if o.tenant != tenant {
				return false
			}
			e, _ := t.executions.Get(o.id)
			return yield(e)
		})
	}
}

// DecisionsOf iterates the decisions of a tenant that are older than one, the newest first; before 0: all.
func (t *Book) DecisionsOf(tenant string, pending bool, before ident.Decision) iter.Seq[*Decision] {
	list := &t.all
	if pending {
		list = &t.pending
	}
	if before == 0 {
		before--
	}
	return func(yield func(*Decision) bool) {
		list.DescendFrom(tenantDecision{tenant, before - 1}, func(o tenantDecision) bool {
			if o.tenant != tenant {
				return false
			}
			d, _ := t.decisions.Get(o.id)
			return yield(d)
		})
	}
}

// DecisionsAskedBy lists the decisions of an execution.
func (t *Book) DecisionsAskedBy(id ident.Execution) []ident.Decision {
	var all []ident.Decision
	t.asked.AscendFrom(question{by: id}, func(q question) bool {
		if q.by == id {
			all = append(all, q.id)
		}
		return q.by == id
	})
	return all
}

// ReadyCores iterates the Cores that have executions to advance, each once, from one on.
func (t *Book) ReadyCores(from ident.Core) iter.Seq[ident.Core] {
	return func(yield func(ident.Core) bool) {
		for next := from; ; {
			found := ident.Core(0)
			t.ready.AscendFrom(ofCore{core: next}, func(o ofCore) bool { found = o.core; return false })
			if found == 0 || !yield(found) {
				return
			}
			next = found + 1
		}
	}
}

// ReadyOf iterates the executions of a Core that a leader advances next, the oldest first.
func (t *Book) ReadyOf(core ident.Core) iter.Seq[*Execution] {
	return func(yield func(*Execution) bool) {
		t.ready.AscendFrom(ofCore{core: core}, func(o ofCore) bool {
			if o.core != core {
				return false
			}
			e, _ := t.executions.Get(o.id)
			return yield(e)
		})
	}
}

// ExecutionCounts iterates the statuses of executions, each with the number of executions that have it.
func (t *Book) ExecutionCounts() iter.Seq2[Status, int] {
	return func(yield func(Status, int) bool) {
		for s := Ready; s <= Canceled && yield(s, t.statuses[s]); s++ {
		}
	}
}

// DecisionCounts iterates the statuses of decisions, each with the number of decisions that have it.
func (t *Book) DecisionCounts() iter.Seq2[DecisionStatus, int] {
	return func(yield func(DecisionStatus, int) bool) {
		for s := Pending; s <= DecisionCanceled && yield(s, t.answers[s]); s++ {
		}
	}
}

// ReadyCount is how many executions are ready.
func (t *Book) ReadyCount() int { return t.ready.Len() }

// Segments iterates the events that are older than one, the newest first; before 0: all.
func (t *Book) Segments(before uint64) iter.Seq[*Segment] {
	if before == 0 {
		before--
	}
	return t.segments.RowsDown(before - 1)
}

// SegmentsOf iterates the events of an execution that are older than one, the newest first; before 0: all.
func (t *Book) SegmentsOf(execution ident.Execution, before uint64) iter.Seq[*Segment] {
	if before == 0 {
		before--
	}
	return func(yield func(*Segment) bool) {
		t.happened.DescendFrom(ofExecution{execution, before - 1}, func(o ofExecution) bool {
			if o.execution != execution {
				return false
			}
			s, _ := t.segments.Get(o.segment)
			return yield(s)
		})
	}
}
