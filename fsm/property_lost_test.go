package fsm_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

// checkLosses holds what the failure protocol promises against one entry, by rules that are written down here again:
// nothing is lost without a majority, nothing that may still be alive is forgotten without a reason, and nothing of it is
// replaced where its node would not ask first.
func checkLosses(t *rapid.T, before, after *fsm.View, cmds []kernel.Command) {
	for j := range after.Jobs(false, 0) {
		old, ok := before.Job(j.ID)
		if !ok {
			require.Empty(t, j.Awaits)
			continue
		}
		for _, a := range old.Awaits {
			if !slices.Contains(j.Awaits, a) {
				require.True(t, explained(cmds, j.ID, a), "%s: rank %d of attempt %d on %s is waited for no more", j.ID, a.Rank, a.Attempt, a.Node)
			}
		}
		for _, a := range j.Awaits {
			if slices.Contains(old.Awaits, a) {
				continue
			}
			switch a.Loss.How {
			case work.LossDeclared:
				require.True(t, judged(after, cmds, a), "I6: %s rank %d was lost with %s", j.ID, a.Rank, a.Node)
				require.NotZero(t, j.Retry.On&work.RetryNodeLost)
			case work.LossGivenUp:
				require.True(t, slices.ContainsFunc(cmds, func(c kernel.Command) bool { tick, ok := c.(clusterverbs.Tick); return ok && tick.Settled }))
			default:
				require.Fail(t, "lost without a reason")
			}
		}
		if _, plan := cmds[0].(jobverbs.PlaceJobs); !plan || len(cmds) > 1 || j.Attempt == old.Attempt {
			continue
		}
		for _, task := range j.Tasks {
			n, _ := before.Node(task.Node)
			for _, a := range old.Awaits {
				require.True(t, n.RosterSince != 0 && n.RosterSince <= a.Roster,
					"R3: %s joined the roster at %d; %s last heard of %d", n.ID, n.RosterSince, a.Node, a.Roster)
			}
		}
	}
	for n := range after.Nodes() {
		if old, ok := before.Node(n.ID); ok && old.LostSince == 0 && n.LostSince != 0 {
			require.True(t, judged(after, cmds, work.AwaitedTask{Node: n.ID}), "I6: %s was lost", n.ID)
		}
	}
	require.GreaterOrEqual(t, after.RosterVersion(), before.RosterVersion())
}

// explained says whether any of the commands says that the task is gone.
func explained(cmds []kernel.Command, id ident.Job, a work.AwaitedTask) bool {
	return slices.ContainsFunc(cmds, func(c kernel.Command) bool {
		switch c := c.(type) {
		case nodeverbs.RegisterNode:
			return c.Node.ID == a.Node
		case nodeverbs.SetNode:
			return c.Action == nodeverbs.NodeForget && c.ID == a.Node
		case jobverbs.ReportTasks:
			return c.Node == a.Node && slices.ContainsFunc(c.Reports, func(r jobverbs.TaskReport) bool {
				return r.Kind == jobverbs.ReportEnded && r.Job == id && r.Attempt == a.Attempt && r.Rank == a.Rank && r.Token == a.Token
			})
		}
		return false
	})
}

// judged says whether any of the commands had the votes of a majority. The incarnation of the node may have changed in the
// same entry, so that votes about any start of the agent are taken here.
func judged(v *fsm.View, cmds []kernel.Command, a work.AwaitedTask) bool {
	return slices.ContainsFunc(cmds, func(c kernel.Command) bool {
		lose, ok := c.(nodeverbs.LoseNode)
		if !ok || lose.Node != a.Node {
			return false
		}
		dead := 0
		for _, voter := range v.Voters() {
			if slices.ContainsFunc(lose.Votes, func(vote nodeverbs.Vote) bool { return vote.Coordinator == voter && vote.Dead }) {
				dead++
			}
		}
		return 2*dead > len(v.Voters())
	})
}

