package fsm_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/catalog"
	"github.com/mindcoordinator/mind/fsm/coordinators"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
	"github.com/mindcoordinator/mind/fsm/work/checkpointverbs"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/domains"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/notices"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
	"github.com/mindcoordinator/mind/fsm/work/typed"
)

// TestMachine_anyLog drives machines with random commands, sensible and absurd, and requires after every step that the
// invariants hold; that a twin with the same log is the same; and that a machine restored from a snapshot somewhere in
// the log, and then given the rest, is the same too.
func TestMachine_anyLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{T: t, w: newWorld(t)}
		twin := fsm.New()
		voters := rapid.SampledFrom([][]string{{"c1", "c2", "c3"}, {"c1"}, {"c1", "c2", "c3", "c4"}, nil}).Draw(t, "voters")
		g.w.voters(voters...)
		twin.StoreConfiguration(g.w.index, voters)
		var restored *fsm.Machine
		final := map[ident.Job]finalState{}
		tokens := map[ident.Job]uint64{}
		var events []event.Event
		g.w.m.OnApply(func(_ *fsm.View, e []event.Event) { events = append(events, e...) })

		for range rapid.IntRange(1, 40).Draw(t, "entries") {
			g.w.later(time.Duration(rapid.SampledFrom([]int64{0, 0, 1, 1e9, 60e9, 20 * 60e9, 25 * 3600e9, -5e9}).Draw(t, "dt")))
			cmds := make([]kernel.Command, rapid.IntRange(1, 4).Draw(t, "n"))
			for i := range cmds {
				cmds[i] = g.command()
			}
			before := g.w.m.View()
			g.w.do(cmds...)
			checkLosses(t, before, g.w.m.View(), cmds)
			e := g.w.log[len(g.w.log)-1]
			twin.Apply(e.Index, e.Data)
			require.Equal(t, g.w.m.View().Hash(), twin.View().Hash())

			checkHistory(t, g.w.m.View(), final, tokens, cmds)
			checkCheckpoints(t, before, g.w.m.View(), cmds)
			checkSchedules(t, before, g.w.m.View(), cmds)
			checkExecutions(t, before, g.w.m.View())
			checkFlows(t, before, g.w.m.View())
			switch {
			case restored != nil:
				restored.Apply(e.Index, e.Data)
				require.Equal(t, g.w.m.View().Hash(), restored.View().Hash())
			case rapid.IntRange(0, 9).Draw(t, "snapshot") == 0:
				restored = fsm.New()
				require.NoError(t, restored.Restore(bytes.NewReader(snapshotBytes(t, g.w.m))))
				require.Empty(t, fsm.Check(restored.View()))
			}
		}
		sameState(t, g.w.m, twin)
		if restored != nil {
			sameState(t, g.w.m, restored)
			require.Empty(t, fsm.Check(restored.View()))
		}
		checkEvents(t, events)
	})
}

type finalState struct {
	state    v1.JobState_Value
	attempt  uint32
	finished int64
}

// checkHistory holds what one state cannot show: that tokens only grow, and that what is final stays, unless it was
// retried by one of the commands.
func checkHistory(t *rapid.T, v *fsm.View, final map[ident.Job]finalState, tokens map[ident.Job]uint64, cmds []kernel.Command) {
	retried := map[ident.Job]bool{}
	for _, c := range cmds {
		if c, ok := c.(jobverbs.ControlJob); ok && c.Action == work.ActionRetry {
			retried[c.Job.Submitted()] = true // An array goes on with any of its elements.
		}
	}
	for id := range final {
		if retried[id.Submitted()] {
			delete(final, id)
		}
	}
	for j := range v.Jobs(false, 0) {
		require.GreaterOrEqual(t, j.Token, tokens[j.ID], "I3: the token of %s went back", j.ID)
		tokens[j.ID] = j.Token
		if was, ok := final[j.ID]; ok {
			require.Equal(t, was, finalState{j.State, j.Attempt, j.FinishedAt}, "I5: %s was final", j.ID)
		}
		delete(final, j.ID)
		if j.Terminal() {
			final[j.ID] = finalState{j.State, j.Attempt, j.FinishedAt}
		}
	}
}

