package scheduler_test

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
	"github.com/mindcoordinator/mind/fsm/work/typed"
	"github.com/mindcoordinator/mind/scheduler"
)

// For random clusters and queues: the state refuses no placement of a plan that was made from it (so no placements
// overlap and no limit is exceeded), gangs are whole, no job is placed twice, the order within a class is kept, the
// same view gives the same plan, and after a pass no job at the head of a class would still fit.
func TestPlan_properties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := newState(t)
		drawNodes(r, s)
		for range rapid.IntRange(1, 4).Draw(r, "rounds") {
			drawJobs(r, s)
			drawLimits(r, s)
			v := s.machine.View()
			opts := scheduler.Options{PerCommand: 3}
			if rapid.Bool().Draw(r, "some are not settled") {
				opts.Settled = func(node string) bool { return node != "n0" && node != "n3" }
			}
			plan := scheduler.Plan(v, opts)
			requireSame(r, plan, scheduler.Plan(v, opts))
			checkPlan(r, v, plan)
			checkReplacements(r, v, plan, opts)
			var commands []kernel.Command
			for _, c := range plan.Commands {
				commands = append(commands, c)
			}
			if len(commands) > 0 {
				placed := 0
				for _, result := range s.apply(commands...) {
					require.Empty(r, result.(jobverbs.PlaceResult).Refused)
					placed += len(result.(jobverbs.PlaceResult).Placed)
				}
				require.Equal(r, plan.Placed, placed)
			}
			require.Empty(r, fsm.Check(s.machine.View()))
			checkNothingIsLeft(r, s.machine.View(), scheduler.Plan(s.machine.View(), opts))
			checkNothingSimpleFits(r, s.machine.View(), opts)
			drawEnds(r, s)
			drawLosses(r, s)
		}
	})
}

// checkNothingIsLeft checks that another pass places nothing. One exception is a job that avoids a node on which it
// failed: if the pass used up a limit by type, no other node may hold the job any more, and the job no longer avoids
// that node.
func checkNothingIsLeft(r *rapid.T, v *fsm.View, again scheduler.Result) {
	for _, c := range again.Commands {
		for _, p := range c.Placements {
			j, _ := v.Find(p.Job)
			back := slices.ContainsFunc(p.Tasks, func(t work.TaskPlacement) bool { return j.Avoids(t.Node) })
			require.True(r, back, "a pass leaves %s, which fits", p.Job)
		}
	}
}

func drawNodes(r *rapid.T, s *state) {
	for i := range rapid.IntRange(0, 6).Draw(r, "nodes") {
		id := fmt.Sprintf("n%d", i)
		n := rapid.SampledFrom([]int{0, 1, 2, 4, 8, 16}).Draw(r, "gpus")
		inventory := gpus(id, rapid.SampledFrom([]string{"H100", "A100"}).Draw(r, "type"), n, rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(r, "island"))
		for g := range inventory {
			if rapid.IntRange(0, 9).Draw(r, "sick") == 0 {
				inventory[g].Health = v1.GpuHealth_QUARANTINED
			}
			if rapid.IntRange(0, 9).Draw(r, "mixed") == 0 {
				inventory[g].Type, inventory[g].Model = "L4", "NVIDIA L4"
			}
		}
		var labels map[string]string
		if rapid.Bool().Draw(r, "labelled") {
			labels = map[string]string{"zone": rapid.SampledFrom([]string{"a", "b"}).Draw(r, "zone")}
		}
		s.node(id, inventory, labels)
		if rapid.IntRange(0, 5).Draw(r, "away") == 0 {
			s.apply(nodeverbs.SetNode{ID: id, Action: nodeverbs.NodeUnreachable})
		}
	}
}