// TestMachine_anyLoss goes on from a cluster at work with commands that are mostly about losing nodes and getting them
// back, so that replacements of replacements happen.
func TestMachine_anyLoss(t *testing.T) {
	placed, lost := 0, 0 // attempts of gangs, and ranks of gangs
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{T: t, w: newWorld(t)}
		g.w.voters("c1", "c2", "c3")
		for _, n := range []string{"n1", "n2", "n3"} {
			g.w.node(n, 8)
		}
		g.w.ack()
		for i := range 3 {
			n := retried(oneGPU(), 9)
			if i == 2 {
				n = retried(gang(2), 9)
			}
			g.w.submit(n)
		}
		g.w.do(g.replace())
		for range rapid.IntRange(5, 40).Draw(t, "entries") {
			g.w.later(time.Duration(rapid.SampledFrom([]int64{0, 1e9, 60e9}).Draw(t, "dt")))
			cmds := []kernel.Command{g.trouble()}
			switch g.n("more", 0, 9) {
			case 0:
				cmds = append(cmds, g.trouble())
			case 1, 2, 3:
				node := g.nodeID()
				cmds = []kernel.Command{
					nodeverbs.SetNode{ID: node, Action: nodeverbs.NodeUnreachable},
					nodeverbs.LoseNode{Node: node, Votes: dead("c1", "c2"), Silent: 61e9, Eligible: []string{"n1", "n2", "n3"}},
				}
			}
			before := g.w.m.View()
			g.w.do(cmds...)
			checkLosses(t, before, g.w.m.View(), cmds)
			for j := range g.w.m.View().Jobs(false, 0) {
				if old, ok := before.Job(j.ID); ok && j.Shape.Nodes > 1 {
					lost += max(0, len(j.Awaits)-len(old.Awaits))
				}
			}
		}
		for j := range g.w.m.View().Jobs(false, 0) {
			if j.Shape.Nodes > 1 {
				placed += int(j.Attempt)
			}
		}
		// Replayed, and restored, it is the same.
		twin := fsm.New()
		twin.StoreConfiguration(1, []string{"c1", "c2", "c3"})
		g.w.replay(twin)
		sameState(t, g.w.m, twin)
		restored := fsm.New()
		require.NoError(t, restored.Restore(bytes.NewReader(snapshotBytes(t, g.w.m))))
		require.Empty(t, fsm.Check(restored.View()))
		sameState(t, g.w.m, restored)
	})
	require.Positive(t, placed, "no gang was ever placed")
	require.Positive(t, lost, "no rank of a gang was ever lost")
}

func (g *generator) trouble() kernel.Command {
	switch g.n("trouble", 0, 15) {
	case 0, 1:
		return nodeverbs.SetNode{ID: g.nodeID(), Action: nodeverbs.NodeUnreachable}
	case 2, 3, 4:
		c := g.lose().(nodeverbs.LoseNode)
		if g.n("honest", 0, 3) > 0 {
			c.Votes, c.Silent = dead("c1", "c2", "c3"), 61e9
		}
		return c
	case 5:
		n := testNode(g.nodeID(), pick(g, "boot", "boot1", "boot1", "boot2"), 8)
		return nodeverbs.RegisterNode{Node: n, Tasks: g.tasks(n.ID)}
	case 6:
		return g.acks()
	case 7, 8, 9, 10:
		return g.replace()
	case 11, 12:
		return g.reports()
	case 13:
		return clusterverbs.Tick{Settled: g.yes("settled")}
	case 14:
		return jobverbs.ControlJob{Job: g.job(), Action: pick(g, "action", work.ActionRetry, work.ActionRetry, work.ActionPause, work.ActionResume, work.ActionCancel)}
	}
	return nodeverbs.SetNode{ID: g.nodeID(), Action: pick(g, "node", nodeverbs.NodeReachable, nodeverbs.NodeForget, nodeverbs.NodeDrain, nodeverbs.NodeEnable)}
}

// replace places every waiting job somewhere, on the right nodes or on wrong ones.
func (g *generator) replace() kernel.Command {
	v := g.w.m.View()
	var p jobverbs.PlaceJobs
	for key := range v.Classes() {
		for j := range v.ClassJobs(key) {
			place := work.Placement{Job: j.ID, Attempt: j.Attempt + 1}
			for _, id := range rapid.Permutation([]string{"n1", "n2", "n3"}).Draw(g.T, "nodes") {
				n, ok := v.Node(id)
				if !ok || len(place.Tasks) == int(j.Shape.Nodes) || !v.MayTakeOver(j, n) && g.n("careless", 0, 2) > 0 {
					continue
				}
				use := v.Use(id)
				task := work.TaskPlacement{Node: id}
				free := work.Eligible(n, &use, j.Shape)
				for range j.Shape.GPUs {
					next := free & -free
					task.GPUs, free = task.GPUs|next, free&^next
				}
				place.Tasks = append(place.Tasks, task)
			}
			p.Placements = append(p.Placements, place)
		}
	}
	return p
}
