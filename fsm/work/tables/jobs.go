package tables

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
	"github.com/mindcoordinator/mind/fsm/work/figures"
	"github.com/mindcoordinator/mind/fsm/work/groups"
	"github.com/mindcoordinator/mind/fsm/work/mix"
	"github.com/mindcoordinator/mind/fsm/work/owed"
	"github.com/mindcoordinator/mind/fsm/work/waiting"
)

// jobTables holds the jobs, and what is derived from them to find them.
type jobTables struct {
	rows kernel.Table[ident.Job, *work.Job]

	counts work.Counts
	// groups lists the jobs by what they have in common.
	groups groups.Index
	// tenants are numbered, because numbers compare quickly.
	tenants kernel.Index[tenantNumber]
	// active lists the jobs with leases.
	active kernel.Index[ident.Job]
	// timers lists what a Tick has to do to a job, and when.
	timers     kernel.Index[jobTimer]
	finished   kernel.Index[finishedJob]
	dependents kernel.Index[dependentJob]
	// shapes counts the jobs by tenant and shape.
	shapes mix.Index
	// ran lists the jobs that tell how long others like them will take.
	ran kernel.Index[ranJob]
	// awaits lists the jobs that wait to hear of a task on a node.
	awaits kernel.Index[awaitingJob]
	// recovering lists the jobs that are held since the cluster was recovered, and how long at least.
	recovering kernel.Index[jobTimer]
	// ended lists the elements of arrays whose rows may go, by array.
	ended kernel.Index[endedElement]
	// specs lists the submissions that are over and have a spec that will be dropped.
	specs kernel.Index[finishedJob]
}

func newJobTables() jobTables {
	return jobTables{
		rows:     kernel.NewTable[ident.Job, *work.Job](recordJob, func(a, b ident.Job) bool { return a < b }),
		groups:   groups.New(),
		tenants:  kernel.NewIndex(func(a, b tenantNumber) bool { return a.name < b.name }),
		active:   kernel.NewIndex(func(a, b ident.Job) bool { return a < b }),
		timers:   kernel.NewIndex(func(a, b jobTimer) bool { return a.at < b.at || a.at == b.at && a.id < b.id }),
		finished: kernel.NewIndex(func(a, b finishedJob) bool { return a.at < b.at || a.at == b.at && a.id < b.id }),
		dependents: kernel.NewIndex(func(a, b dependentJob) bool {
			return a.on < b.on || a.on == b.on && a.id < b.id
		}),
		shapes: mix.New(),
		ran:    kernel.NewIndex(ranLess),
		awaits: kernel.NewIndex(func(a, b awaitingJob) bool { return a.node < b.node || a.node == b.node && a.id < b.id }),

		recovering: kernel.NewIndex(func(a, b jobTimer) bool { return a.at < b.at || a.at == b.at && a.id < b.id }),
		ended:      kernel.NewIndex(endedLess),
		specs:      kernel.NewIndex(func(a, b finishedJob) bool { return a.at < b.at || a.at == b.at && a.id < b.id }),
	}
}

func (t *jobTables) freeze() jobTables {
	return jobTables{
		rows: t.rows.Freeze(), counts: t.counts, groups: t.groups.Freeze(), tenants: t.tenants.Freeze(), active: t.active.Freeze(),
		timers: t.timers.Freeze(), finished: t.finished.Freeze(), dependents: t.dependents.Freeze(),
		awaits: t.awaits.Freeze(), shapes: t.shapes.Freeze(), ran: t.ran.Freeze(), recovering: t.recovering.Freeze(),
		ended: t.ended.Freeze(), specs: t.specs.Freeze(),
	}
}

type tenantNumber struct {
	name   string
	number uint32
}

type jobTimer struct {
	at int64
	id ident.Job
}

type finishedJob struct {
	at int64
	id ident.Job
}

type dependentJob struct{ on, id ident.Job }

type awaitingJob struct {
	node string
	id   ident.Job
}

