package scheduler_test

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/accounts"
	"github.com/mindcoordinator/mind/fsm/work/budgets"
	"github.com/mindcoordinator/mind/fsm/work/claims"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/fsm/work/promises"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/order"
	"github.com/mindcoordinator/mind/scheduler/predict"
	"github.com/mindcoordinator/mind/scheduler/preempt"
)

const (
	testMinute = int64(time.Minute)
	testNow    = 100_000 * testMinute
)

// board is a small cluster: nodes of 8 GPUs, running jobs and waiting jobs.
type board struct {
	nodes   []*work.Node
	use     map[string]*work.NodeUse
	waiting []*work.Job
	running []preempt.Running
	model   predict.Model
	policy  policy.Policy
	ids     ident.Job
}

func newBoard(nodes int) *board {
	b := &board{use: map[string]*work.NodeUse{}, policy: policy.DefaultPolicy()}
	b.policy.Order, b.policy.Preemption.Enabled = policy.OrderShortest, true
	for i := range nodes {
		n := &work.Node{ID: fmt.Sprint("n", i), State: v1.NodeState_READY}
		for g := range 8 {
			n.GPUs = append(n.GPUs, work.GPU{Index: uint8(g), Health: v1.GpuHealth_HEALTHY})
		}
		b.nodes = append(b.nodes, n)
		b.use[n.ID] = &work.NodeUse{}
	}
	// The model has learned: jobs of 1 GPU take 20 minutes if they come at 0, and 5,000 if they come at 1,000; jobs of
	// 8 GPUs take 100.
	for range 30 {
		b.model.Learn(&work.Job{Shape: work.Shape{GPUs: 1}, CreatedAt: testNow}, 20*testMinute)
		b.model.Learn(&work.Job{Shape: work.Shape{GPUs: 1}, CreatedAt: testNow - 1000*testMinute}, 5000*testMinute)
		b.model.Learn(&work.Job{Shape: work.Shape{GPUs: 8}, CreatedAt: testNow}, 100*testMinute)
		b.model.Learn(&work.Job{Shape: work.Shape{GPUs: 8}, CreatedAt: testNow - 1000*testMinute}, 5000*testMinute)
	}
	return b
}

// runs adds a job that was submitted 1,000 minutes ago, has run since then, and saved its newest checkpoint saved
// minutes ago.
func (b *board) runs(node string, first, gpus int, saved int64) *work.Job {
	b.ids += 1 << 16
	j := &work.Job{
		ID: b.ids, Priority: 5, Queue: "q", Preemptible: true, State: v1.JobState_RUNNING, Attempt: 1, Shape: work.Shape{Nodes: 1, GPUs: uint16(gpus)},
		CreatedAt: testNow - 1000*testMinute, StartedAt: testNow - 1000*testMinute,
		Tasks: []work.Task{{Node: node, GPUs: (1<<gpus - 1) << first}},
	}
	b.use[node].Add(&work.Lease{GPUs: j.Tasks[0].GPUs})
	b.running = append(b.running, preempt.Running{Job: j, SavedAt: testNow - saved*testMinute})
	return j
}

func (b *board) waits(gpus int, since int64) *work.Job {
	b.ids += 1 << 16
	j := &work.Job{
		ID: b.ids, Priority: 5, Queue: "q", State: v1.JobState_QUEUED, Shape: work.Shape{Nodes: 1, GPUs: uint16(gpus)}, CreatedAt: testNow - since*testMinute,
	}
	b.waiting = append(b.waiting, j)
	return j
}

func (b *board) plan() scheduler.Result {
	return scheduler.Plan(b, scheduler.Options{Quiet: true, Model: &b.model, Running: slices.Values(b.running)})
}