// checkCheckpoints holds what one state cannot show of checkpoints: that they only move forwards, that retention spares what a
// job would go on from, and that nothing in the archive is forgotten.
func checkCheckpoints(t *rapid.T, before, after *fsm.View, cmds []kernel.Command) {
	deletes, reports := false, false
	for _, c := range cmds {
		switch c.(type) {
		case checkpointverbs.DeleteCheckpoint:
			deletes = true
		case checkpointverbs.ReportCheckpoints:
			reports = true
		}
	}
	newest := map[ident.Job]ident.Checkpoint{}
	for c := range after.Checkpoints() {
		if c.Durable() && !c.Model {
			newest[c.Job] = c.ID
		}
	}
	wasNewest := map[ident.Job]ident.Checkpoint{}
	for c := range before.Checkpoints() {
		if c.Durable() && !c.Model {
			wasNewest[c.Job] = c.ID
		}
	}
	for c := range before.Checkpoints() {
		now, there := after.Checkpoint(c.ID)
		switch archived := c.State == v1.CheckpointState_UPLOADING || c.Durable() || c.Left&checkpoints.LeftArchived != 0; {
		case there:
			require.GreaterOrEqual(t, now.State, c.State, "I9: %s went back", c.ID)
			if now.Expired() && wasNewest[c.Job] == c.ID && !deletes {
				require.Greater(t, newest[c.Job], c.ID, "I9: the newest durable one of %s was given up", c.Job)
			}
			require.False(t, c.Pinned && c.Durable() && now.Expired() && now.Pinned, "I9: %s is pinned and was given up", c.ID)
		case archived && !reports:
			_, left := after.Leftover(c.ID)
			require.True(t, left, "I9: the archive may have %s, and nobody knows", c.ID)
		}
	}
	for j := range after.Jobs(false, 0) {
		for _, c := range after.ResumePoints(j) {
			require.True(t, c.Resumable(), "I9: %s is offered to go on from", c.ID)
		}
	}
}

// checkEvents holds that events are in order, and tell of each job a story that the transition table allows.
func checkEvents(t *rapid.T, events []event.Event) {
	states := map[ident.Job]v1.JobState_Value{}
	last := event.Event{}
	for _, e := range events {
		require.True(t, e.Index > last.Index && e.Pos == 0 || e.Index == last.Index && e.Pos == last.Pos+1, "I10: %v after %v", e, last)
		last = e
		if e.Topic != event.TopicJob {
			continue
		}
		can := work.CanMove
		if array, _ := ident.Array(e.Job.ArrayIndex()); e.Job == array {
			can = work.CanMoveArray
		}
		if _, _, element := e.Job.Element(); !element || e.From != v1.JobState_QUEUED { // An element waits before it has a row.
			require.Equal(t, states[e.Job], e.From, "%s", e.Job)
		}
		require.True(t, e.From == e.To || can(e.From, e.To), "%s: %s to %s", e.Job, e.From, e.To)
		states[e.Job] = e.To
	}
}

// generator draws commands that are likely to mean something in the state as it is.
type generator struct {
	*rapid.T
	w *world
}

func (g *generator) n(label string, from, to int) int {
	return rapid.IntRange(from, to).Draw(g.T, label)
}

func (g *generator) yes(label string) bool { return rapid.Bool().Draw(g.T, label) }

func pick[T any](g *generator, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(g.T, label)
}