// ClassOf is the class that a job belongs to while it waits.
func (s *rows) ClassOf(j *work.Job) work.ClassKey {
	key := j.Class()
	if s.Limited(j.Tenant) || s.Reserved(j.Tenant) {
		key.Tenant = j.Tenant
	}
	return key
}

// laneOf is the lane that a job is in while it waits.
func (s *rows) laneOf(j *work.Job) work.LaneKey {
	return work.LaneKey{Class: s.ClassOf(j), Tenant: j.Tenant, User: j.User}
}

// Share replaces the strings that many jobs have in common by one copy of each.
func (s *State) Share(j *work.Job) {
	j.Tenant, j.User, j.Queue = s.kernel.Intern(j.Tenant), s.kernel.Intern(j.User), s.kernel.Intern(j.Queue)
	j.Shape.GPUType, j.Shape.Selector = s.kernel.Intern(j.Shape.GPUType), s.kernel.Intern(j.Shape.Selector)
}

// noJob is the row before the first one: nothing is derived from it.
var noJob work.Job

// PutJob puts a row in, and keeps in step all that is derived from it. old is the row that it replaces, nil if none.
func (s *State) PutJob(old, j *work.Job) {
	t := &s.jobs
	t.rows.Put(j.ID, j)
	if old == nil {
		old = &noJob
		t.shapes.Count(j, 1)
	} else {
		s.count(old, -1)
		t.shapes.Change(old, j)
	}
	s.count(j, 1)
	s.regroup(old, j)

	// A waiting row is listed with its pointer, so it is listed again even if its place is the same.
	if old.Waiting() {
		if !j.Waiting() || old.Priority != j.Priority || old.Class() != j.Class() {
			s.unlist(old)
			if j.Waiting() {
				s.list(j)
			}
		} else {
			waiting.Relist(&s.Lists, s.laneOf(j), old, j)
		}
	} else if j.Waiting() {
		s.list(j)
	}
	if was, is := old.Live(), j.Live(); was != is {
		if is {
			t.active.Put(j.ID)
		} else {
			t.active.Delete(j.ID)
		}
	}
	if was, is := old.Timer(), j.Timer(); was != is {
		if was != 0 {
			t.timers.Delete(jobTimer{was, j.ID})
		}
		if is != 0 {
			t.timers.Put(jobTimer{is, j.ID})
		}
	}
	if was, is := old.Terminal(), j.Terminal(); was != is {
		if is {
			t.finished.Put(finishedJob{j.FinishedAt, j.ID})
		} else {
			t.finished.Delete(finishedJob{old.FinishedAt, j.ID})
		}
	}
	s.listEnded(old, j)
	s.listSpec(old, j)
	owed.List(&s.Board, old, j)
	if was, is := old.RanThrough(), j.RanThrough(); was != is {
		if is {
			t.ran.Put(s.ranOf(j))
		} else {
			t.ran.Delete(s.ranOf(old))
		}
	}
	if was, is := old.WaitsForOthers(), j.WaitsForOthers(); was != is {
		for _, d := range j.Dependencies {
			if is {
				t.dependents.Put(dependentJob{d.Job, j.ID})
			} else {
				t.dependents.Delete(dependentJob{d.Job, j.ID})
			}
		}
	}
	if len(old.Awaits)+len(j.Awaits) > 0 {
		s.listAwaits(old, j)
	}
	checkpoints.Need(&s.Tables, j.ID, old.Needs(), j.Needs())
	if was, is := old.Settles(), j.Settles(); was != is {
		if was != 0 {
			t.recovering.Delete(jobTimer{was, j.ID})
		}
		if is != 0 {
			t.recovering.Put(jobTimer{is, j.ID})
		}
	}
}

