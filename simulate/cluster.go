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
	"github.com/mindcoordinator/mind/fsm/work/accounts"
	"github.com/mindcoordinator/mind/fsm/work/budgets"
	"github.com/mindcoordinator/mind/fsm/work/claims"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/scheduler"
)

// cluster is the state that the scheduler sees: nodes, what is in use on them, and the jobs that wait. It is the state of
// one run, and refuses what the real one would refuse.
type cluster struct {
	nodes []*work.Node
	at    map[string]int
	// use is replaced, never changed: the planner sees by its address that something is new.
	use []*work.NodeUse
	// mix counts the jobs that have arrived, by what they need.
	mix map[work.Shape]int
	// blind: the mix is not told, so places are best fit.
	blind bool
	// classes are those with waiting jobs, in order; lines are their jobs, oldest first.
	classes []work.ClassKey
	lines   map[work.ClassKey][]*work.Job
	waiting int
	// used is the GPUs in use, in thousandths, and total all that there are.
	used, total int
	usage       work.Usage
	// policy is how to decide, and now the virtual time, in Unix nanoseconds.
	policy work.Policy
	now    int64
	backfill
	// planner is the scheduler of the cluster.
	planner scheduler.Planner
}

var _ scheduler.ChangingView = (*cluster)(nil)

func newCluster(nodes []*work.Node) *cluster {
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b *work.Node) int { return cmp.Compare(a.ID, b.ID) })
	c := &cluster{nodes: nodes, at: map[string]int{}, lines: map[work.ClassKey][]*work.Job{}, mix: map[work.Shape]int{}, backfill: newBackfill()}
	for i, n := range nodes {
		c.at[n.ID] = i
		c.use = append(c.use, &work.NodeUse{})
		c.total += 1000 * len(n.GPUs)
	}
	return c
}

// Windows are none: traces do not tell of any.
func (c *cluster) Windows() iter.Seq[*windows.Window] { return func(func(*windows.Window) bool) {} }

// wait puts a job into its line.
func (c *cluster) wait(j *work.Job) {
	key := j.Class()
	line := c.lines[key]
	if line == nil {
		i, _ := slices.BinarySearchFunc(c.classes, key, byClass)
		c.classes = slices.Insert(c.classes, i, key)
	}
	i, _ := slices.BinarySearchFunc(line, j, byAge)
	c.lines[key] = slices.Insert(line, i, j)
	c.waiting++
	if j.Attempt == 0 {
		c.mix[j.Shape]++
	}
}

// leave takes a job out of its line.
func (c *cluster) leave(j *work.Job) error {
	key := j.Class()
	i, found := slices.BinarySearchFunc(c.lines[key], j, byAge)
	if !found {
		return fmt.Errorf("%s does not wait", j.ID)
	}
	c.waiting--
	if c.lines[key] = slices.Delete(c.lines[key], i, i+1); len(c.lines[key]) == 0 {
		delete(c.lines, key)
		at, _ := slices.BinarySearchFunc(c.classes, key, byClass)
		c.classes = slices.Delete(c.classes, at, at+1)
	}
	return nil
}

// hold gives a job its leases, all or none, if the state would.
func (c *cluster) hold(j *work.Job, tasks []work.TaskPlacement) error {
	if len(tasks) != max(1, int(j.Shape.Nodes)) {
		return fmt.Errorf("%s needs %d nodes and was given %d", j.ID, j.Shape.Nodes, len(tasks))
	}
	j.Tasks = nil
	for i, t := range tasks {
		n, ok := c.at[t.Node]
		if !ok {
			return fmt.Errorf("%s was placed on %q, which does not exist", j.ID, t.Node)
		}
		if refusal := work.CheckTask(c.nodes[n], c.use[n], j.Shape, t.GPUs); refusal != nil {
			return fmt.Errorf("%s cannot be placed on %s: %v", j.ID, t.Node, refusal)
		}
		task := work.Task{Rank: uint16(i), Node: t.Node, GPUs: t.GPUs, State: v1.TaskState_RUNNING}
		use := *c.use[n]
		use.Add(leaseOf(j, &task))
		c.use[n] = &use
		j.Tasks = append(j.Tasks, task)
		c.lease(j, &task, c.now)
	}
	c.used += j.Shape.GPUMilli()
	return nil
}