func (g *generator) command() kernel.Command {
	switch g.n("kind", 0, 51) {
	case 0, 1, 2, 3:
		jobs := make([]jobverbs.NewJob, g.n("jobs", 1, 3))
		for i := range jobs {
			jobs[i] = g.newJob()
		}
		return jobverbs.SubmitJobs{Jobs: jobs, Actor: g.actor()}
	case 4, 5, 6:
		return g.control()
	case 7, 8, 9, 10, 11:
		return g.plan()
	case 12, 13, 14, 15, 16, 17:
		return g.reports()
	case 18, 19:
		n := testNode(g.nodeID(), pick(g, "boot", "boot1", "boot1", "boot2"), g.n("gpus", 0, 4))
		n.CPUs = uint32(pick(g, "cpus", 4, 64))
		n.Incarnation = uint64(g.n("incarnation", 0, 3))
		n.Archive = g.n("no archive", 0, 3) > 0
		n.RosterAcked = uint64(pick(g, "on disk", 0, 0, int(g.w.m.View().RosterVersion()), int(g.w.index)+5))
		if len(n.GPUs) > 0 && g.yes("ill") {
			n.GPUs[0].Health = v1.GpuHealth_QUARANTINED
		}
		return nodeverbs.RegisterNode{Node: n, Tasks: g.tasks(n.ID)}
	case 20:
		a := nodeverbs.NodeAction(g.n("node action", 0, 8))
		s := nodeverbs.SetNode{ID: g.nodeID(), Action: a, Force: g.yes("force"), Deadline: int64(pick(g, "deadline", 0, 30e9, -1))}
		if a == nodeverbs.NodeFitness && g.yes("unfit") {
			s.Reason = reason.Text("its disk is full")
		}
		if a == nodeverbs.NodeHealth {
			s.GPUs = testNode(s.ID, "", g.n("gpus", 0, 4)).GPUs
		}
		return s
	case 21:
		if g.yes("delete") {
			return queueverbs.DeleteQueue{Name: g.queue(), Actor: g.actor()}
		}
		if g.n("policy", 0, 3) == 0 {
			return g.policy()
		}
		q := work.Queue{Name: g.queue(), Weight: 3, MaxGPUs: uint32(pick(g, "queue gpus", 0, 0, 4)), Guaranteed: uint32(pick(g, "guaranteed", 0, 0, 2, 4))}
		if g.n("by type", 0, 3) == 0 {
			q.MaxByType = typed.Limits{{Type: pick(g, "type", "H100", "h100", ""), GPUs: int32(g.n("of type", -1, 4))}}
		}
		if g.yes("below another") {
			q.Parent = g.queue()
		}
		return queueverbs.PutQueue{Queue: q, Actor: g.actor()}
	case 22:
		if g.yes("configure") {
			return clusterverbs.Configure{KeepFinished: uint32(pick(g, "keep", 0, 1, 5)), KeepAudit: uint32(pick(g, "keep audit", 0, 1, 3))}
		}
		if g.n("recover", 0, 2) == 0 {
			return clusterverbs.Recover{Voters: g.w.m.View().Voters(), From: "c1", Actor: g.actor()}
		}
		if g.n("save", 0, 9) == 0 {
			return clusterverbs.NoteSnapshot{By: "c1", Actor: g.actor()}
		}
		if g.yes("denials") {
			return access.RecordDenials{Denials: []access.Denial{
				{Tenant: g.tenant(), User: "ann", Code: pick(g, "code", kernel.CodePermissionDenied, kernel.CodeUnauthenticated, kernel.CodeAborted), Count: uint64(g.n("times", 0, 2))},
				{Code: kernel.CodeUnauthenticated, Count: 1, From: "10.0.0.1"},
			}}
		}
		if g.yes("checkpoint") {
			if g.yes("pin") {
				return checkpointverbs.PinCheckpoint{Tenant: g.tenant(), ID: g.checkpoint(), Off: g.yes("off"), Actor: g.actor()}
			}
			return checkpointverbs.DeleteCheckpoint{Tenant: g.tenant(), ID: g.checkpoint()}
		}
		if g.yes("launcher") {
			if g.yes("delete") {
				return catalog.DeleteLauncher{Framework: pick(g, "framework", "CUSTOM", "FSDP")}
			}
			l := testLauncher(pick(g, "framework", "CUSTOM", "FSDP", ""))
			l.User = pick(g, "user", "ann", "bob")
			return catalog.PutLauncher{Launcher: l}
		}
		if g.yes("tunnel") {
			return jobverbs.OpenTunnel{Tenant: g.tenant(), Job: g.job(), What: pick(g, "what", "rank 0: sh", ""), Actor: g.actor()}
		}
		if g.yes("term") {
			return coordinators.NoteTerm{Term: uint64(g.n("term", 0, 200)), Leader: pick(g, "leader", "c1", "c2"), Gap: int64(g.n("gap", 0, 3)), Live: 1}
		}
		return coordinators.PutCoordinator{Coordinator: coordinators.Coordinator{ID: pick(g, "id", "c1", "c2"), GRPCAddr: pick(g, "addr", "a", "b")}}
	case 23, 24:
		return g.lose()
	case 30:
		v := g.w.m.View()
		return coordinators.RaiseLevel{To: level.Level(g.n("to", 0, int(level.Newest))), VotersIndex: pick(g, "configuration", v.VotersIndex(), v.VotersIndex(), 99), Actor: g.actor()}
	case 25:
		return nodeverbs.SetNode{ID: g.nodeID(), Action: pick(g, "fall silent", nodeverbs.NodeUnreachable, nodeverbs.NodeUnreachable, nodeverbs.NodeReachable)}
	case 26:
		return g.acks()
	case 27, 28:
		return g.quotaCommand()
	case 31, 32, 33:
		return g.checkpointReports()
	case 36, 37:
		return g.arrange()
	case 34, 35:
		return g.preempt()
	case 38:
		return g.promises()
	case 39, 40:
		return g.scheduling()
	case 41, 42:
		return g.any()
	case 43, 44, 45, 46:
		return g.hosting()
	case 47, 48:
		return g.signing()
	case 49, 50, 51:
		return g.designing()
	}
	return clusterverbs.Tick{Settled: g.yes("settled")}
}

