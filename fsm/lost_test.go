package fsm_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

// ack has every node that can be reached acknowledge the newest roster.
func (w *world) ack() {
	var acks []nodeverbs.RosterAck
	for n := range w.m.View().Roster() {
		acks = append(acks, nodeverbs.RosterAck{Node: n.ID, Version: w.m.View().RosterVersion()})
	}
	w.do(nodeverbs.AckRoster{Acks: acks})
}

func (w *world) voters(ids ...string) {
	w.index++
	w.m.StoreConfiguration(w.index, ids)
}

func dead(coordinators ...string) []nodeverbs.Vote {
	var votes []nodeverbs.Vote
	for _, c := range coordinators {
		votes = append(votes, nodeverbs.Vote{Coordinator: c, Dead: true})
	}
	return votes
}

// lose declares a node lost that has been silent for a minute, by two votes of three.
func (w *world) lose(node string, eligible ...string) nodeverbs.LoseNodeResult {
	r := do[nodeverbs.LoseNodeResult](w, nodeverbs.LoseNode{Node: node, Votes: dead("c1", "c2"), Silent: int64(time.Minute), Eligible: eligible})
	require.Nil(w.t, r.Refusal)
	return r
}

func (w *world) away(node string) {
	w.setNode(nodeverbs.SetNode{ID: node, Action: nodeverbs.NodeUnreachable, Reason: "no renewal for 3 s"})
}

func retried(n jobverbs.NewJob, times uint16) jobverbs.NewJob {
	n.Retry = work.RetryPolicy{Max: times, On: work.RetryInfrastructure}
	return n
}

// cluster is four nodes that know of each other, and three coordinators.
func cluster(t require.TestingT) *world {
	w := newWorld(t)
	w.voters("c1", "c2", "c3")
	for i := range 4 {
		w.node(fmt.Sprint("n", i+1), 8)
	}
	w.ack()
	return w
}

func TestLoseNode_countsTheVotesOfItsOwnVoters(t *testing.T) {
	alive := func(c string) nodeverbs.Vote { return nodeverbs.Vote{Coordinator: c} }
	aged := func(c string, incarnation uint64) nodeverbs.Vote {
		return nodeverbs.Vote{Coordinator: c, Dead: true, Incarnation: incarnation}
	}
	tests := map[string]struct {
		voters []string
		votes  []nodeverbs.Vote
		says   string // empty: lost
	}{
		"nobody":                        {[]string{"c1", "c2", "c3"}, nil, "0 of 3 voters call node n1 dead: it takes 2"},
		"a minority":                    {[]string{"c1", "c2", "c3"}, dead("c1"), "1 of 3 voters"},
		"half":                          {[]string{"c1", "c2", "c3", "c4"}, dead("c1", "c2"), "2 of 4 voters call node n1 dead: it takes 3"},
		"one that votes twice":          {[]string{"c1", "c2", "c3"}, dead("c1", "c1", "c1"), "1 of 3 voters"},
		"some that do not vote":         {[]string{"c1", "c2", "c3"}, dead("c1", "c4", "c5", "n2", ""), "1 of 3 voters"},
		"one that contradicts itself":   {[]string{"c1", "c2", "c3"}, append(dead("c1", "c2"), alive("c2")), "1 of 3 voters"},
		"votes about an earlier start":  {[]string{"c1", "c2", "c3"}, []nodeverbs.Vote{aged("c1", 6), aged("c2", 6), aged("c3", 1)}, "0 of 3 voters"},
		"one vote of now, one of then":  {[]string{"c1", "c2", "c3"}, []nodeverbs.Vote{aged("c1", 7), aged("c2", 6)}, "1 of 3 voters"},
		"against a majority":            {[]string{"c1", "c2", "c3"}, []nodeverbs.Vote{aged("c1", 7), alive("c2"), alive("c3")}, "1 of 3 voters"},
		"no configuration":              {nil, dead("c1", "c2", "c3"), "0 of 0 voters"},
		"a majority":                    {[]string{"c1", "c2", "c3"}, dead("c1", "c3"), ""},
		"a majority of five":            {[]string{"c1", "c2", "c3", "c4", "c5"}, dead("c1", "c3", "c5"), ""},
		"all":                           {[]string{"c1", "c2", "c3"}, dead("c1", "c2", "c3"), ""},
		"the only one":                  {[]string{"c1"}, dead("c1"), ""},
		"votes about this start":        {[]string{"c1", "c2", "c3"}, []nodeverbs.Vote{aged("c1", 7), aged("c2", 8)}, ""},
		"gossip that never heard of it": {[]string{"c1", "c2", "c3"}, []nodeverbs.Vote{aged("c1", 0), aged("c2", 7)}, ""},
		"a stale yes beside a fresh no": {[]string{"c1", "c2", "c3"}, append(dead("c1", "c2"), nodeverbs.Vote{Coordinator: "c2", Incarnation: 3}), ""},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			w := cluster(t)
			n := testNode("n1", "boot1", 8)
			n.Incarnation = 7
			w.do(nodeverbs.RegisterNode{Node: n})
			w.voters(c.voters...)
			id := w.submit(retried(oneGPU(), 1))
			w.place(id, "n1")
			w.run(id)
			w.away("n1")
			before := w.m.View().Hash()
			r := do[nodeverbs.LoseNodeResult](w, nodeverbs.LoseNode{Node: "n1", Votes: c.votes, Silent: int64(time.Minute), Eligible: []string{"n2"}})
			if c.says != "" {
				require.NotNil(t, r.Refusal)
				require.Equal(t, kernel.CodeFailedPrecondition, r.Refusal.Code)
				require.Contains(t, words.Of(r.Refusal.Reason), c.says)
				require.Equal(t, before, w.m.View().Hash(), "nothing was changed")
				return
			}
			require.Nil(t, r.Refusal)
			require.Equal(t, 1, r.Lost)
			require.Equal(t, v1.NodeState_LOST, r.Node.State)
			require.Equal(t, queued, w.job(id).State)
			loss := w.job(id).Past[0].Loss
			require.EqualValues(t, len(c.voters), loss.Voters)
			require.Greater(t, 2*loss.Votes, loss.Voters)
		})
	}
}

