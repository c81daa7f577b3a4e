package fsm

import (
	"cmp"
	"container/heap"
	"iter"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// JobGroup is what jobs have in common that lists ask for. Each job is in one group, and each group knows how many it has: so a
// list finds its page and its total without looking at other jobs.
type JobGroup struct {
	Tenant   string
	Queue    string
	Priority uint8
	State    v1.JobState_Value
	// Phase of RUNNING jobs; 0 in other states.
	Phase v1.JobPhase_Value
	// Held: QUEUED, and not offered to the scheduler.
	Held       bool
	Evaluation bool
}

func (a *JobGroup) compare(b *JobGroup) int {
	if c := strings.Compare(a.Tenant, b.Tenant); c != 0 {
		return c
	}
	if c := strings.Compare(a.Queue, b.Queue); c != 0 {
		return c
	}
	return cmp.Compare(a.rest(), b.rest())
}

// rest is all of a group but its names, as one number.
func (a *JobGroup) rest() uint64 {
	n := uint64(a.Priority)<<32 | uint64(a.State&0xff)<<16 | uint64(a.Phase&0xff)<<8
	if a.Held {
		n |= 2
	}
	if a.Evaluation {
		n |= 1
	}
	return n
}

// group is the one that a job is in.
func (j *Job) group() JobGroup {
	g := JobGroup{Tenant: j.Tenant, Queue: j.Queue, Priority: j.Priority, State: j.State, Evaluation: j.Evaluation()}
	switch j.State {
	case v1.JobState_RUNNING:
		g.Phase = j.Phase
	case v1.JobState_QUEUED:
		g.Held = j.HeldBack()
	}
	return g
}

// CountedGroup is a group of a view.
type CountedGroup struct {
	JobGroup
	Jobs int
	// Since limits JobsOfGroups to the jobs of the group from this id on. Callers may set it.
	Since  JobID
	number uint64
}

// groupedJob lists a job in its group; groups are numbered, because numbers compare quickly.
type groupedJob struct {
	group uint64
	id    JobID
}

// groupSlot is a group while entries are applied.
type groupSlot struct {
	JobGroup
	number uint64
	jobs   int
	dirty  bool
}

// groupOf returns a group, to be changed.
func (s *state) groupOf(key JobGroup) *groupSlot {
	w := s.work
	g, ok := w.groups[key]
	if !ok {
		w.nextGroup++
		g = &groupSlot{JobGroup: key, number: w.nextGroup}
		w.groups[key] = g
		s.jobs.groups.put(CountedGroup{JobGroup: key, number: g.number})
	}
	if !g.dirty {
		g.dirty = true
		w.dirtyGroups = append(w.dirtyGroups, g)
	}
	return g
}

// regroup moves a job to the group that it is in now. A new job comes from noJob, one that is dropped goes there.
func (s *state) regroup(old, j *Job) {
	from, to := old.group(), j.group()
	if old != &noJob && j != &noJob && from == to {
		return
	}
	if old != &noJob {
		g := s.groupOf(from)
		g.jobs--
		s.jobs.grouped.delete(groupedJob{g.number, old.ID})
	}
	if j != &noJob {
		g := s.groupOf(to)
		g.jobs++
		s.jobs.grouped.put(groupedJob{g.number, j.ID})
	}
}

// flushGroups brings the counts into the table. A group without jobs is gone.
func (s *state) flushGroups() {
	w := s.work
	for _, g := range w.dirtyGroups {
		g.dirty = false
		row := CountedGroup{JobGroup: g.JobGroup, Jobs: g.jobs, number: g.number}
		if g.jobs > 0 {
			s.jobs.groups.put(row)
			continue
		}
		delete(w.groups, g.JobGroup)
		s.jobs.groups.delete(row)
	}
	w.dirtyGroups = w.dirtyGroups[:0]
}

// JobGroups lists the groups of a tenant.
func (s *state) JobGroups(tenant string) iter.Seq[CountedGroup] {
	return func(yield func(CountedGroup) bool) {
		s.jobs.groups.tree.AscendGreaterOrEqual(CountedGroup{JobGroup: JobGroup{Tenant: tenant}}, func(g CountedGroup) bool {
			return g.Tenant == tenant && yield(g)
		})
	}
}

// JobsOfGroups iterates the jobs of some groups by id, from that id on (inclusive; 0: from the end that comes first).
func (s *state) JobsOfGroups(groups []CountedGroup, desc bool, from JobID) iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		if desc && from == 0 {
			from = ^JobID(0)
		}
		m := groupMerge{desc: desc}
		for i := range groups {
			c := &groupCursor{group: groups[i].number, since: groups[i].Since, next: from}
			if !desc {
				c.next = max(from, c.since)
			}
			if c.fill(s, desc) {
				m.cursors = append(m.cursors, c)
			}
		}
		heap.Init(&m)
		for len(m.cursors) > 0 {
			c := m.cursors[0]
			if j, ok := s.Job(c.head()); ok && !yield(j) {
				return
			}
			if c.at++; c.at < len(c.ids) || c.fill(s, desc) {
				heap.Fix(&m, 0)
			} else {
				heap.Pop(&m)
			}
		}
	}
}

