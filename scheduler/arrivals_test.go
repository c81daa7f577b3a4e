package scheduler_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/domains"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
	"github.com/mindcoordinator/mind/fsm/work/typed"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/fsm/work/windowverbs"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/order"
	"github.com/mindcoordinator/mind/scheduler/predict"
	"github.com/mindcoordinator/mind/scheduler/preempt"
	"github.com/mindcoordinator/mind/scheduler/reserve"
	"github.com/mindcoordinator/mind/scheduler/worth"
)

// TestArrivals_noInvariantIsBroken simulates a cluster: jobs of all shapes arrive and leave, nodes fail and come back,
// GPUs are quarantined, operators change policies, quotas, queues and windows, and the leader's loop plans, reserves
// starts, preempts and reclaims. It checks that the invariants of the state always hold, that the state refuses no part
// of a plan that was made from it, that a planner that has run all the time makes the same plans as a new one, and that
// what it keeps is what the state has, so the state lists all that changes.
// MIND_ARRIVALS is the number of jobs that arrive (a million takes about half an hour; go test -timeout), MIND_SEED the
// seed.
func TestArrivals_noInvariantIsBroken(t *testing.T) {
	arrivals, seed := 2000, uint64(1)
	if testing.Short() {
		arrivals = 300
	}
	for name, set := range map[string]func(uint64){
		"MIND_ARRIVALS": func(n uint64) { arrivals = int(n) }, "MIND_SEED": func(n uint64) { seed = n },
	} {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.ParseUint(text, 10, 32)
			require.NoError(t, err, name)
			set(n)
		}
	}
	l := newLife(t, seed)
	l.s.apply(clusterverbs.Configure{KeepFinished: 500, KeepAudit: 100})
	for i := range 12 {
		l.register(i)
	}
	rounds := 0
	for ; l.arrived < arrivals; rounds++ {
		l.round()
		if rounds%16 == 0 {
			require.Empty(t, fsm.Check(l.s.machine.View()), "seed %d, after %d arrivals", seed, l.arrived)
		}
		if rounds%1000 == 0 && rounds > 0 {
			t.Logf("%d of %d arrived: %v", l.arrived, arrivals, l.did)
		}
	}
	t.Logf("seed %d, %d rounds: %v", seed, rounds, l.did)
	if arrivals >= 2000 {
		for _, what := range []string{"placed", "promised", "preempted", "reclaimed", "preempted by order", "backfilled", "refused", "succeeded", "failed", "stopped", "lost", "restored"} {
			require.Positive(t, l.did[what], what)
		}
	}
}

// life is a cluster and the source of its events.
type life struct {
	*rand.Rand
	t       *testing.T
	s       *state
	planner scheduler.Planner
	prices  *worth.Prices
	model   *predict.Model
	blocked map[work.ClassKey]bool
	arrived int
	did     map[string]int
	recent  []ident.Job
}

func newLife(t *testing.T, seed uint64) *life {
	l := &life{
		Rand: rand.New(rand.NewPCG(seed, 0)), t: t, s: newState(t), blocked: map[work.ClassKey]bool{}, did: map[string]int{},
		model: &predict.Model{}, planner: scheduler.NewByUser(),
	}
	l.s.index++
	l.s.machine.StoreConfiguration(l.s.index, []string{"c1", "c2", "c3"})
	for _, q := range []work.Queue{{Name: "org", Weight: 2}, {Name: "a", Parent: "org", Weight: 1}, {Name: "b", Parent: "org", Weight: 3}} {
		l.s.queue(q.Name, q.Parent, q.Weight)
	}
	return l
}

func (l *life) one(of int) bool { return l.IntN(of) == 0 }

func either[T any](l *life, from ...T) T { return from[l.IntN(len(from))] }