func TestLoseNode_refusesWhatMayNotBeSaid(t *testing.T) {
	tests := map[string]struct {
		prepare func(w *world, c *nodeverbs.LoseNode)
		says    string // empty: lost
	}{
		"as it should be":          {func(*world, *nodeverbs.LoseNode) {}, ""},
		"a node that there is not": {func(_ *world, c *nodeverbs.LoseNode) { c.Node = "n9" }, `there is no node "n9"`},
		"a node that can be reached": {func(w *world, _ *nodeverbs.LoseNode) {
			w.setNode(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeReachable})
		}, "node n1 is READY"},
		"a lease that still runs":     {func(_ *world, c *nodeverbs.LoseNode) { c.Silent = int64(30*time.Second) - 1 }, "of 1 task, 1 has not been silent for as long"},
		"exactly its time":            {func(_ *world, c *nodeverbs.LoseNode) { c.Silent = int64(30 * time.Second) }, ""},
		"nobody in session":           {func(_ *world, c *nodeverbs.LoseNode) { c.Eligible = nil }, "1 has no node that could replace"},
		"only itself":                 {func(_ *world, c *nodeverbs.LoseNode) { c.Eligible = []string{"n1"} }, "has no node that could replace"},
		"a node that there never was": {func(_ *world, c *nodeverbs.LoseNode) { c.Eligible = []string{"n9"} }, "has no node that could replace"},
		"only one that joined since": {func(w *world, c *nodeverbs.LoseNode) {
			w.node("n5", 8)
			c.Eligible = []string{"n5"}
		}, "has no node that could replace"},
		"only one that left and came back": {func(w *world, c *nodeverbs.LoseNode) {
			w.away("n2")
			w.setNode(nodeverbs.SetNode{ID: "n2", Action: nodeverbs.NodeReachable})
		}, "has no node that could replace"},
		"only one that cannot be reached": {func(w *world, c *nodeverbs.LoseNode) { w.away("n2") }, "has no node that could replace"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			w := cluster(t)
			n := retried(oneGPU(), 1)
			n.LostAfter = int64(30 * time.Second)
			id := w.submit(n)
			w.place(id, "n1")
			w.run(id)
			w.away("n1")
			cmd := nodeverbs.LoseNode{Node: "n1", Votes: dead("c1", "c2"), Silent: int64(45 * time.Second), Eligible: []string{"n2"}}
			c.prepare(w, &cmd)
			can := w.m.View().Losable(cmd.Node, cmd.Silent, cmd.Eligible)
			r := do[nodeverbs.LoseNodeResult](w, cmd)
			require.Equal(t, can, r.Lost, "Losable says what a declaration would do")
			if c.says == "" {
				require.Nil(t, r.Refusal)
				require.Equal(t, 1, r.Lost)
				return
			}
			require.NotNil(t, r.Refusal)
			require.Contains(t, words.Of(r.Refusal.Reason), c.says)
			require.Equal(t, running, w.job(id).State)
			require.Zero(t, w.m.View().NodesLost())
		})
	}
}

