package fsm_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

func (w *world) row(id string) *work.Node {
	n, ok := w.m.View().Node(id)
	require.True(w.t, ok)
	return n
}

func TestRoster_isWhoCanBeReached(t *testing.T) {
	w := newWorld(t)
	require.Zero(t, w.m.View().RosterVersion())
	steps := []struct {
		what    string
		command kernel.Command
		roster  string
		changes bool
	}{
		{"one joins", nodeverbs.RegisterNode{Node: testNode("n1", "boot1", 1)}, "n1", true},
		{"another", nodeverbs.RegisterNode{Node: testNode("n2", "boot1", 1)}, "n1 n2", true},
		{"one says so again", nodeverbs.RegisterNode{Node: testNode("n1", "boot1", 1)}, "n1 n2", false},
		{"one is restarted", nodeverbs.RegisterNode{Node: testNode("n1", "boot2", 1)}, "n1 n2", false},
		{"one is drained", nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeDrain}, "n1 n2", false},
		{"one falls silent", nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeUnreachable}, "n2", true},
		{"and is still", nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeUnreachable}, "n2", false},
		{"it is back", nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeReachable}, "n1 n2", true},
		{"it falls silent again", nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeUnreachable}, "n2", true},
		{"it registers", nodeverbs.RegisterNode{Node: testNode("n1", "boot2", 1)}, "n1 n2", true},
		{"one is forgotten", nodeverbs.SetNode{ID: "n2", Action: nodeverbs.NodeForget}, "n1", true},
		{"a tick", clusterverbs.Tick{Settled: true}, "n1", false},
	}
	for _, s := range steps {
		before := w.m.View().RosterVersion()
		since := map[string]uint64{}
		for n := range w.m.View().Roster() {
			since[n.ID] = n.RosterSince
		}
		w.do(s.command)
		v := w.m.View()
		var want []string
		for n := range v.Roster() {
			want = append(want, n.ID)
			if was, ok := since[n.ID]; ok {
				require.Equal(t, was, n.RosterSince, "%s: %s was on it all the time", s.what, n.ID)
			} else {
				require.Equal(t, v.Index(), n.RosterSince, s.what)
			}
		}
		require.Equal(t, s.roster, joined(want), s.what)
		if s.changes {
			require.Equal(t, v.Index(), v.RosterVersion(), s.what)
		} else {
			require.Equal(t, before, v.RosterVersion(), s.what)
		}
	}
	moved := testNode("n1", "boot2", 1)
	moved.GRPCAddr = "elsewhere:7000"
	since := w.row("n1").RosterSince
	w.do(nodeverbs.RegisterNode{Node: moved})
	require.Equal(t, w.index, w.m.View().RosterVersion(), "the others have to know where to ask")
	require.Equal(t, since, w.row("n1").RosterSince)
}

func joined(ids []string) string {
	slices.Sort(ids)
	out := ""
	for i, id := range ids {
		if i > 0 {
			out += " "
		}
		out += id
	}
	return out
}

func TestAckRoster_onlyGrowsAndBelievesNothingImpossible(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 1)
	w.node("n2", 1)
	newest := w.m.View().RosterVersion()
	ack := func(node string, version uint64) int {
		return do[nodeverbs.AckRosterResult](w, nodeverbs.AckRoster{Acks: []nodeverbs.RosterAck{{Node: node, Version: version}}}).Taken
	}
	revision := w.row("n1").Revision
	require.Equal(t, 1, ack("n1", newest))
	require.Equal(t, newest, w.row("n1").RosterAcked)
	require.Equal(t, revision, w.row("n1").Revision, "nobody who watches nodes cares")
	require.Zero(t, ack("n1", newest), "it is known")
	require.Zero(t, ack("n1", newest-1), "it is old")
	require.Zero(t, ack("n1", newest+1), "there never was such a one")
	require.Zero(t, ack("n9", newest))
	require.Equal(t, newest, w.row("n1").RosterAcked)

	// An agent says what it has on disk; one that says nothing is taken at its earlier word, one that has less is not.
	n := testNode("n1", "boot1", 1)
	w.do(nodeverbs.RegisterNode{Node: n})
	require.Equal(t, newest, w.row("n1").RosterAcked)
	n.RosterAcked = newest - 1
	w.do(nodeverbs.RegisterNode{Node: n})
	require.Equal(t, newest-1, w.row("n1").RosterAcked)
	n.RosterAcked = 1 << 60
	w.do(nodeverbs.RegisterNode{Node: n})
	require.Equal(t, newest, w.row("n1").RosterAcked)
	// Fields that the state decides are not taken from the registration.
	n.RosterSince, n.EnabledAt, n.LostSince, n.UnreachableSince = 77, 77, 77, 77
	n.ID = "n3"
	w.do(nodeverbs.RegisterNode{Node: n})
	require.Equal(t, w.index, w.row("n3").RosterSince)
	require.Zero(t, w.row("n3").EnabledAt)
	require.Equal(t, v1.NodeState_READY, w.row("n3").State)
}

func TestNode_enableIsRemembered(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 1)
	w.setNode(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeDrain, Deadline: int64(time.Minute)})
	deadline := w.row("n1").Drain.Deadline
	w.away("n1")
	w.node("n1", 1)
	require.Equal(t, v1.NodeState_DRAINED, w.row("n1").State)
	require.Equal(t, deadline, w.row("n1").Drain.Deadline, "the deadline stays")
	w.setNode(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeEnable})
	require.Equal(t, w.index, w.row("n1").EnabledAt)
	at := w.row("n1").EnabledAt
	w.node("n1", 1)
	require.Equal(t, at, w.row("n1").EnabledAt)
	w.setNode(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeEnable})
	require.Equal(t, w.index, w.row("n1").EnabledAt, "its GPUs are verified again, drained or not")
}

func TestNode_isDrainedOnlyWhenEmpty(t *testing.T) {
	w := cluster(t)
	id := w.submit(gang(2))
	w.place(id, "n1", "n2")
	w.run(id)
	w.setNode(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeDrain, Force: true})
	require.Equal(t, v1.NodeState_DRAINING, w.nodeState("n1"))
	w.report(id, 0, jobverbs.ReportEnded, exit(143))
	require.Equal(t, v1.NodeState_DRAINING, w.nodeState("n1"), "its lease lasts until the gang has ended")
	require.Equal(t, 1, w.m.View().Use("n1").Tasks)
	w.report(id, 1, jobverbs.ReportEnded, exit(143))
	require.Equal(t, v1.NodeState_DRAINED, w.nodeState("n1"))
	require.Equal(t, v1.NodeState_READY, w.nodeState("n2"))
}