// register has a node register, the first time or again.
func (l *life) register(i int) {
	id := fmt.Sprint("n", i)
	kind := "H100"
	if i%3 == 2 {
		kind = "A100"
	}
	inventory := gpus(id, kind, 8, 4)
	if l.one(8) {
		inventory[l.IntN(8)].Health = v1.GpuHealth_QUARANTINED
	}
	node := nodeverbs.RegisterNode{Node: work.Node{
		ID: id, Hostname: id, BootID: "b1", AgentVersion: "test", GRPCAddr: id + ":1", GPUs: inventory, CPUs: 64, MemMB: 512 << 10,
		Labels: map[string]string{"leaf": fmt.Sprint("l", i/4), "spine": fmt.Sprint("s", i/8)},
	}}
	// The node reports its running tasks, or some of them.
	for j := range l.s.machine.View().ActiveJobs() {
		for _, task := range j.Tasks {
			if task.Node == id && !l.one(9) {
				node.Tasks = append(node.Tasks, work.TaskRef{Job: j.ID, Attempt: j.Attempt, Rank: task.Rank, Token: j.Token})
			}
		}
	}
	for _, job := range l.s.machine.View().AwaitedOn(id) {
		if j, ok := l.s.machine.View().Job(job); ok {
			for _, a := range j.Awaits {
				if a.Node == id && l.one(2) {
					node.Tasks = append(node.Tasks, work.TaskRef{Job: job, Attempt: a.Attempt, Rank: a.Rank, Token: a.Token})
				}
			}
		}
	}
	l.s.apply(node)
}

func (l *life) round() {
	l.s.now = l.s.now.Add(either(l, time.Second, time.Minute, time.Minute, 10*time.Minute, time.Hour))
	l.s.apply(clusterverbs.Tick{Settled: true})
	l.arrive()
	l.tasks()
	if l.one(10) {
		l.nodes()
	}
	if l.one(12) {
		l.operators()
	}
	if l.one(40) {
		l.prices = worth.Learn(l.s.machine.View().Mix(), l.s.machine.View().Nodes())
	}
	if l.one(100) {
		l.restore()
	}
	l.lead()
}

// restore replaces the state by a snapshot of it, as if a new leader had read it.
func (l *life) restore() {
	var image bytes.Buffer
	_, err := l.s.machine.Snapshot().WriteTo(&image)
	require.NoError(l.t, err)
	before := l.s.machine.View().Hash()
	l.s.machine = fsm.New()
	require.NoError(l.t, l.s.machine.Restore(&image))
	require.Equal(l.t, before, l.s.machine.View().Hash())
	l.planner, l.model = scheduler.NewByUser(), &predict.Model{}
	if l.did["restored"]%4 == 3 {
		l.planner = scheduler.Planner{}
	}
	l.did["restored"]++
}

// arrive submits some jobs. The state refuses some of them.
func (l *life) arrive() {
	if len(l.waiting()) > 150 {
		return
	}
	var jobs []jobverbs.NewJob
	for range 1 + l.IntN(8) {
		jobs = append(jobs, l.job())
	}
	for _, r := range l.s.apply(jobverbs.SubmitJobs{Jobs: jobs})[0].(jobverbs.SubmitJobsResult).Results {
		l.arrived++
		if r.Refusal == nil {
			l.recent = append(l.recent[max(0, len(l.recent)-20):], r.Job)
		}
	}
}

