package simulate

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/picture"
)

// cluster is the state of one run, as the scheduler sees it: the nodes, what is in use on them, and the waiting jobs.
// It refuses a placement that the replicated state would refuse.
type cluster struct {
	// nodes are the nodes of the picture, by id.
	nodes []*picture.Node
	at    map[string]int
	*picture.Picture
	// mix counts the jobs that have arrived, by shape.
	mix map[work.Shape]int
	// blind hides the mix from the planner, which then places tasks by best fit.
	blind bool
	// classes lists the classes with waiting jobs, in order; lanes has the lanes of each class, by user; and lines has
	// the jobs of each lane, in the order of byAge.
	classes []work.ClassKey
	lanes   map[work.ClassKey][]work.LaneKey
	lines   map[work.LaneKey][]*work.Job
	waiting int
	// used is how many GPUs are in use, and total how many there are, both in thousandths of a GPU.
	used, total int
	shares
	// policy is the policy of the run, and now the virtual time in Unix nanoseconds.
	policy policy.Policy
	now    int64
	backfill
	calendar
	// active are the running jobs.
	active map[ident.Job]*job
	// planner is the scheduler of the cluster.
	planner scheduler.Planner
}

var _ scheduler.ChangingView = (*cluster)(nil)

func newCluster(on Cluster) *cluster {
	nodes := slices.SortedFunc(slices.Values(on.Nodes), func(a, b *work.Node) int { return cmp.Compare(a.ID, b.ID) })
	c := &cluster{
		at: map[string]int{}, lanes: map[work.ClassKey][]work.LaneKey{}, lines: map[work.LaneKey][]*work.Job{},
		mix: map[work.Shape]int{}, shares: newShares(on), backfill: newBackfill(), calendar: newCalendar(on), active: map[ident.Job]*job{},
	}
	c.Picture = picture.Empty(c)
	for i, n := range nodes {
		c.at[n.ID] = i
		c.nodes = append(c.nodes, c.Load(n))
		c.total += 1000 * len(n.GPUs)
	}
	return c
}

// ClassOf implements scheduler.View.
func (c *cluster) ClassOf(j *work.Job) work.ClassKey {
	key := j.Class()
	if _, limited := c.quotas[j.Tenant]; limited || c.reserving[j.Tenant] {
		key.Tenant = j.Tenant
	}
	return key
}

// laneOf returns the lane that a job waits in. Without fair share all jobs of a class wait in one lane.
func (c *cluster) laneOf(j *work.Job) work.LaneKey {
	if !c.fair {
		return work.LaneKey{Class: c.ClassOf(j)}
	}
	return work.LaneKey{Class: c.ClassOf(j), Tenant: j.Tenant, User: j.User}
}

// wait puts a job into its lane.
func (c *cluster) wait(j *work.Job) {
	key := c.laneOf(j)
	line := c.lines[key]
	if line == nil {
		lanes := c.lanes[key.Class]
		if lanes == nil {
			i, _ := slices.BinarySearchFunc(c.classes, key.Class, byClass)
			c.classes = slices.Insert(c.classes, i, key.Class)
		}
		i, _ := slices.BinarySearchFunc(lanes, key, byUser)
		c.lanes[key.Class] = slices.Insert(lanes, i, key)
	}
	i, _ := slices.BinarySearchFunc(line, j, byAge)
	c.lines[key] = slices.Insert(line, i, j)
	c.waiting++
	if j.Attempt == 0 {
		c.mix[j.Shape]++
	}
}

// leave takes a job out of its lane.
func (c *cluster) leave(j *work.Job) error {
	key := c.laneOf(j)
	i, found := slices.BinarySearchFunc(c.lines[key], j, byAge)
	if !found {
		return fmt.Errorf("%s does not wait", j.ID)
	}
	c.waiting--
	if c.lines[key] = slices.Delete(c.lines[key], i, i+1); len(c.lines[key]) > 0 {
		return nil
	}
	delete(c.lines, key)
	at, _ := slices.BinarySearchFunc(c.lanes[key.Class], key, byUser)
	if c.lanes[key.Class] = slices.Delete(c.lanes[key.Class], at, at+1); len(c.lanes[key.Class]) == 0 {
		delete(c.lanes, key.Class)
		at, _ := slices.BinarySearchFunc(c.classes, key.Class, byClass)
		c.classes = slices.Delete(c.classes, at, at+1)
	}
	return nil
}

