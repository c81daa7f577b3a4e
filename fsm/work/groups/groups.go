// Package groups lists jobs by what they have in common that lists ask for: tenant, queue, priority, state, phase, and whether
// they are evaluations.
//
// Each job is in one group. A group knows how many jobs it has and lists them by age, so that a page of a list and its total
// cost the same however many jobs there are. The index is derived from the jobs: no snapshot and no hash has it. It does not
// check the group of a job; Check finds where that was wrong.
package groups

import (
	"container/heap"
	"iter"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Index is the groups with their jobs.
type Index struct {
	groups  kernel.Index[work.CountedGroup]
	members kernel.Index[member]
	// slots are the groups while entries are applied, dirty those that changed since the last Freeze, in the order of the
	// changes. Both are nil in a frozen index.
	slots map[work.JobGroup]*slot
	dirty []*slot
	next  uint64
}

// member lists a job in its group; groups are numbered, because numbers compare quickly.
type member struct {
	group uint64
	id    ident.Job
}

// slot is a group while entries are applied.
type slot struct {
	work.JobGroup
	number uint64
	jobs   int
	dirty  bool
}

// New returns an empty index.
func New() Index {
	return Index{
		groups:  kernel.NewIndex(func(a, b work.CountedGroup) bool { return a.Compare(&b.JobGroup) < 0 }),
		members: kernel.NewIndex(func(a, b member) bool { return a.group < b.group || a.group == b.group && a.id < b.id }),
		slots:   map[work.JobGroup]*slot{},
	}
}

// Freeze returns a copy for a view, with what was changed until now.
func (x *Index) Freeze() Index {
	x.flush()
	return Index{groups: x.groups.Freeze(), members: x.members.Freeze()}
}

// slotOf returns a group, to be changed.
func (x *Index) slotOf(key work.JobGroup) *slot {
	g, ok := x.slots[key]
	if !ok {
		x.next++
		g = &slot{JobGroup: key, number: x.next}
		x.slots[key] = g
		x.groups.Put(work.CountedGroup{JobGroup: key, Number: g.number})
	}
	if !g.dirty {
		g.dirty = true
		x.dirty = append(x.dirty, g)
	}
	return g
}

// Add puts a job into a group.
func (x *Index) Add(id ident.Job, to work.JobGroup) {
	g := x.slotOf(to)
	g.jobs++
	x.members.Put(member{g.number, id})
}

// Remove takes a job out of its group.
func (x *Index) Remove(id ident.Job, from work.JobGroup) {
	g := x.slotOf(from)
	g.jobs--
	x.members.Delete(member{g.number, id})
}

// flush brings the counts into the index. A group without jobs is gone.
func (x *Index) flush() {
	for _, g := range x.dirty {
		g.dirty = false
		row := work.CountedGroup{JobGroup: g.JobGroup, Jobs: g.jobs, Number: g.number}
		if g.jobs > 0 {
			x.groups.Put(row)
			continue
		}
		delete(x.slots, g.JobGroup)
		x.groups.Delete(row)
	}
	x.dirty = x.dirty[:0]
}

// Of lists the groups of a tenant.
func (x *Index) Of(tenant string) iter.Seq[work.CountedGroup] {
	return func(yield func(work.CountedGroup) bool) {
		x.groups.AscendFrom(work.CountedGroup{JobGroup: work.JobGroup{Tenant: tenant}}, func(g work.CountedGroup) bool {
			return g.Tenant == tenant && yield(g)
		})
	}
}

// Jobs iterates the jobs of some groups by id, from that id on (inclusive; 0: from the end that comes first).
func (x *Index) Jobs(groups []work.CountedGroup, desc bool, from ident.Job) iter.Seq[ident.Job] {
	return func(yield func(ident.Job) bool) {
		if desc && from == 0 {
			from = ^ident.Job(0)
		}
		m := merge{desc: desc}
		for i := range groups {
			c := &cursor{group: groups[i].Number, since: groups[i].Since, next: from}
			if !desc {
				c.next = max(from, c.since)
			}
			if c.fill(x, desc) {
				m.cursors = append(m.cursors, c)
			}
		}
		heap.Init(&m)
		for len(m.cursors) > 0 {
			c := m.cursors[0]
			if !yield(c.head()) {
				return
			}
			if c.at++; c.at < len(c.ids) || c.fill(x, desc) {
				heap.Fix(&m, 0)
			} else {
				heap.Pop(&m)
			}
		}
	}
}

// cursor walks one group, in chunks that grow: most are left after a few jobs.
type cursor struct {
	group uint64
	since ident.Job
	next  ident.Job // where the next chunk begins
	ids   []ident.Job
	at    int
	done  bool
}

const (
	firstChunk = 4
	maxChunk   = 256
)

func (c *cursor) head() ident.Job { return c.ids[c.at] }

// fill fetches a chunk; false: there is none.
func (c *cursor) fill(x *Index, desc bool) bool {
	if c.done {
		return false
	}
	size := min(max(firstChunk, 2*len(c.ids)), maxChunk)
	c.ids, c.at = c.ids[:0], 0
	visit := func(g member) bool {
		if g.group != c.group || g.id < c.since {
			return false
		}
		c.ids = append(c.ids, g.id)
		return len(c.ids) < size
	}
	if desc {
		x.members.DescendFrom(member{c.group, c.next}, visit)
	} else {
		x.members.AscendFrom(member{c.group, c.next}, visit)
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

// merge is a heap of cursors by the id of their next job.
type merge struct {
	cursors []*cursor
	desc    bool
}

func (m *merge) Len() int { return len(m.cursors) }

func (m *merge) Less(i, j int) bool {
	return m.cursors[i].head() < m.cursors[j].head() != m.desc
}

func (m *merge) Swap(i, j int) { m.cursors[i], m.cursors[j] = m.cursors[j], m.cursors[i] }

// Push implements heap.Interface; cursors are only taken away.
func (m *merge) Push(any) {}

// Pop implements heap.Interface.
func (m *merge) Pop() any {
	last := len(m.cursors) - 1
	c := m.cursors[last]
	m.cursors = m.cursors[:last]
	return c
}

// Check reports where the index is not what the jobs are: each is listed in its group, and groups count right.
func (x *Index) Check(jobs iter.Seq[*work.Job], report kernel.Report) {
	counted := map[work.JobGroup]int{}
	total := 0
	for j := range jobs {
		key := j.Group()
		counted[key]++
		total++
		g, ok := x.groups.Get(work.CountedGroup{JobGroup: key})
		if !ok || !x.members.Has(member{g.Number, j.ID}) {
			report("I11: %s is not listed for its tenant and state", j.ID)
		}
	}
	for g := range x.groups.All() {
		if counted[g.JobGroup] != g.Jobs {
			report("I11: the group %+v has %d jobs, counted again %d", g.JobGroup, g.Jobs, counted[g.JobGroup])
		}
		delete(counted, g.JobGroup)
	}
	if len(counted) > 0 {
		report("I11: %d groups of jobs are not counted", len(counted))
	}
	if n := x.members.Len(); n != total {
		report("the index of groups has %d entries instead of %d", n, total)
	}
}