func (l *life) job() jobverbs.NewJob {
	shape := work.Shape{Nodes: 1, GPUs: either[uint16](l, 1, 1, 1, 2, 4, 8)}
	switch l.IntN(10) {
	case 0:
		shape.GPUs, shape.FractionMilli = 0, either[uint16](l, 100, 250, 500, 999)
	case 1:
		shape.GPUs, shape.CPUs, shape.MemMB = 0, uint32(l.IntN(30)), uint32(l.IntN(100_000))
	case 2, 3:
		shape.Nodes, shape.GPUs = uint16(2+l.IntN(5)), either[uint16](l, 4, 8, 8)
		if l.one(2) {
			shape.Between, shape.Level = either(l, domains.Same, domains.Prefer, domains.Spread), either(l, "leaf", "spine")
		}
	case 4:
		shape.Topology = work.TopologyNVLink
	}
	if shape.GPUs > 0 {
		shape.GPUType = either(l, "", "", "H100", "A100", "A100|H100")
	}
	if l.one(12) {
		shape.Exclude = "n1"
	}
	j := l.s.of(either(l, "default", "org", "a", "b"), fmt.Sprint("t", l.IntN(4)), fmt.Sprint("u", l.IntN(3)), shape)
	j.Name = fmt.Sprint("job-", l.IntN(5))
	j.Priority = either[uint8](l, 5, 5, 5, 2, 7, 10)
	j.Preemptible = l.one(2)
	j.MaxRuntime = int64(either[time.Duration](l, 0, time.Hour, 5*time.Hour, 30*time.Hour))
	j.Retry = work.RetryPolicy{Max: uint16(l.IntN(4)), On: either(l, work.RetryInfrastructure, work.RetryAll)}
	j.LostAfter, j.GiveUpAfter = int64(time.Minute), int64(either[time.Duration](l, 0, 24*time.Hour))
	if l.one(10) {
		j.NotBefore = l.s.machine.View().Now() + int64(l.IntN(10))*int64(time.Hour)
	}
	if l.one(10) && len(l.recent) > 0 {
		j.Dependencies = []work.Dependency{{Job: l.recent[l.IntN(len(l.recent))], When: either(l, work.AfterOK, work.AfterFail, work.AfterAny)}}
	}
	if l.one(20) && shape.Nodes == 1 {
		j.Array, j.MaxParallel = &jobverbs.NewArray{Start: 1, End: uint32(1 + l.IntN(30))}, uint32(l.IntN(6))
	}
	return j
}

