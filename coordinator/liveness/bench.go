package liveness

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

const (
	// BenchPace is how often the leader looks for nodes that have been silent for too long.
	BenchPace = 500 * time.Millisecond
	// A proposal that failed is repeated after retrySoon, and after retryLater once it has failed for a while.
	retrySoon  = time.Second
	retryLater = 5 * time.Second
	manyTries  = 30
	// sayAgain is how often the same obstacle is reported.
	sayAgain = time.Minute
	// maxEligible bounds the nodes that one proposal names for the replacements: one is enough for each replacement.
	maxEligible = 64
)

// Bench prepares the proposals of one term to declare nodes lost. It decides nothing: the state counts the votes.
type Bench struct {
	term      *Term
	obstacles map[string]*obstacle
}

// obstacle is the reason why a node is not declared lost.
type obstacle struct {
	text  string
	said  time.Time
	tries int
	next  time.Time
}

// NewBench returns the bench of a term.
func NewBench(t *Term) *Bench { return &Bench{term: t, obstacles: map[string]*obstacle{}} }

// Suspect is a node that has been silent for so long that it may be declared lost.
type Suspect struct {
	Node   *work.Node
	silent time.Duration
	// fit are the nodes that may run the replacements.
	fit []string
	// worthwhile: the node has a task for which a settled node may run a replacement, or it has no such task and has
	// been silent for long.
	worthwhile bool
}

// Due returns the nodes about which the voters are to be asked now. It calls obstructed with each node that cannot be
// declared lost, and the reason, if that is new or was not reported for a while. Due must be called only while
// Listening.
func (b *Bench) Due(v *fsm.View, now time.Time, obstructed func(node, why string)) []*Suspect {
	settled := b.term.AllSettled(now)
	var due []*Suspect
	for n := range v.Nodes() {
		c, ok := b.term.suspect(v, n.ID, settled, now)
		if !ok {
			delete(b.obstacles, n.ID)
			continue
		}
		switch o := b.obstacles[n.ID]; {
		case o != nil && now.Before(o.next):
		case !c.worthwhile:
			why := fmt.Sprintf("no node may run the replacements: none that was on the roster it keeps (version %d) has been in session for %s", n.RosterAcked, SettleTime)
			if b.Failed(n.ID, why, now) {
				obstructed(n.ID, why)
			}
		default:
			due = append(due, c)
		}
	}
	return due
}

// Propose returns the command that declares a suspect lost, from a won ballot and the newest view. It checks again,
// because the node may have made contact, or this process may have been suspended, while the votes came in: then ok is
// false. If ok is true, the node is not renewed through others from then on, until Unbar.
func (b *Bench) Propose(c *Suspect, ballot *Ballot, v *fsm.View, listening bool, now time.Time) (command nodeverbs.LoseNode, ok bool) {
	t, node := b.term, c.Node.ID
	t.bar(node)
	again, ok := t.suspect(v, node, t.AllSettled(now), now)
	if !ok || !again.worthwhile || !listening {
		t.Unbar(node)
		return nodeverbs.LoseNode{}, false
	}
	return nodeverbs.LoseNode{Node: node, Votes: ballot.cast, Silent: int64(again.silent), Eligible: again.fit}, true
}

// Failed records why a node was not declared lost. It reports whether that is new or was not reported for a while.
func (b *Bench) Failed(node, why string, now time.Time) (tell bool) {
	o := b.obstacles[node]
	if o == nil {
		o = &obstacle{}
		b.obstacles[node] = o
	}
	o.tries++
	o.next = now.Add(retrySoon)
	if o.tries > manyTries {
		o.next = now.Add(retryLater)
	}
	if o.text == why && now.Sub(o.said) < sayAgain {
		return false
	}
	o.text, o.said = why, now
	return true
}

// suspect reports whether a node may be declared lost: because it holds a task that may be replaced after so much
// silence, or because it holds none and has been silent for long.
func (t *Term) suspect(v *fsm.View, id string, settled []string, now time.Time) (*Suspect, bool) {
	n, ok := v.Node(id)
	if !ok || n.UnreachableSince == 0 {
		return nil, false
	}
	renewed, _ := t.LastRenewed(n.ID)
	c := &Suspect{Node: n, silent: now.Sub(renewed), fit: mayReplace(v, n, settled)}
	switch {
	case held(v, n, c.silent):
		c.worthwhile = v.Losable(n.ID, int64(c.silent), c.fit) > 0
	case n.LostSince == 0 && c.silent >= work.DefaultLostAfter:
		c.worthwhile = true
	default:
		return nil, false
	}
	return c, true
}

// held reports whether a node holds a task that may be declared lost after so much silence, if a settled node may run
// its replacement.
func held(v *fsm.View, n *work.Node, silent time.Duration) bool {
	for lease := range v.LeasesOn(n.ID) {
		j, ok := v.Job(lease.Job)
		if ok && j.Live() && int(lease.Rank) < len(j.Tasks) && j.Tasks[lease.Rank].State != v1.TaskState_ENDED &&
			Replaceable(j) && silent >= LostAfter(j) {
			return true
		}
	}
	return false
}

// LostAfter returns the time of silence after which a task of a job may be declared lost.
func LostAfter(j *work.Job) time.Duration { return time.Duration(max(j.LostAfter, work.MinLostAfter)) }

// Replaceable reports whether another attempt follows if the current one is lost with its node. The answer does not
// change during an attempt, so the agent's copy from the launch of the task stays valid.
func Replaceable(j *work.Job) bool { return j.RetryLeft(work.RetryNodeLost) }

// mayReplace returns the settled nodes that may run replacements for a lost node, those that have been on the roster
// longest first.
func mayReplace(v *fsm.View, lost *work.Node, settled []string) []string {
	var fit []*work.Node
	for _, id := range settled {
		if m, ok := v.Node(id); ok && id != lost.ID && m.RosterSince != 0 && m.RosterSince <= lost.RosterAcked {
			fit = append(fit, m)
		}
	}
	slices.SortFunc(fit, func(a, b *work.Node) int {
		return cmp.Or(cmp.Compare(a.RosterSince, b.RosterSince), cmp.Compare(a.ID, b.ID))
	})
	ids := make([]string, min(len(fit), maxEligible))
	for i := range ids {
		ids[i] = fit[i].ID
	}
	return ids
}
