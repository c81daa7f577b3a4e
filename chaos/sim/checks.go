package sim

import (
	"slices"
	"time"

	"github.com/mindcoordinator/mind/agent/gpus/holding"
	"github.com/mindcoordinator/mind/agent/taskid"
	"github.com/mindcoordinator/mind/chaos/sim/machine"
	"github.com/mindcoordinator/mind/chaos/sim/raft"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

// truth is the true state of the world, for the checks. No part of the cluster reads it.
type truth struct {
	hashes  []uint64  // by log index; 0: not applied
	view    *fsm.View // the newest of any replica
	renewed map[string]int64
	tokens  map[rank]uint64 // the token of the newest process of each rank
	kept    []ident.Job     // acknowledged submits
}

type rank struct {
	job  string
	rank int32
}

func newTruth() truth {
	return truth{renewed: map[string]int64{}, tokens: map[rank]uint64{}, view: fsm.New().View()}
}

// applied checks an entry when a replica has applied it: for the first replica, the effect of the entry; for the
// others, that they do the same.
func (t *truth) applied(c *coordinator, index int, e *raft.Entry) {
	if e.Data == nil && e.Voters == nil {
		return
	}
	if index < len(t.hashes) {
		t.compare(c, index)
		return
	}
	for len(t.hashes) < index {
		t.hashes = append(t.hashes, 0)
	}
	w, before, v := c.w, t.view, c.machine.View()
	t.hashes = append(t.hashes, v.Hash())
	t.view = v
	w.seen.Entries++
	w.Trace.Fold(uint64(index), v.Hash())
	if found := fsm.Check(v); len(found) > 0 {
		w.fail(State, "after entry %d: %v", index, found)
	}
	retried := false
	for _, command := range e.Commands {
		control, ok := command.(jobverbs.ControlJob)
		retried = retried || ok && control.Action == work.ActionRetry
	}
	for j := range v.Jobs(false, 0) {
		old, ok := before.Job(j.ID)
		if !ok {
			continue
		}
		if old.Terminal() && old.State != j.State && !retried {
			w.fail(Terminal, "%s went from %s to %s", j.ID, old.State, j.State)
		}
		if j.Attempt < old.Attempt || j.Token < old.Token || j.Attempt > old.Attempt && j.Token <= old.Token {
			w.fail(Token, "%s went from attempt %d, token %d to %d, %d", j.ID, old.Attempt, old.Token, j.Attempt, j.Token)
		}
		for _, a := range j.Awaits {
			if a.Loss.How == work.LossDeclared && !slices.Contains(old.Awaits, a) {
				t.judged(w, j, a)
			}
		}
	}
	for _, id := range t.kept {
		if _, ok := v.Job(id); !ok {
			w.fail(Forgotten, "%s is gone at entry %d", id, index)
		}
	}
}

// compare compares a replica with others at the same index.
func (t *truth) compare(c *coordinator, index int) {
	if index < len(t.hashes) && t.hashes[index] != 0 && c.machine.View().Hash() != t.hashes[index] {
		c.w.fail(Diverged, "%s has the hash %016x at %d, others %016x", c.Name, c.machine.View().Hash(), index, t.hashes[index])
	}
}

// judged checks the promise for a lost node: a majority has voted, and the lease has expired. A tolerance of a
// twentieth of the lease is left for clocks, which are wrong by a hundredth at most.
func (t *truth) judged(w *world, j *work.Job, a work.AwaitedTask) {
	if 2*int(a.Loss.Votes) <= int(a.Loss.Voters) || int(a.Loss.Voters) != len(w.coordinators) {
		w.fail(Evidence, "%s rank %d is lost with %d of %d votes", j.ID, a.Rank, a.Loss.Votes, a.Loss.Voters)
	}
	lost := max(j.LostAfter, work.MinLostAfter)
	if since := w.Now() - t.renewed[a.Node]; since < lost-lost/20 {
		w.fail(Evidence, "%s rank %d on %s is lost %.3f s after a renewal was sent that was acknowledged; lost_after is %.0f s",
			j.ID, a.Rank, a.Node, float64(since)/float64(second), float64(lost)/float64(second))
	}
}

// Program implements machine.Watcher.
func (w *world) Program(job string) (run int64, code int) { return w.users.behaviour(job) }

// Started implements machine.Watcher. It checks that no two attempts are alive at the same time.
func (w *world) Started(m *machine.Machine, r *machine.Record) {
	w.seen.Launches++
	if r.Spec.GetReplacement() {
		w.seen.Replacements++
	}
	t, id := &w.truth, r.ID
	for _, other := range w.nodes {
		for o := range other.Alive {
			switch {
			case o == r:
			case o.ID.Job == id.Job && (o.ID.Rank == id.Rank || o.ID.Attempt != id.Attempt):
				w.fail(Overlap, "%s: rank %d of attempt %d starts on %s while rank %d of attempt %d lives on %s",
					id.Job, id.Rank, id.Attempt, m, o.ID.Rank, o.ID.Attempt, other.Name)
			case other.Machine == m && holding.Of(o.Spec).Excludes(holding.Of(r.Spec)):
				w.fail(Shared, "%s starts on %s, where %s has one of its GPUs", r.Name, m, o.Name)
			}
		}
	}
	name := rank{id.Job, id.Rank}
	if id.Token <= t.tokens[name] {
		w.fail(Token, "%s starts on %s after a process with token %d", r.Name, m, t.tokens[name])
	}
	t.tokens[name] = id.Token
}

// outage is a time in which no coordinator can serve any agent, while all agents are healthy and hear each other.
type outage struct {
	since int64 // 0: there is no outage
}

// outagePatience is the time in an outage after which all agents must have noticed it.
const outagePatience = 14 * time.Second

// watch checks repeatedly whether there is an outage.
func (w *world) watch() {
	w.After(100*ms, func() {
		is := w.isOutage()
		switch {
		case !is:
			w.outage.since = 0
		case w.outage.since == 0:
			w.outage.since = w.Now()
		}
		w.watch()
	})
}

func (w *world) isOutage() bool {
	awake := 0
	for _, c := range w.coordinators {
		if c.Live() {
			awake++
		}
	}
	quorum := 2*awake > len(w.coordinators)
	for _, n := range w.nodes {
		if n.Boots == 0 {
			continue
		}
		if !n.Live() || !n.Powered() {
			return false
		}
		for _, c := range w.coordinators {
			if quorum && w.Linked(n.Proc, c.Proc) {
				return false
			}
		}
		for _, o := range w.nodes {
			if o.Boots > 0 && !w.Linked(n.Proc, o.Proc) {
				return false
			}
		}
	}
	return true
}

// Lapsed implements machine.Watcher. It checks the promise that no training is stopped because of an outage.
func (w *world) Lapsed(m *machine.Machine, r *machine.Record) {
	since := time.Duration(w.Now() - w.outage.since)
	if w.outage.since == 0 || since < outagePatience {
		return
	}
	if r.Spec.GetReplaceable() && m.Disk.Roster != nil && w.knobs.weather.Loss < 0.02 {
		w.fail(Harm, "%s on %s is stopped %s into an outage that all agents share", r.Name, m, since)
	}
}

// settling is how long a cluster may take to settle after all disturbances have ended.
const settling = 8 * minute

// converge ends all disturbances and waits until the cluster has settled.
func (w *world) converge() {
	w.heal()
	end := w.Now() + settling
	for w.Now() < end && w.found == nil {
		w.Run(w.Now() + 5*second)
		if w.found == nil && w.unsettled() == "" {
			return
		}
	}
	if w.found == nil {
		w.fail(Stuck, "%d min after everything was mended: %s", settling/minute, w.unsettled())
	}
}

// unsettled returns the first difference from the expected final state, or "".
func (w *world) unsettled() string {
	c := w.leader()
	if c == nil {
		return "there is no leader"
	}
	if why := w.users.unsettled(); why != "" {
		return why
	}
	v := c.machine.View()
	for j := range v.Jobs(false, 0) {
		if j.Terminal() {
			continue
		}
		if len(j.Tasks) == 0 || !j.Live() {
			return j.ID.String() + " is " + j.State.String() + ": " + words.Of(j.Reason) + words.Of(v.ClassReason(v.ClassOf(j)))
		}
		for i := range j.Tasks {
			if !w.lives(j, i) {
				return j.ID.String() + " is " + j.State.String() + " and has no process of rank " + string(rune('0'+i)) + " on " + j.Tasks[i].Node
			}
		}
	}
	for _, n := range w.nodes {
		for r := range n.Alive {
			id, _ := ident.ParseJob(r.ID.Job)
			j, ok := v.Job(id)
			if !ok || !j.Live() || j.Token != r.ID.Token || j.Tasks[r.ID.Rank].Node != n.Name {
				return r.Name + " lives on " + n.Name + " and is not wanted"
			}
		}
	}
	return ""
}

func (w *world) lives(j *work.Job, i int) bool {
	n := w.node(j.Tasks[i].Node)
	if n == nil {
		return false
	}
	r := n.Find(taskid.ID{Job: j.ID.String(), Attempt: int32(j.Attempt), Rank: int32(i), Token: j.Token})
	return r != nil && r.Alive()
}
