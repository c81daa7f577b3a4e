package fsm

import (
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

const (
	recordJob         = 30
	recordClassReason = 31
)

// jobTables holds the jobs, and what is derived from them to find them.
type jobTables struct {
	rows    table[JobID, *Job]
	reasons table[ClassKey, *classReason]

	counts Counts
	// groups are what jobs have in common that lists ask for, and grouped lists the jobs of each.
	groups  index[CountedGroup]
	grouped index[groupedJob]
	// tenants are numbered, because numbers compare quickly.
	tenants index[tenantNumber]
	// waiting lists the jobs that the scheduler may place, by class, then priority, then age.
	waiting index[waitingJob]
	classes index[classNumber]
	// blocks counts the waiting jobs by queue, priority and age.
	blocks index[waitingBlock]
	// active lists the jobs with leases.
	active index[JobID]
	// timers lists what a Tick has to do to a job, and when.
	timers     index[jobTimer]
	finished   index[finishedJob]
	dependents index[dependentJob]
	// ran lists the jobs that tell how long others like them will take.
	ran index[ranJob]
	// awaits lists the jobs that wait to hear of a task on a node.
	awaits index[awaitingJob]
	// recovering lists the jobs that are held since the cluster was recovered, and how long at least.
	recovering index[jobTimer]
}

type tenantNumber struct {
	name   string
	number uint32
}

type waitingJob struct {
	// place is the number of the class, then 255 - priority.
	place uint64
	id    JobID
	job   *Job
}

type classNumber struct {
	key    ClassKey
	number uint32
}

type jobTimer struct {
	at int64
	id JobID
}

type finishedJob struct {
	at int64
	id JobID
}

type dependentJob struct{ on, id JobID }

type awaitingJob struct {
	node string
	id   JobID
}

// classReason is why the jobs of a class wait, as the scheduler last said.
type classReason struct {
	Class  ClassKey `cbor:"1,keyasint,omitempty"`
	Reason string   `cbor:"2,keyasint,omitempty"`
}

var jobDomain = domain{
	name: "jobs",
	commands: []commandDef{
		defineCommand[SubmitJobs]("SubmitJobs"),
		defineCommand[ControlJob]("ControlJob"),
		defineCommand[PlaceJobs]("PlaceJobs"),
		defineCommand[ReportTasks]("ReportTasks"),
	},
	records: []recordDef{
		defineRecords(recordJob, "job", func(s *state) *table[JobID, *Job] { return &s.jobs.rows },
			func(s *state, j *Job) error {
				s.share(j)
				s.putJob(nil, j)
				return nil
			}),
		defineRecords(recordClassReason, "class reason",
			func(s *state) *table[ClassKey, *classReason] { return &s.jobs.reasons },
			func(s *state, r *classReason) error { s.jobs.reasons.put(r.Class, r); return nil }),
	},
	open: func(s *state) {
		s.jobs = jobTables{
			rows:     newTable[JobID, *Job](recordJob, func(a, b JobID) bool { return a < b }),
			reasons:  newTable[ClassKey, *classReason](recordClassReason, classLess),
			groups:   newIndex(func(a, b CountedGroup) bool { return a.compare(&b.JobGroup) < 0 }),
			grouped:  newIndex(func(a, b groupedJob) bool { return a.group < b.group || a.group == b.group && a.id < b.id }),
			blocks:   newIndex(blockLess),
			tenants:  newIndex(func(a, b tenantNumber) bool { return a.name < b.name }),
			waiting:  newIndex(func(a, b waitingJob) bool { return a.place < b.place || a.place == b.place && a.id < b.id }),
			classes:  newIndex(func(a, b classNumber) bool { return classLess(a.key, b.key) }),
			active:   newIndex(func(a, b JobID) bool { return a < b }),
			timers:   newIndex(func(a, b jobTimer) bool { return a.at < b.at || a.at == b.at && a.id < b.id }),
			finished: newIndex(func(a, b finishedJob) bool { return a.at < b.at || a.at == b.at && a.id < b.id }),
			dependents: newIndex(func(a, b dependentJob) bool {
				return a.on < b.on || a.on == b.on && a.id < b.id
			}),
			ran:    newIndex(ranLess),
			awaits: newIndex(func(a, b awaitingJob) bool { return a.node < b.node || a.node == b.node && a.id < b.id }),

			recovering: newIndex(func(a, b jobTimer) bool { return a.at < b.at || a.at == b.at && a.id < b.id }),
		}
	},
	freeze: func(s, from *state) {
		f := &from.jobs
		s.jobs = jobTables{
			rows: f.rows.freeze(), reasons: f.reasons.freeze(), counts: f.counts,
			groups: f.groups.freeze(), grouped: f.grouped.freeze(), tenants: f.tenants.freeze(),
			waiting: f.waiting.freeze(), classes: f.classes.freeze(), blocks: f.blocks.freeze(), active: f.active.freeze(),
			timers: f.timers.freeze(), finished: f.finished.freeze(), dependents: f.dependents.freeze(),
			awaits: f.awaits.freeze(), ran: f.ran.freeze(), recovering: f.recovering.freeze(),
		}
	},
	check: checkJobs,
}

func classLess(a, b ClassKey) bool {
	if c := strings.Compare(a.Queue, b.Queue); c != 0 {
		return c < 0
	}
	x, y := &a.Shape, &b.Shape
	if c := strings.Compare(x.GPUType, y.GPUType); c != 0 {
		return c < 0
	}
	if c := strings.Compare(x.Selector, y.Selector); c != 0 {
		return c < 0
	}
	p := [...]uint64{
		uint64(x.Nodes)<<48 | uint64(x.GPUs)<<32 | uint64(x.FractionMilli)<<16 | uint64(x.Topology),
		uint64(x.GPUMemMB)<<32 | uint64(x.CPUs), uint64(x.MemMB),
	}
	q := [...]uint64{
		uint64(y.Nodes)<<48 | uint64(y.GPUs)<<32 | uint64(y.FractionMilli)<<16 | uint64(y.Topology),
		uint64(y.GPUMemMB)<<32 | uint64(y.CPUs), uint64(y.MemMB),
	}
	for i := range p {
		if p[i] != q[i] {
			return p[i] < q[i]
		}
	}
	if a.Own != b.Own {
		return a.Own < b.Own
	}
	return a.Tenant < b.Tenant
}

// ClassOf is the class that a job belongs to while it waits.
func (s *state) ClassOf(j *Job) ClassKey {
	key := j.class()
	if s.limited(j.Tenant) {
		key.Tenant = j.Tenant
	}
	return key
}

// class is the class of a job whose tenant has no quota.
func (j *Job) class() ClassKey {
	key := ClassKey{Queue: j.Queue, Shape: j.Shape}
	if len(j.Awaits) > 0 || j.avoidsAny() {
		key.Own = j.ID
	}
	return key
}

// Waiting says whether the scheduler may place the job.
func (j *Job) Waiting() bool { return j.State == v1.JobState_QUEUED && j.Held == 0 }

// HeldBack says whether the job is queued and waits for its time, or for other jobs: the scheduler does not look at it.
func (j *Job) HeldBack() bool { return j.State == v1.JobState_QUEUED && j.Held != 0 }

// timer is when a Tick has something to do to the job; 0: never, as it is.
func (j *Job) timer() int64 {
	switch {
	case j.State == v1.JobState_QUEUED:
		return j.heldUntil()
	case j.State == v1.JobState_RUNNING && j.MaxRuntime > 0 && j.Stop == v1.StopReason_UNSPECIFIED:
		return j.StartedAt + j.MaxRuntime
	}
	return 0
}

func (j *Job) waitsForOthers() bool {
	return j.State == v1.JobState_QUEUED && j.Held&HoldDependency != 0
}

// share replaces the strings that many jobs have in common by one copy of each.
func (s *state) share(j *Job) {
	w := s.work
	j.Tenant, j.User, j.Queue = w.name(j.Tenant), w.name(j.User), w.name(j.Queue)
	j.Shape.GPUType, j.Shape.Selector = w.name(j.Shape.GPUType), w.name(j.Shape.Selector)
}

// noJob is the row before the first one: nothing is derived from it.
var noJob Job

// putJob puts a row in, and keeps in step all that is derived from it. old is the row that it replaces, nil if none.
func (s *state) putJob(old, j *Job) {
	t := &s.jobs
	t.rows.put(j.ID, j)
	if old == nil {
		old = &noJob
	} else {
		s.count(old, -1)
	}
	s.count(j, 1)
	s.regroup(old, j)

	// A waiting row is listed with its pointer, so it is listed anew even if its place is the same.
	if old.Waiting() {
		if !j.Waiting() || old.Priority != j.Priority || old.class() != j.class() {
			s.unlist(old)
			if j.Waiting() {
				s.list(j)
			}
		} else {
			t.waiting.put(waitingJob{waitingPlace(s.work.classes[s.ClassOf(j)].number, j.Priority), j.ID, j})
		}
	} else if j.Waiting() {
		s.list(j)
	}
	if was, is := old.Live(), j.Live(); was != is {
		if is {
			t.active.put(j.ID)
		} else {
			t.active.delete(j.ID)
		}
	}
	if was, is := old.timer(), j.timer(); was != is {
		if was != 0 {
			t.timers.delete(jobTimer{was, j.ID})
		}
		if is != 0 {
			t.timers.put(jobTimer{is, j.ID})
		}
	}
	if was, is := old.Terminal(), j.Terminal(); was != is {
		if is {
			t.finished.put(finishedJob{j.FinishedAt, j.ID})
		} else {
			t.finished.delete(finishedJob{old.FinishedAt, j.ID})
		}
	}
	if was, is := old.ranThrough(), j.ranThrough(); was != is {
		if is {
			t.ran.put(s.ranOf(j))
		} else {
			t.ran.delete(s.ranOf(old))
		}
	}
	if was, is := old.waitsForOthers(), j.waitsForOthers(); was != is {
		for _, d := range j.Dependencies {
			if is {
				t.dependents.put(dependentJob{d.Job, j.ID})
			} else {
				t.dependents.delete(dependentJob{d.Job, j.ID})
			}
		}
	}
	if len(old.Awaits)+len(j.Awaits) > 0 {
		s.listAwaits(old, j)
	}
	if was, is := old.settles(), j.settles(); was != is {
		if was != 0 {
			t.recovering.delete(jobTimer{was, j.ID})
		}
		if is != 0 {
			t.recovering.put(jobTimer{is, j.ID})
		}
	}
}

// dropJob takes a finished job out of the state.
func (s *state) dropJob(j *Job) {
	t := &s.jobs
	t.rows.delete(j.ID)
	s.regroup(j, &noJob)
	t.finished.delete(finishedJob{j.FinishedAt, j.ID})
	if j.ranThrough() {
		t.ran.delete(s.ranOf(j))
	}
	s.listAwaits(j, &noJob)
	s.count(j, -1)
}

func (s *state) count(j *Job, by int) {
	held := 0
	if j.HeldBack() {
		held = by
	}
	s.jobs.counts[j.State&15] += by
	q := s.work.queueOf(j.Queue)
	q.counts[j.State&15] += by
	q.held += held
	s.work.shareOf(j.Tenant, j.Queue).count(j.State, by, held)
}

func (s *state) tenantNumber(name string) uint32 {
	w := s.work
	n, ok := w.tenants[name]
	if !ok {
		w.nextTenant++
		n = w.nextTenant
		w.tenants[name] = n
		s.jobs.tenants.put(tenantNumber{name, n})
	}
	return n
}

func waitingPlace(class uint32, priority uint8) uint64 {
	return uint64(class)<<8 | uint64(255-priority)
}

// list puts a job among the waiting ones; its class is born with its first job.
func (s *state) list(j *Job) {
	w := s.work
	key := s.ClassOf(j)
	c, ok := w.classes[key]
	if !ok {
		w.nextClass++
		c = &classSlot{key: key, number: w.nextClass}
		w.classes[key] = c
		s.jobs.classes.put(classNumber{key, c.number})
	}
	c.jobs++
	s.countWaiting(j, 1)
	s.jobs.waiting.put(waitingJob{waitingPlace(c.number, j.Priority), j.ID, j})
}

// unlist takes a job from the waiting ones; its class, and the reason given for it, die with its last job.
func (s *state) unlist(j *Job) {
	w := s.work
	key := s.ClassOf(j)
	c := w.classes[key]
	s.countWaiting(j, -1)
	s.jobs.waiting.delete(waitingJob{place: waitingPlace(c.number, j.Priority), id: j.ID})
	c.jobs--
	if c.jobs == 0 {
		delete(w.classes, key)
		s.jobs.classes.delete(classNumber{key: key})
		s.jobs.reasons.delete(key)
	}
}