func TestLoseNode_takesOnlyWhatIsReplacedAndDue(t *testing.T) {
	w := cluster(t)
	final, early, due := oneGPU(), retried(oneGPU(), 1), retried(oneGPU(), 1)
	early.LostAfter, due.LostAfter = int64(2*time.Minute), -1
	a, b, c := w.submit(final), w.submit(early), w.submit(due)
	for _, id := range []ident.Job{a, b, c} {
		w.place(id, "n1")
		w.run(id)
	}
	w.away("n1")
	lose := nodeverbs.LoseNode{Node: "n1", Votes: dead("c2", "c3"), Eligible: []string{"n2", "n3"}}
	lose.Silent = int64(10*time.Second) - 1
	require.NotNil(t, do[nodeverbs.LoseNodeResult](w, lose).Refusal, "nothing is lost within ten seconds, whatever the job says")
	lose.Silent++
	r := do[nodeverbs.LoseNodeResult](w, lose)
	require.Equal(t, 1, r.Lost)
	require.Equal(t, v1.NodeState_LOST, r.Node.State)
	require.Equal(t, queued, w.job(c).State)
	require.EqualValues(t, 1, w.job(c).Retries.NodeLost)
	require.Equal(t, running, w.job(a).State)
	require.Equal(t, running, w.job(b).State)
	lose.Silent = int64(2 * time.Minute)
	require.Equal(t, 1, do[nodeverbs.LoseNodeResult](w, lose).Lost)
	require.Equal(t, queued, w.job(b).State)
	require.Equal(t, running, w.job(a).State, "nobody would replace it")
	require.EqualValues(t, 1, w.m.View().NodesLost(), "it is one node, lost once")

	r = do[nodeverbs.LoseNodeResult](w, lose)
	require.Nil(t, r.Refusal)
	require.Zero(t, r.Lost)
	w.setNode(nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeForget})
	require.Equal(t, lostJob, w.job(a).State)
}

func TestLoseNode_aNodeIsLostEvenIfNothingOnItIs(t *testing.T) {
	w := cluster(t)
	id := w.submit(oneGPU())
	w.place(id, "n1")
	w.run(id)
	for _, node := range []string{"n1", "n2"} {
		w.away(node)
		lose := nodeverbs.LoseNode{Node: node, Votes: dead("c1", "c2"), Silent: int64(time.Minute) - 1}
		require.NotNil(t, do[nodeverbs.LoseNodeResult](w, lose).Refusal)
		lose.Silent++
		r := do[nodeverbs.LoseNodeResult](w, lose)
		require.Nil(t, r.Refusal)
		require.Equal(t, v1.NodeState_LOST, r.Node.State)
		require.Contains(t, words.Of(r.Node.Reason), "2 of 3 coordinators")
	}
	require.EqualValues(t, 2, w.m.View().NodesLost())
	require.Equal(t, running, w.job(id).State)
	r := do[nodeverbs.NodeResult](w, nodeverbs.SetNode{ID: "n1", Action: nodeverbs.NodeReachable})
	require.NotNil(t, r.Refusal, "it has to say what it still runs")
	w.node("n1", 8)
	require.Equal(t, v1.NodeState_READY, w.nodeState("n1"))
	require.Equal(t, running, w.job(id).State)
	require.Equal(t, 1, w.report(id, 0, jobverbs.ReportEnded, exit(0)).Applied)
}