// DropJob takes a finished job out of the state.
func (s *State) DropJob(j *work.Job) {
	t := &s.jobs
	t.rows.Delete(j.ID)
	t.shapes.Count(j, -1)
	s.regroup(j, &noJob)
	s.listEnded(j, &noJob)
	s.listSpec(j, &noJob)
	owed.List(&s.Board, j, &noJob)
	t.finished.Delete(finishedJob{j.FinishedAt, j.ID})
	if j.RanThrough() {
		t.ran.Delete(s.ranOf(j))
	}
	s.listAwaits(j, &noJob)
	s.count(j, -1)
}

func (s *State) count(j *work.Job, by int) {
	j.Tally(&s.jobs.counts, by)
	figures.Count(&s.Sums, j, by)
}

func (s *State) tenantNumber(name string) uint32 {
	w := s.work
	n, ok := w.tenants[name]
	if !ok {
		w.nextTenant++
		n = w.nextTenant
		w.tenants[name] = n
		s.jobs.tenants.Put(tenantNumber{name, n})
	}
	return n
}

// list puts a job among the waiting ones.
func (s *State) list(j *work.Job) { waiting.List(&s.Lists, s.laneOf(j), j) }

// unlist takes a job from the waiting ones. Its class is still what it was when it was listed.
func (s *State) unlist(j *work.Job) { waiting.Unlist(&s.Lists, s.laneOf(j), j) }

// Explain takes down why the jobs of a class wait; a class of which none waits any more needs no reason.
func (s *State) Explain(class work.ClassKey, why reason.Reason) {
	waiting.Explain(&s.Lists, class, why)
}

// Places begins to tell the places of the jobs of a queue.
func (v *View) Places(queue string) *waiting.Places { return waiting.PlacesIn(&v.Lists, queue, v.Job) }

// Ahead is how many waiting jobs of the same queue have a higher priority, or the same and are older.
func (v *View) Ahead(j *work.Job) int { return waiting.AheadOf(&v.Lists, j, v.Job) }

// DueJob returns a job whose time has come, to start or to end; nil: there is none.
func (s *State) DueJob(now int64) *work.Job { return s.firstDue(&s.jobs.timers, now) }

// SettledJob returns a job that need not be held any longer because the cluster was recovered; nil: there is none.
func (s *State) SettledJob(now int64) *work.Job { return s.firstDue(&s.jobs.recovering, now) }

func (s *State) firstDue(list *kernel.Index[jobTimer], now int64) *work.Job {
	t, ok := list.Min()
	if !ok || t.at > now {
		return nil
	}
	j, _ := s.Job(t.id)
	return j
}

// Excess is how many finished jobs there are beyond the bound.
func (s *rows) Excess() int {
	p := s.Policy()
	return s.jobs.finished.Len() - p.KeptFinished(s.meta.KeepFinished)
}

// OldestFinished lists the jobs that finished first, n at most. A job that others still look at, to know whether they may
// run, is passed over, and so is an element of an array that may be retried while a task of it may still be alive, and a job whose
// notices were not told.
func (s *rows) OldestFinished(n int) []ident.Job {
	ids := make([]ident.Job, 0, n)
	for f := range s.jobs.finished.All() {
		if len(ids) == n {
			break
		}
		if !s.lookedAt(f.id) && !s.mustStay(f.id) {
			ids = append(ids, f.id)
		}
	}
	return ids
}

// lookedAt says whether others look at a finished job, or its URL has still to get a notice.
func (s *rows) lookedAt(id ident.Job) bool {
	for range s.Dependents(id) {
		return true
	}
	j, ok := s.Job(id)
	return ok && (s.Keeps(j) || j.Array != nil && len(s.ElementsLookedAt(id)) > 0)
}

// regroup moves a job to the group that it is in now. A new job comes from noJob, one that is dropped goes there.
func (s *State) regroup(old, j *work.Job) {
	from, to := old.Group(), j.Group()
	if old != &noJob && j != &noJob && from == to {
		return
	}
	if old != &noJob {
		s.jobs.groups.Remove(old.ID, from)
	}
	if j != &noJob {
		s.jobs.groups.Add(j.ID, to)
	}
}