// lose calls a node dead, by some votes of some coordinators about some start of its agent.
func (g *generator) lose() kernel.Command {
	c := nodeverbs.LoseNode{Node: g.nodeID(), Silent: int64(pick(g, "silent", 5, 60, 60, 4000)) * 1e9, Eligible: []string{"n1", "n2", "n3", "n9"}}
	if g.n("few", 0, 3) == 0 {
		c.Eligible = c.Eligible[:g.n("eligible", 0, 1)]
	}
	for range g.n("votes", 0, 5) {
		c.Votes = append(c.Votes, nodeverbs.Vote{
			Coordinator: pick(g, "voter", "c1", "c2", "c2", "c3", "c4", "n1"), Dead: g.n("alive", 0, 4) > 0,
			Incarnation: uint64(pick(g, "of", 0, 3, 3, 1)),
		})
	}
	return c
}

func (g *generator) policy() kernel.Command {
	c := queueverbs.PutPolicy{Policy: g.w.m.View().Policy(), Actor: g.actor()}
	if c.Base = c.Policy.Revision; g.n("outdated", 0, 4) == 0 {
		c.Base = 3
	}
	c.Policy.Backfill.Reservations = uint32(pick(g, "reservations", 0, 1, 8))
	c.Policy.Preemption.ProtectFromPriority = int64(pick(g, "protected", 0, 0, 3600e9))
	c.Policy.HalfLife = int64(pick(g, "half-life", 0, 60e9, 3600e9, 7*24*3600e9))
	return c
}