func (l *life) waiting() (ids []ident.Job) {
	for j := range l.s.machine.View().Jobs(false, 0) {
		if j.Waiting() {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

// lasts is the average number of rounds that jobs of a name run.
var lasts = map[string]int{"job-0": 2, "job-1": 4, "job-2": 8, "job-3": 16, "job-4": 40}

// tasks advances the processes of some live jobs: they start, save checkpoints, end, fail, or stop as ordered.
func (l *life) tasks() {
	v := l.s.machine.View()
	for j := range v.ActiveJobs() {
		switch {
		case j.Stop != v1.StopReason_UNSPECIFIED || j.Ending != nil:
			if !l.one(4) {
				l.did["stopped"]++
				l.end(j, 143)
			}
		case l.one(lasts[j.Name]):
			l.did["succeeded"]++
			l.end(j, 0)
			if over, ok := l.s.machine.View().Job(j.ID); ok && over.State == v1.JobState_SUCCEEDED {
				l.model.Learn(over, order.Attained(over, over.FinishedAt))
			}
		case l.one(40):
			l.did["failed"]++
			l.report(j, jobverbs.TaskReport{Rank: uint16(l.IntN(len(j.Tasks))), Kind: jobverbs.ReportEnded, ErrorType: v1.ErrorType_GPU_FAULT})
		default:
			l.report(j, jobverbs.TaskReport{Kind: jobverbs.ReportStarting}, jobverbs.TaskReport{Kind: jobverbs.ReportRunning})
			if l.one(3) {
				l.report(j, jobverbs.TaskReport{
					Kind: jobverbs.ReportCheckpoint, Step: l.Int64N(1000), Path: fmt.Sprintf("/c/%d", l.IntN(5)), Digest: fmt.Sprint(l.IntN(1000)), SizeBytes: 1,
				})
			}
		}
	}
	for _, id := range l.waiting() {
		if l.one(200) {
			l.s.apply(jobverbs.ControlJob{Job: id, Action: either(l, work.ActionCancel, work.ActionPause)})
		}
	}
}

// end has all tasks of a job end.
func (l *life) end(j *work.Job, code int32) {
	for _, task := range j.Tasks {
		if task.State == v1.TaskState_ENDED {
			continue
		}
		l.report(j, jobverbs.TaskReport{Rank: task.Rank, Kind: jobverbs.ReportStarting}, jobverbs.TaskReport{Rank: task.Rank, Kind: jobverbs.ReportRunning})
		l.report(j, jobverbs.TaskReport{Rank: task.Rank, Kind: jobverbs.ReportEnded, ExitCode: &code})
	}
}

// report sends reports of a job's tasks. An unreachable node sends none.
func (l *life) report(j *work.Job, reports ...jobverbs.TaskReport) {
	for _, r := range reports {
		node, ok := l.s.machine.View().Node(j.Tasks[r.Rank].Node)
		if !ok || node.State == v1.NodeState_LOST || node.State == v1.NodeState_UNREACHABLE {
			continue
		}
		r.Job, r.Attempt, r.Token = j.ID, j.Attempt, j.Token
		l.s.apply(jobverbs.ReportTasks{Node: node.ID, Reports: []jobverbs.TaskReport{r}})
	}
}

// nodes changes the state of a random node.
func (l *life) nodes() {
	i := l.IntN(12)
	id := fmt.Sprint("n", i)
	n, ok := l.s.machine.View().Node(id)
	switch what := l.IntN(6); {
	case !ok || n.State == v1.NodeState_LOST || n.State == v1.NodeState_UNREACHABLE && what < 3:
		l.register(i)
	case n.State == v1.NodeState_UNREACHABLE:
		l.s.ack()
		l.s.now = l.s.now.Add(2 * time.Minute)
		eligible := []string{"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9", "n10", "n11"}
		l.did["lost"] += l.s.lose(id, slices.DeleteFunc(eligible, func(other string) bool { return other == id })...)
	case what == 0:
		l.s.apply(nodeverbs.SetNode{ID: id, Action: nodeverbs.NodeDrain, Deadline: int64(either[time.Duration](l, 0, time.Hour)), Force: l.one(4)})
	case what == 1 || n.Drain != nil:
		l.s.apply(nodeverbs.SetNode{ID: id, Action: nodeverbs.NodeEnable})
	case what == 2:
		sick := slices.Clone(n.GPUs)
		sick[l.IntN(len(sick))].Health = either(l, v1.GpuHealth_QUARANTINED, v1.GpuHealth_HEALTHY)
		l.s.apply(nodeverbs.SetNode{ID: id, Action: nodeverbs.NodeHealth, GPUs: sick, Reason: reason.Text("xid 79")})
	default:
		l.s.apply(nodeverbs.SetNode{ID: id, Action: nodeverbs.NodeUnreachable})
	}
}

// operators makes a random change of an operator.
func (l *life) operators() {
	switch l.IntN(6) {
	case 0:
		p := l.s.machine.View().Policy()
		p.Order = either(l, policy.OrderFIFO, policy.OrderShortest, policy.OrderAttained)
		p.AgingStep = int64(either[time.Duration](l, 0, time.Hour, 5*24*time.Hour))
		p.Hold = int64(either[time.Duration](l, 0, 2*time.Minute))
		p.Preemption.Enabled, p.Preemption.Protect = l.one(2), int64(either[time.Duration](l, 0, time.Hour))
		p.Preemption.ProtectFromPriority = int64(either[time.Duration](l, 0, time.Hour))
		p.Backfill.Reservations, p.Backfill.After = either[uint32](l, 0, 2, 8), int64(either[time.Duration](l, 0, 10*time.Minute))
		l.s.apply(queueverbs.PutPolicy{Policy: p, Base: p.Revision})
	case 1:
		tenant := fmt.Sprint("t", l.IntN(4))
		if l.one(3) {
			l.s.apply(queueverbs.DeleteQuota{Tenant: tenant})
			return
		}
		gpus, running, hours := int32(l.IntN(60)), int32(l.IntN(20)), int32(l.IntN(20_000))
		put := queueverbs.PutQuota{Tenant: tenant, MaxGPUs: &gpus, MaxRunning: &running}
		switch l.IntN(3) {
		case 0:
			put = queueverbs.PutQuota{Tenant: tenant, MaxByType: typed.Limits{{Type: either(l, "A100", "H100"), GPUs: gpus}}}
		case 1:
			put.MaxGPUHours = &hours
		}
		l.s.apply(put)
	case 2, 3:
		l.s.apply(queueverbs.PutQueue{Queue: work.Queue{
			Name: either(l, "org", "a", "b", "default"), Parent: either(l, "", "org"), Weight: uint32(1 + l.IntN(5)), MaxGPUs: either[uint32](l, 0, 0, 16, 60),
			Guaranteed: either[uint32](l, 0, 8, 24),
			MaxByType:  either(l, nil, nil, typed.Limits{{Type: "H100", GPUs: int32(l.IntN(60))}}),
		}})
	case 4:
		from := l.s.machine.View().Now() + int64(l.IntN(4))*int64(time.Hour)
		name := either(l, "w", "x")
		put := windowverbs.PutWindow{Name: name, Kind: windows.Maintenance, Patterns: []string{fmt.Sprint("n", l.IntN(12))}, From: from, Until: from + int64(3*time.Hour)}
		if l.one(2) {
			put = windowverbs.PutWindow{Name: name, Kind: windows.Reservation, Tenant: fmt.Sprint("t", l.IntN(3)), GPUs: uint32(8 * (1 + l.IntN(3))), From: from, Until: from + int64(3*time.Hour)}
		}
		l.s.apply(put)
	case 5:
		l.s.apply(windowverbs.DeleteWindow{Name: either(l, "w", "x"), Kind: either(l, windows.Maintenance, windows.Reservation)})
	}
}

// lead does the leader's work of one round: a pass, and now and then preemptions and reserved starts.
func (l *life) lead() {
	clear(l.blocked)
	l.pass("placed", scheduler.Options{})
	now := func() int64 { return l.s.machine.View().Now() }
	classes := func() []work.ClassKey {
		return slices.SortedFunc(maps.Keys(l.blocked), func(a, b work.ClassKey) int {
			if work.ClassLess(a, b) {
				return -1
			}
			return 1
		})
	}
	if l.one(3) {
		l.preempt("reclaimed", preempt.ForGuarantees(l.s.machine.View(), classes(), now()))
		l.preempt("preempted", preempt.ForPriority(l.s.machine.View(), classes(), now()))
	}
	if v := l.s.machine.View(); v.Policy().Preemption.Enabled && l.one(5) {
		l.pass("placed", scheduler.Options{Running: preempt.RunningIn(v)})
	}
	if l.one(3) {
		v := l.s.machine.View()
		starts, changed := reserve.Starts(v, classes(), v.Now(), l.model)
		if changed {
			answer := l.s.apply(starts)[0].(jobverbs.PromiseResult)
			require.Empty(l.t, answer.Refused, "after %d arrivals", l.arrived)
			l.did["promised"] += len(starts.Starts)
		}
		if l.s.machine.View().PromiseCount() > 0 {
			l.pass("backfilled", scheduler.Options{Backfill: true})
		}
	}
}

func (l *life) pass(what string, opts scheduler.Options) {
	v := l.s.machine.View()
	opts.PerCommand, opts.Now, opts.Model, opts.Prices = 64, v.Now(), l.model, func() *worth.Prices { return l.prices }
	plan := l.planner.Plan(v, opts)
	require.NoError(l.t, l.planner.Check(v), "after %d arrivals", l.arrived)
	if l.one(2) {
		requireSame(l.t, scheduler.Plan(v, opts), plan)
	}
	for _, class := range plan.Blocked.Keys() {
		l.blocked[class] = true
	}
	for _, command := range plan.Commands {
		answer := l.s.apply(command)[0].(jobverbs.PlaceResult)
		require.Empty(l.t, answer.Refused, "after %d arrivals", l.arrived)
		l.did[what] += len(answer.Placed)
	}
	var made []jobverbs.Preemption
	for _, x := range plan.OrderPreemptions {
		m := jobverbs.Preemption{Job: x.For.Job, Attempt: x.For.Attempt, Tasks: x.For.Tasks}
		for _, id := range x.Victims {
			if j, ok := v.Job(id); ok {
				m.Victims = append(m.Victims, jobverbs.Victim{Job: id, Attempt: j.Attempt})
			}
		}
		made = append(made, m)
	}
	l.preempt("preempted by order", made)
}

// preempt proposes preemptions. The state may refuse one, because earlier ones change the nodes that it uses.
func (l *life) preempt(what string, made []jobverbs.Preemption) {
	if len(made) > 0 {
		answer := l.s.apply(jobverbs.PreemptJobs{Preemptions: made})[0].(jobverbs.PreemptResult)
		l.did[what] += len(made) - len(answer.Refused)
		l.did["refused"] += len(answer.Refused)
	}
}