func (b *board) Index() uint64                           { return 0 }
func (b *board) Nodes() iter.Seq[*work.Node]             { return slices.Values(b.nodes) }
func (b *board) Use(node string) work.NodeUse            { return *b.use[node] }
func (b *board) ClassReason(work.ClassKey) reason.Reason { return "" }
func (b *board) Quota(string) (*work.Quota, bool)        { return nil, false }
func (b *board) Usage(string) work.Usage                 { return work.Usage{} }
func (b *board) Queue(string) (*work.Queue, bool)        { return nil, false }
func (b *board) QueueTreeGPUs(string) int                { return 0 }
func (b *board) Promises() iter.Seq[*promises.Promise] {
	return slices.Values([]*promises.Promise(nil))
}
func (b *board) Job(ident.Job) (*work.Job, bool)         { return nil, false }
func (b *board) Node(string) (*work.Node, bool)          { return nil, false }
func (b *board) ClassOf(j *work.Job) work.ClassKey       { return j.Class() }
func (b *board) LeasesOn(string) iter.Seq[*work.Lease]   { return slices.Values([]*work.Lease(nil)) }
func (b *board) Array(ident.Job) (*work.Job, bool)       { return nil, false }
func (b *board) Policy() policy.Policy                   { return b.policy }
func (b *board) Now() int64                              { return testNow }
func (b *board) ClaimOf(ident.Job) (*claims.Claim, bool) { return nil, false }
func (b *board) Total() accounts.Amount                  { return accounts.Amount{} }
func (b *board) Windows() iter.Seq[*windows.Window]      { return func(func(*windows.Window) bool) {} }
func (b *board) Mix() iter.Seq2[work.Shape, int]         { return maps.All(map[work.Shape]int{}) }
func (b *board) HeldOfType(string, string) int           { return 0 }
func (b *board) QueueTreeOfType(string, string) int      { return 0 }
func (b *board) Budget(string) *budgets.Budget           { return nil }
func (b *board) GPUModels() iter.Seq[work.GPU]           { return slices.Values([]work.GPU(nil)) }

func (b *board) Accounts() iter.Seq[*accounts.Account] {
	return slices.Values([]*accounts.Account(nil))
}

func (b *board) Lanes(class work.ClassKey) iter.Seq[work.LaneKey] {
	return slices.Values([]work.LaneKey{{Class: class}})
}

func (b *board) Classes() iter.Seq[work.ClassKey] {
	var keys []work.ClassKey
	for _, j := range b.waiting {
		if !slices.Contains(keys, j.Class()) {
			keys = append(keys, j.Class())
		}
	}
	return slices.Values(keys)
}