func (g *generator) acks() kernel.Command {
	var c nodeverbs.AckRoster
	for _, n := range []string{"n1", "n2", "n3", "n9"} {
		version := g.w.m.View().RosterVersion()
		if g.n("spoil", 0, 4) == 0 {
			version = uint64(g.n("version", 0, int(g.w.index)+5))
		}
		c.Acks = append(c.Acks, nodeverbs.RosterAck{Node: n, Version: version})
	}
	return c
}

// tasks are some of those that a node had.
func (g *generator) tasks(node string) []work.TaskRef {
	var refs []work.TaskRef
	for j := range g.w.m.View().Jobs(true, 0) {
		for i := range j.Tasks {
			if j.Tasks[i].Node == node && g.yes("live") {
				refs = append(refs, work.TaskRef{Job: j.ID, Attempt: j.Attempt, Rank: uint16(i), Token: j.Token})
			}
		}
		for _, a := range j.Awaits {
			if a.Node == node && g.yes("lost") {
				refs = append(refs, work.TaskRef{Job: j.ID, Attempt: a.Attempt, Rank: a.Rank, Token: a.Token})
			}
		}
	}
	return refs
}

func (g *generator) nodeID() string { return pick(g, "node", "n1", "n2", "n3") }

func (g *generator) queue() string {
	return pick(g, "queue", "", "default", "default", "fast", "small", "nope")
}

func (g *generator) tenant() string { return pick(g, "tenant", "acme", "acme", "umbrella") }

func (g *generator) newJob() jobverbs.NewJob {
	n := jobverbs.NewJob{
		Tenant: g.tenant(), User: pick(g, "user", "", "ann", "bob"), Name: "j", Queue: g.queue(), Priority: uint8(pick(g, "priority", 0, 5, 5, 10, 11)),
		Spec: []byte("spec"), Shape: g.shape(), Labels: map[string]string{"a": "1", "b": "2"},
		Retry:      work.RetryPolicy{Max: uint16(g.n("retries", 0, 2)), On: work.RetryCause(pick(g, "on", 0, int(work.RetryInfrastructure), int(work.RetryInfrastructure), int(work.RetryAll), 255))},
		MaxRuntime: int64(pick(g, "limit", 0, 0, 30e9, -1)), Notice: int64(pick(g, "notice", 0, 0, 5e9, -1)), NotBefore: pick(g, "not before", 0, 0, 0, startOfTime+90e9),
		GiveUpAfter: int64(pick(g, "give up", 0, 60e9)),
	}
	n.Retry.Never = g.n("not restartable", 0, 4) == 0
	if g.n("array", 0, 3) == 0 {
		n.Array = &jobverbs.NewArray{Start: uint32(pick(g, "start", 0, 0, 3, 200)), End: uint32(pick(g, "end", 0, 2, 5, 131071, 131072))}
		n.MaxParallel = uint32(pick(g, "parallel", 0, 1, 2))
	}
	n.Preemptible = g.yes("preemptible")
	if g.n("evaluates", 0, 2) == 0 {
		n.Labels = map[string]string{work.EvaluationLabel: work.EvaluationValue}
	}
	if g.n("depends", 0, 3) == 0 {
		n.Dependencies = []work.Dependency{{Job: g.job(), When: work.Condition(g.n("when", 0, 3))}}
	}
	if g.yes("retention") {
		n.Notices = pick(g, "told", nil, nil, &notices.Wanted{URL: "https://hooks.example/1", On: notices.Set(g.n("on", 0, 255)), Wait: int64(g.n("patience", -1, 2)) * 30e9})
		n.Retention = checkpoints.Retention{Keep: uint32(g.n("keep", 0, 2)), Best: uint32(g.n("best", 0, 2)), Metric: pick(g, "metric", "loss", "+loss", "")}
	}
	if g.n("scores", 0, 5) == 0 {
		n.Scores = g.checkpoint()
	}
	if g.n("resumes", 0, 9) == 0 {
		n.ResumeFrom = g.checkpoint()
	}
	if g.yes("sealed") {
		n.Credentials = []byte("sealed")
	}
	if g.yes("keyed") {
		n.Key, n.Fingerprint, n.AutoKey = pick(g, "key", "k1", "k2", "auto:k3"), uint64(g.n("print", 1, 2)), g.yes("auto")
	}
	return n
}