func TestLoseNode_oneRankEndsTheGangAndNoLeaseIsGivenOnBefore(t *testing.T) {
	w := cluster(t)
	id := w.submit(retried(gang(3), 1))
	w.place(id, "n1", "n2", "n3")
	w.run(id)
	w.away("n1")
	token := w.job(id).Token
	require.Equal(t, 1, w.lose("n1", "n4").Lost)
	j := w.job(id)
	require.Equal(t, running, j.State)
	require.Equal(t, v1.StopReason_GANG, j.Stop)
	require.Len(t, j.Awaits, 1)
	require.Equal(t, 3, w.m.View().LeaseCount(), "no lease is free before every rank has ended")
	late := jobverbs.TaskReport{Job: id, Attempt: 1, Rank: 0, Token: token, Kind: jobverbs.ReportCheckpoint, Path: "/c/1", Digest: "d"}
	require.Equal(t, 1, do[jobverbs.ReportResult](w, jobverbs.ReportTasks{Node: "n1", Reports: []jobverbs.TaskReport{late}}).Stale, "a task that is lost saves nothing")
	for rank := range 2 {
		r := do[jobverbs.PlaceResult](w, jobverbs.PlaceJobs{Placements: []work.Placement{{Job: id, Attempt: 2, Tasks: []work.TaskPlacement{{Node: "n2", GPUs: 1}, {Node: "n3", GPUs: 1}, {Node: "n4", GPUs: 1}}}}})
		require.Len(t, r.Refused, 1, "after %d ranks", rank)
		require.Equal(t, 3, w.m.View().LeaseCount())
		w.report(id, uint16(1+rank), jobverbs.ReportEnded, exit(143))
	}
	require.Equal(t, queued, w.job(id).State)
	require.Zero(t, w.m.View().LeaseCount())
	require.Equal(t, "n1", w.job(id).Past[0].FailedNode)
	w.place(id, "n2", "n3", "n4")
	require.True(t, w.job(id).Replacement())
}

// A second attempt that is lost, too, is waited for together with the first one.
func TestLoseNode_everyLostAttemptIsWaitedFor(t *testing.T) {
	w := cluster(t)
	id := w.submit(retried(oneGPU(), 5))
	w.place(id, "n1")
	w.away("n1")
	w.lose("n1", "n2")
	w.place(id, "n2")
	w.node("n5", 8)
	w.ack()
	w.away("n2")
	// n2 knows n5, n1 does not: n5 could run a third attempt beside the first.
	lose := nodeverbs.LoseNode{Node: "n2", Votes: dead("c1", "c3"), Silent: int64(time.Minute), Eligible: []string{"n5"}}
	require.Zero(t, do[nodeverbs.LoseNodeResult](w, lose).Lost)
	require.Equal(t, allocated, w.job(id).State)
	lose.Eligible = []string{"n5", "n3"}
	require.Equal(t, 1, do[nodeverbs.LoseNodeResult](w, lose).Lost)
	j := w.job(id)
	require.Len(t, j.Awaits, 2)
	require.Less(t, j.Awaits[0].Roster, j.Awaits[1].Roster)
	v := w.m.View()
	for node, may := range map[string]bool{"n1": false, "n2": false, "n3": true, "n4": true, "n5": false} {
		n, _ := v.Node(node)
		require.Equal(t, may, v.MayTakeOver(j, n), node)
	}
	w.do(nodeverbs.RegisterNode{Node: testNode("n1", "boot2", 8)})
	n5, _ := w.m.View().Node("n5")
	require.True(t, w.m.View().MayTakeOver(w.job(id), n5), "n2 would ask n5")
}