// groupCursor walks one group, in chunks that grow: most are left after a few jobs.
type groupCursor struct {
	group uint64
	since JobID
	next  JobID // where the next chunk begins
	ids   []JobID
	at    int
	done  bool
}

const (
	firstChunk = 4
	maxChunk   = 256
)

func (c *groupCursor) head() JobID { return c.ids[c.at] }

// fill fetches a chunk; false: there is none.
func (c *groupCursor) fill(s *state, desc bool) bool {
	if c.done {
		return false
	}
	size := min(max(firstChunk, 2*len(c.ids)), maxChunk)
	c.ids, c.at = c.ids[:0], 0
	visit := func(g groupedJob) bool {
		if g.group != c.group || g.id < c.since {
			return false
		}
		c.ids = append(c.ids, g.id)
		return len(c.ids) < size
	}
	if desc {
		s.jobs.grouped.tree.DescendLessOrEqual(groupedJob{c.group, c.next}, visit)
	} else {
		s.jobs.grouped.tree.AscendGreaterOrEqual(groupedJob{c.group, c.next}, visit)
	}
	if c.done = len(c.ids) < size; len(c.ids) == 0 {
		return false
	}
	last := c.ids[len(c.ids)-1]
	if c.next = last + 1; desc {
		c.next = last - 1
	}
	return true
}

// groupMerge is a heap of cursors by the id of their next job.
type groupMerge struct {
	cursors []*groupCursor
	desc    bool
}

func (m *groupMerge) Len() int { return len(m.cursors) }

func (m *groupMerge) Less(i, j int) bool {
	return m.cursors[i].head() < m.cursors[j].head() != m.desc
}

func (m *groupMerge) Swap(i, j int) { m.cursors[i], m.cursors[j] = m.cursors[j], m.cursors[i] }

// Push implements heap.Interface; cursors are only taken away.
func (m *groupMerge) Push(any) {}

// Pop implements heap.Interface.
func (m *groupMerge) Pop() any {
	last := len(m.cursors) - 1
	c := m.cursors[last]
	m.cursors = m.cursors[:last]
	return c
}

// checkGroups holds that each job is listed in its group, and that groups count right.
func checkGroups(s *state, report func(string, ...any)) {
	counted := map[JobGroup]int{}
	total := 0
	for j := range s.jobs.rows.rows() {
		key := j.group()
		counted[key]++
		total++
		g, ok := s.jobs.groups.tree.Get(CountedGroup{JobGroup: key})
		if !ok || !s.jobs.grouped.has(groupedJob{g.number, j.ID}) {
			report("I11: %s is not listed for its tenant and state", j.ID)
		}
	}
	for g := range s.jobs.groups.all() {
		if counted[g.JobGroup] != g.Jobs {
			report("I11: the group %+v has %d jobs, counted anew %d", g.JobGroup, g.Jobs, counted[g.JobGroup])
		}
		delete(counted, g.JobGroup)
	}
	if len(counted) > 0 {
		report("I11: %d groups of jobs are not counted", len(counted))
	}
	if n := s.jobs.grouped.len(); n != total {
		report("the index of groups has %d entries instead of %d", n, total)
	}
}