func drawJobs(r *rapid.T, s *state) {
	for range rapid.IntRange(0, 30).Draw(r, "jobs") {
		shape := work.Shape{Nodes: 1}
		switch rapid.IntRange(0, 4).Draw(r, "kind") {
		case 0:
			shape.FractionMilli = uint16(rapid.SampledFrom([]int{100, 250, 500, 999}).Draw(r, "fraction"))
		case 1:
			shape.CPUs = uint32(rapid.IntRange(0, 40).Draw(r, "cpus"))
			shape.Nodes = uint16(rapid.IntRange(1, 3).Draw(r, "size"))
		case 2:
			shape.Nodes, shape.GPUs = uint16(rapid.IntRange(2, 4).Draw(r, "size")), uint16(rapid.SampledFrom([]int{1, 2, 8}).Draw(r, "each"))
		default:
			shape.GPUs = uint16(rapid.IntRange(1, 9).Draw(r, "each"))
		}
		if shape.NeedsGPU() {
			shape.GPUType = rapid.SampledFrom([]string{"", "", "H100", "A100", "L4"}).Draw(r, "type")
			shape.Topology = rapid.SampledFrom([]uint8{work.TopologyAny, work.TopologyAny, work.TopologyNVLink}).Draw(r, "topology")
		}
		shape.Selector = rapid.SampledFrom([]string{"", "", "zone=a", "zone=b"}).Draw(r, "selector")
		shape.MemMB = uint32(rapid.SampledFrom([]int{0, 0, 1000, 300_000}).Draw(r, "mem"))
		// A type that no node ever had may be refused at once. Then there is no job.
		j := s.job(shape, uint8(rapid.IntRange(0, 10).Draw(r, "priority")))
		j.Retry = work.RetryPolicy{Max: uint16(rapid.IntRange(0, 9).Draw(r, "retries")), On: work.RetryInfrastructure}
		s.apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{j}})
	}
}

// drawLimits sets or removes a quota of the tenant and a limit of the queue.
func drawLimits(r *rapid.T, s *state) {
	limit := func(what string) *int32 {
		if n := rapid.Int32Range(-6, 12).Draw(r, what); n >= 0 {
			return &n
		}
		return nil
	}
	switch rapid.IntRange(0, 3).Draw(r, "limits") {
	case 0:
		s.apply(queueverbs.PutQuota{Tenant: "t", MaxGPUs: limit("gpus"), MaxRunning: limit("running"), MaxByType: typeLimits(r)})
	case 1:
		s.apply(queueverbs.DeleteQuota{Tenant: "t"})
	case 2:
		s.apply(queueverbs.PutQueue{Queue: work.Queue{Name: work.DefaultQueue, MaxGPUs: uint32(rapid.IntRange(0, 12).Draw(r, "of the queue")), MaxByType: typeLimits(r), Guaranteed: uint32(rapid.IntRange(0, 12).Draw(r, "guaranteed"))}})
	}
}

func typeLimits(r *rapid.T) typed.Limits {
	m := map[string]int32{}
	for _, name := range []string{"H100", "A100", "L4"} {
		if n := rapid.Int32Range(-8, 8).Draw(r, name); n >= 0 {
			m[name] = n
		}
	}
	return typed.From(m)
}

func drawEnds(r *rapid.T, s *state) {
	for j := range s.machine.View().ActiveJobs() {
		switch rapid.IntRange(0, 3).Draw(r, "ends") {
		case 0, 1:
			if j.Stop == v1.StopReason_UNSPECIFIED {
				s.end(j.ID)
			}
		case 2:
			t := j.Tasks[rapid.IntRange(0, len(j.Tasks)-1).Draw(r, "rank")]
			s.apply(jobverbs.ReportTasks{Node: t.Node, Reports: []jobverbs.TaskReport{{
				Job: j.ID, Attempt: j.Attempt, Rank: t.Rank, Token: j.Token, Kind: jobverbs.ReportEnded, ErrorType: v1.ErrorType_GPU_FAULT,
			}}})
		}
	}
}