func (g *generator) shape() work.Shape {
	s := work.Shape{
		Nodes: uint16(pick(g, "nodes", 0, 1, 1, 1, 2, 3)), GPUs: uint16(pick(g, "gpus each", 0, 1, 1, 2, 4, 65)),
		GPUType: pick(g, "type", "", "", "h100", "NVIDIA H100 80GB HBM3", "A100"), CPUs: uint32(pick(g, "job cpus", 0, 1, 8)),
		Topology: uint8(pick(g, "topology", 0, 0, 1, 2, 3)), Selector: pick(g, "selector", "", "", "zone=a", "zone=b"),
		Between: domains.Between(pick(g, "between", 0, 0, 0, 1, 2, 3, 4)), Level: pick(g, "level", "", "zone", "zone"),
		Segment: uint16(pick(g, "segment", 0, 0, 1, 2)), Exclude: pick(g, "exclude", "", "", "n1"), Loose: pick(g, "loose", false, true),
	}
	if g.n("fraction", 0, 3) == 0 {
		s.GPUs, s.FractionMilli = 0, uint16(pick(g, "milli", 300, 500, 999, 1000))
	}
	return s
}

// job picks a job that is there, or one that is not.
func (g *generator) job() ident.Job {
	var ids []ident.Job
	for j := range g.w.m.View().Jobs(true, 0) {
		if len(ids) == 8 {
			break
		}
		ids = append(ids, j.ID)
	}
	if n := len(ids); n > 0 {
		ids = append(ids, ids[n-1].Submitted().At(uint32(g.n("element", 0, 6))))
	}
	for j := range g.w.m.View().Jobs(false, 0) {
		if j.Array != nil {
			ids = append(ids, j.ID, j.ID.At(uint32(g.n("element", 0, 6))))
			break
		}
	}
	return pick(g, "job", append(ids, 77)...)
}

func (g *generator) checkpoint() ident.Checkpoint {
	ids := []ident.Checkpoint{0, 99}
	for j := range g.w.m.View().Jobs(false, 0) {
		for c := range g.w.m.View().CheckpointsOf(j.ID) {
			ids = append(ids, c.ID)
		}
	}
	return pick(g, "checkpoint", ids...)
}

func (g *generator) control() kernel.Command {
	if g.n("update", 0, 4) == 0 {
		return g.update()
	}
	c := jobverbs.ControlJob{
		Tenant: pick(g, "as", "", "acme", "umbrella"), Job: g.job(), Action: work.Action(g.n("action", 0, 7)),
		SaveCheckpoint: g.yes("save"), Checkpoint: g.checkpoint(), Actor: g.actor(),
	}
	c.Vouch = g.n("vouch", 0, 3) == 0
	if g.n("keyed", 0, 4) == 0 {
		c.Key, c.Fingerprint = pick(g, "key", "k1", "c1"), uint64(g.n("print", 1, 2))
	}
	if g.n("reshape", 0, 4) == 0 {
		s := g.shape()
		c.Shape, c.Spec = &s, []byte("other")
	}
	return c
}

// update changes a job that is mostly as it was read.
func (g *generator) update() kernel.Command {
	c := jobverbs.UpdateJob{Tenant: pick(g, "as", "", "acme", "umbrella"), Job: g.job(), Set: jobverbs.Fields(g.n("fields", 0, 1<<10)), To: g.newJob(), Actor: g.actor()}
	if j, ok := g.w.m.View().Find(c.Job); ok && g.n("stale", 0, 9) > 0 {
		c.Was = jobverbs.SpecDigest(j.Spec)
	}
	return c
}