// hold gives a job the leases of a placement. It fails if the replicated state would refuse them.
func (c *cluster) hold(j *work.Job, tasks []work.TaskPlacement) error {
	if len(tasks) != max(1, int(j.Shape.Nodes)) {
		return fmt.Errorf("%s needs %d nodes and was given %d", j.ID, j.Shape.Nodes, len(tasks))
	}
	if why := c.bars(j); why != "" {
		return fmt.Errorf("%s was placed against a limit: %s", j.ID, why)
	}
	j.Tasks = nil
	for i, t := range tasks {
		n, ok := c.at[t.Node]
		if !ok {
			return fmt.Errorf("%s was placed on %q, which does not exist", j.ID, t.Node)
		}
		if j.TaskOn(t.Node) {
			return fmt.Errorf("%s was placed twice on %s", j.ID, t.Node)
		}
		if refusal := work.CheckTask(c.nodes[n].Node, c.nodes[n].Use, j.Shape, t.GPUs); refusal != nil {
			return fmt.Errorf("%s cannot be placed on %s: %v", j.ID, t.Node, refusal)
		}
		task := work.Task{Rank: uint16(i), Node: t.Node, GPUs: t.GPUs, State: v1.TaskState_RUNNING}
		j.Tasks = append(j.Tasks, task)
		c.lease(j, &task, c.now)
	}
	c.used += j.Shape.GPUMilli()
	c.Add(j, tasks)
	c.Settle()
	c.charge(j, c, 1)
	return nil
}

// release takes a job's leases.
func (c *cluster) release(j *work.Job) {
	c.Remove(j, work.Placed(j.Tasks))
	c.Settle()
	c.charge(j, c, -1)
	for i := range j.Tasks {
		c.unlease(j, j.Tasks[i].Node)
	}
	c.used -= j.Shape.GPUMilli()
	j.Tasks = nil
}

// byAge compares two jobs in the order of a lane: highest priority first, then oldest.
func byAge(a, b *work.Job) int {
	switch {
	case a.Priority != b.Priority:
		return cmp.Compare(b.Priority, a.Priority)
	case a.ID == b.ID:
		return 0
	case a.ID.Older(b.ID):
		return -1
	}
	return 1
}

func byUser(a, b work.LaneKey) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.User, b.User))
}

func byClass(a, b work.ClassKey) int {
	switch {
	case work.ClassLess(a, b):
		return -1
	case work.ClassLess(b, a):
		return 1
	}
	return 0
}

// The methods below implement scheduler.View.

func (c *cluster) Index() uint64                           { return 0 }
func (c *cluster) Classes() iter.Seq[work.ClassKey]        { return slices.Values(c.classes) }
func (c *cluster) ClassReason(work.ClassKey) reason.Reason { return "" }
func (c *cluster) Policy() policy.Policy                   { return c.policy }
func (c *cluster) Now() int64                              { return c.now }

// Mix counts the jobs that have arrived by shape.
func (c *cluster) Mix() iter.Seq2[work.Shape, int] {
	if c.blind {
		return maps.All(map[work.Shape]int(nil))
	}
	return maps.All(c.mix)
}

// Uses implements place.Changing.
func (c *cluster) Uses() iter.Seq2[string, *work.NodeUse] {
	return func(yield func(string, *work.NodeUse) bool) {
		for _, n := range c.nodes {
			if !yield(n.ID, n.Use) {
				return
			}
		}
	}
}

// Nodes implements scheduler.View.
func (c *cluster) Nodes() iter.Seq[*work.Node] {
	return func(yield func(*work.Node) bool) {
		for _, n := range c.nodes {
			if !yield(n.Node) {
				return
			}
		}
	}
}

// Lanes implements scheduler.View.
func (c *cluster) Lanes(class work.ClassKey) iter.Seq[work.LaneKey] {
	return slices.Values(c.lanes[class])
}

// LaneJobs implements scheduler.View.
func (c *cluster) LaneJobs(key work.LaneKey) iter.Seq[*work.Job] { return slices.Values(c.lines[key]) }

// LaneJobsAfter implements scheduler.View. The job after which it begins need not wait in the lane: only its priority
// and its age matter.
func (c *cluster) LaneJobsAfter(key work.LaneKey, after *work.Job, buf []*work.Job) []*work.Job {
	line := c.lines[key]
	if after != nil {
		i, found := slices.BinarySearchFunc(line, after, byAge)
		if found {
			i++
		}
		line = line[i:]
	}
	return buf[:copy(buf, line)]
}

// jobID returns the id of the nth job of a trace.
func jobID(n int) ident.Job { return ident.Job(n+1) << 16 }