// drawLosses makes nodes unreachable, declares them lost, and registers them again, with or without their tasks.
func drawLosses(r *rapid.T, s *state) {
	s.ack()
	var nodes []*work.Node
	for n := range s.machine.View().Nodes() {
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		switch rapid.IntRange(0, 5).Draw(r, "loss") {
		case 0:
			s.away(n.ID)
			s.lose(n.ID, "n0", "n1", "n2")
		case 1:
			back := nodeverbs.RegisterNode{Node: *n}
			if rapid.Bool().Draw(r, "still there") {
				for _, id := range s.machine.View().AwaitedOn(n.ID) {
					for _, a := range s.get(id).Awaits {
						back.Tasks = append(back.Tasks, work.TaskRef{Job: id, Attempt: a.Attempt, Rank: a.Rank, Token: a.Token})
					}
				}
			}
			s.apply(back)
		}
	}
}

// checkReplacements checks that a plan obeys rule R3: a task that may still be alive is replaced only where that is
// safe.
func checkReplacements(r *rapid.T, v *fsm.View, plan scheduler.Result, opts scheduler.Options) {
	for _, command := range plan.Commands {
		for _, p := range command.Placements {
			j, _ := v.Job(p.Job)
			for _, task := range p.Tasks {
				n, _ := v.Node(task.Node)
				require.True(r, v.MayTakeOver(j, n))
				if j.Replacement() && opts.Settled != nil {
					require.True(r, opts.Settled(n.ID))
				}
			}
		}
	}
}

func checkPlan(r *rapid.T, v *fsm.View, plan scheduler.Result) {
	seen := map[ident.Job]bool{}
	last := map[work.ClassKey]*work.Job{}
	for _, command := range plan.Commands {
		require.Equal(r, v.Index(), command.BasedOn)
		for _, p := range command.Placements {
			j, ok := v.Job(p.Job)
			require.True(r, ok && j.Waiting())
			require.False(r, seen[p.Job], "placed twice")
			seen[p.Job] = true
			require.Len(r, p.Tasks, max(1, int(j.Shape.Nodes)))
			if before := last[v.ClassOf(j)]; before != nil {
				require.True(r, before.Priority > j.Priority || before.Priority == j.Priority && before.ID < j.ID)
			}
			last[v.ClassOf(j)] = j
			for _, task := range p.Tasks {
				require.Equal(r, int(j.Shape.GPUs)+int(min(1, j.Shape.FractionMilli)), bits.OnesCount64(task.GPUs))
			}
		}
	}
}

// checkNothingSimpleFits checks with the state's own functions that simple shapes fit on no node.
func checkNothingSimpleFits(r *rapid.T, v *fsm.View, opts scheduler.Options) {
	for key := range v.Classes() {
		s := key.Shape
		own, _ := v.Job(key.Own)
		if s.Nodes > 1 || s.Topology == work.TopologyNVLink {
			continue
		}
		if q, ok := v.Quota(key.Tenant); ok && (len(q.MaxByType) > 0 || q.Bars(v.Usage(key.Tenant), s) != "") {
			continue // Limits by type have tests of their own.
		}
		if q, ok := v.Queue(key.Queue); ok && (len(q.MaxByType) > 0 || q.Bars(v.QueueGPUs(key.Queue), s) != "") {
			continue
		}
		for n := range v.Nodes() {
			if own != nil && (!v.MayTakeOver(own, n) || own.Avoids(n.ID) || own.Replacement() && opts.Settled != nil && !opts.Settled(n.ID)) {
				continue
			}
			use := v.Use(n.ID)
			able := work.Eligible(n, &use, s)
			want := int(s.GPUs)
			if s.FractionMilli > 0 {
				want = 1
			}
			if bits.OnesCount64(able) < want {
				continue
			}
			var some uint64
			for range want {
				some |= able & -able
				able &= able - 1
			}
			require.NotNil(r, work.CheckTask(n, &use, s, some), "%+v would fit on %s", s, n.ID)
		}
	}
}