// release takes a job's leases.
func (c *cluster) release(j *work.Job) {
	for i := range j.Tasks {
		n := c.at[j.Tasks[i].Node]
		use := *c.use[n]
		use.Remove(leaseOf(j, &j.Tasks[i]))
		c.use[n] = &use
		c.unlease(j, j.Tasks[i].Node)
	}
	c.used -= j.Shape.GPUMilli()
	j.Tasks = nil
}

func leaseOf(j *work.Job, t *work.Task) *work.Lease {
	return &work.Lease{GPUs: t.GPUs, FractionMilli: j.Shape.FractionMilli, CPUs: j.Shape.CPUDemand(), MemMB: j.Shape.MemMB}
}

func byAge(a, b *work.Job) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.ID, b.ID))
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

// The rest is scheduler.View. Nobody has a quota, and no queue a limit.

func (c *cluster) Index() uint64                           { return 0 }
func (c *cluster) Nodes() iter.Seq[*work.Node]             { return slices.Values(c.nodes) }
func (c *cluster) Use(node string) work.NodeUse            { return *c.use[c.at[node]] }
func (c *cluster) Classes() iter.Seq[work.ClassKey]        { return slices.Values(c.classes) }
func (c *cluster) ClassReason(work.ClassKey) reason.Reason { return "" }
func (c *cluster) Quota(string) (*work.Quota, bool)        { return nil, false }
func (c *cluster) Usage(string) work.Usage                 { return c.usage }
func (c *cluster) Queue(string) (*work.Queue, bool)        { return nil, false }
func (c *cluster) QueueTreeGPUs(string) int                { return 0 }
func (c *cluster) Array(ident.Job) (*work.Job, bool)       { return nil, false }
func (c *cluster) Policy() work.Policy                     { return c.policy }
func (c *cluster) Now() int64                              { return c.now }
func (c *cluster) ClaimOf(ident.Job) (*claims.Claim, bool) { return nil, false }
func (c *cluster) Total() accounts.Amount                  { return accounts.Amount{} }
func (c *cluster) HeldOfType(string, string) int           { return 0 }
func (c *cluster) QueueTreeOfType(string, string) int      { return 0 }
func (c *cluster) Budget(string) *budgets.Budget           { return nil }
func (c *cluster) GPUModels() iter.Seq2[string, string]    { return maps.All(map[string]string(nil)) }

func (c *cluster) Accounts() iter.Seq[*accounts.Account] {
	return slices.Values([]*accounts.Account(nil))
}

// Mix is what the jobs that have arrived ask for.
func (c *cluster) Mix() iter.Seq2[work.Shape, int] {
	if c.blind {
		return maps.All(map[work.Shape]int(nil))
	}
	return maps.All(c.mix)
}

// Uses implements place.Changing.
func (c *cluster) Uses() iter.Seq2[string, *work.NodeUse] {
	return func(yield func(string, *work.NodeUse) bool) {
		for i, use := range c.use {
			if !yield(c.nodes[i].ID, use) {
				return
			}
		}
	}
}

// Lanes has all jobs of a class in one: the policies are compared without fair share.
func (c *cluster) Lanes(class work.ClassKey) iter.Seq[work.LaneKey] {
	return slices.Values([]work.LaneKey{{Class: class}})
}

func (c *cluster) LaneJobs(key work.LaneKey) iter.Seq[*work.Job] {
	return slices.Values(c.lines[key.Class])
}

func (c *cluster) LaneJobsAfter(key work.LaneKey, after *work.Job, buf []*work.Job) []*work.Job {
	line := c.lines[key.Class]
	if after != nil {
		i, _ := slices.BinarySearchFunc(line, &work.Job{Priority: after.Priority, ID: after.ID + 1}, byAge)
		line = line[i:]
	}
	return buf[:copy(buf, line)]
}

// jobID names the nth job of a trace.
func jobID(n int) ident.Job { return ident.Job(n+1) << 16 }