func (b *board) line(key work.ClassKey) (jobs []*work.Job) {
	for _, j := range b.waiting {
		if j.Class() == key {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, order.InOrder)
	return jobs
}

func (b *board) LaneJobs(key work.LaneKey) iter.Seq[*work.Job] {
	return slices.Values(b.line(key.Class))
}

func (b *board) LaneJobsAfter(key work.LaneKey, after *work.Job, buf []*work.Job) []*work.Job {
	var rest []*work.Job
	for _, j := range b.line(key.Class) {
		if after == nil || order.InOrder(j, after) > 0 {
			rest = append(rest, j)
		}
	}
	return buf[:copy(buf, rest)]
}

// placed returns the jobs that a plan starts, in its order.
func placed(res scheduler.Result) (ids []ident.Job) {
	for _, c := range res.Commands {
		for _, p := range c.Placements {
			ids = append(ids, p.Job)
		}
	}
	return ids
}

func TestPlan_shortestFirst(t *testing.T) {
	b := newBoard(1)
	b.runs("n0", 0, 6, 0)
	b.policy.Preemption.Enabled = false
	long, short, short2 := b.waits(1, 1000), b.waits(1, 0), b.waits(1, 0)
	require.Equal(t, []ident.Job{short.ID, short2.ID}, placed(b.plan()))
	b.policy.Order = policy.OrderFIFO
	require.Equal(t, []ident.Job{long.ID, short.ID}, placed(b.plan()))
}

func TestPlan_leastAttainedFirst(t *testing.T) {
	b := newBoard(1)
	b.runs("n0", 0, 7, 0)
	b.policy.Order, b.policy.Preemption.Enabled = policy.OrderAttained, false
	had, fresh := b.waits(1, 100), b.waits(1, 1)
	had.Past = []work.PastAttempt{{Attempt: 1, StartedAt: testNow - 90*testMinute, EndedAt: testNow - 80*testMinute}}
	require.Equal(t, []ident.Job{had.ID}, placed(b.plan()), "it has failed: it keeps its place")
	had.Retries.Preempted = 1
	require.Equal(t, []ident.Job{fresh.ID}, placed(b.plan()))
	fresh.Past, fresh.Retries.Preempted = []work.PastAttempt{{Attempt: 1, StartedAt: testNow - 90*testMinute, EndedAt: testNow - 70*testMinute}}, 1
	require.Equal(t, []ident.Job{had.ID}, placed(b.plan()))
}

func TestPlan_whatWaitsRises(t *testing.T) {
	b := newBoard(1)
	b.runs("n0", 0, 7, 0)
	b.policy.Order, b.policy.Preemption.Enabled, b.policy.AgingStep = policy.OrderFIFO, false, 60*testMinute
	old, high := b.waits(1, 119), b.waits(1, 0)
	high.Priority = 7
	require.Equal(t, []ident.Job{high.ID}, placed(b.plan()), "one step")
	old.CreatedAt -= testMinute
	require.Equal(t, []ident.Job{old.ID}, placed(b.plan()), "two steps, and older")
	b.policy.AgingStep = 0
	require.Equal(t, []ident.Job{high.ID}, placed(b.plan()))
}

func TestPlan_preemptsForAMuchShorterJob(t *testing.T) {
	b := newBoard(1)
	long := b.runs("n0", 0, 8, 5)
	short := b.waits(1, 0)
	res := b.plan()
	require.Empty(t, placed(res))
	require.Len(t, res.OrderPreemptions, 1)
	require.Equal(t, []ident.Job{long.ID}, res.OrderPreemptions[0].Victims)
	require.Equal(t, short.ID, res.OrderPreemptions[0].For.Job)
	require.Equal(t, []work.TaskPlacement{{Node: "n0", GPUs: 1}}, res.OrderPreemptions[0].For.Tasks)

	for why, change := range map[string]func(b *board){
		"it may not be preempted": func(b *board) { b.running[0].Job.Preemptible = false },
		"it is protected":         func(b *board) { b.policy.Preemption.Protect = 2000 * testMinute },
		"it is protected from the other's priority": func(b *board) {
			b.waiting[0].Priority, b.policy.Preemption.ProtectFromPriority = 6, 2000*testMinute
		},
		"its work is not saved":          func(b *board) { b.running[0].SavedAt = 0 },
		"it was saved too long ago":      func(b *board) { b.running[0].SavedAt = testNow - 11*testMinute },
		"it was preempted often enough":  func(b *board) { b.running[0].Job.Retries.Preempted = preempt.MostPreempted },
		"it is being stopped":            func(b *board) { b.running[0].Job.Stop = v1.StopReason_CANCEL },
		"the other needs as long":        func(b *board) { b.waiting[0].CreatedAt = testNow - 1000*testMinute; b.waiting[0].Shape.GPUs = 8 },
		"the policy does not preempt":    func(b *board) { b.policy.Preemption.Enabled = false },
		"the ratio asks for much more":   func(b *board) { b.policy.Preemption.Ratio = 2000 },
		"it is nearly done":              func(b *board) { b.running[0].Job.MaxRuntime = 1030 * testMinute },
		"it has the higher priority now": func(b *board) { b.running[0].Job.Preemptible, b.running[0].Job.Priority = false, 9 },
	} {
		b := newBoard(1)
		b.runs("n0", 0, 8, 5)
		b.waits(1, 0)
		change(b)
		require.Empty(t, b.plan().OrderPreemptions, why)
	}
}

func TestPlan_preemptsForPriorityEvenUnsaved(t *testing.T) {
	b := newBoard(1)
	b.runs("n0", 0, 8, 5000)
	high := b.waits(8, 1000)
	require.Empty(t, b.plan().OrderPreemptions)
	high.Priority = 6
	require.Len(t, b.plan().OrderPreemptions, 1)
	high.Priority, high.CreatedAt = 5, testNow-b.policy.AgingStep
	require.Len(t, b.plan().OrderPreemptions, 1, "waiting is worth a step")
}

func TestPlan_movesSmallJobsOutOfTheWay(t *testing.T) {
	b := newBoard(2)
	var small []ident.Job
	for _, node := range []string{"n0", "n1"} {
		small = append(small, b.runs(node, 0, 2, 3).ID)
	}
	big := b.waits(8, 7)
	require.Empty(t, b.plan().OrderPreemptions, "it has not waited for as long as the move takes")
	big.CreatedAt -= 2 * testMinute
	res := b.plan()
	require.Len(t, res.OrderPreemptions, 1)
	require.Len(t, res.OrderPreemptions[0].Victims, 1, "one node is enough")
	require.Contains(t, small, res.OrderPreemptions[0].Victims[0])
	require.Equal(t, uint64(255), res.OrderPreemptions[0].For.Tasks[0].GPUs)
}

func TestPlan_stopsNobodyTwiceAndPromisesNoGPUTwice(t *testing.T) {
	b := newBoard(2)
	for _, node := range []string{"n0", "n1"} {
		for g := range 8 {
			b.runs(node, g, 1, 5)
		}
	}
	for range 40 {
		b.waits(1, 0)
	}
	stopped, given := map[ident.Job]bool{}, map[string]uint64{}
	res := b.plan()
	require.Len(t, res.OrderPreemptions, 16)
	for _, p := range res.OrderPreemptions {
		for _, v := range p.Victims {
			require.False(t, stopped[v])
			stopped[v] = true
		}
		for _, task := range p.For.Tasks {
			require.Zero(t, given[task.Node]&task.GPUs)
			given[task.Node] |= task.GPUs
		}
	}
}
