package coordinator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
)

const (
	// verdictPace is how often the leader looks for tasks whose time is over.
	verdictPace = 500 * time.Millisecond
	// A verdict that was not reached is tried again after retrySoon, and after retryLater once it failed for a while.
	retrySoon  = time.Second
	retryLater = 5 * time.Second
	manyTries  = 30
	// sayAgain is how often the same obstacle to a verdict is logged.
	sayAgain = time.Minute
	// maxEligible bounds the nodes that one verdict names as fit for the replacements: one is enough for each of them.
	maxEligible = 64
	// maxVerdicts bounds the verdicts that are on their way at a time.
	maxVerdicts = 32
)

// obstacle is what keeps a node from being declared lost.
type obstacle struct {
	text  string
	said  time.Time
	tries int
	next  time.Time
}

// bench is where the verdicts of one reign are prepared.
type bench struct {
	server    *server
	obstacles map[string]*obstacle
}

// condemn proposes to declare lost what fell silent for too long. It decides nothing: the state counts the votes.
func (s *server) condemn(ctx context.Context) {
	b := &bench{server: s, obstacles: map[string]*obstacle{}}
	ticker := time.NewTicker(verdictPace)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if s.listening() {
				b.session(ctx)
			}
		}
	}
}

// session tries every node that is due.
func (b *bench) session(ctx context.Context) {
	s := b.server
	v := s.replica.View()
	settled := s.sessions.allSettled(s.config.Timers.UnreachableAfter)
	var due []*suspect
	for n := range v.Nodes() {
		c, ok := s.suspect(v, n.ID, settled)
		if !ok {
			delete(b.obstacles, n.ID)
			continue
		}
		switch o := b.obstacles[n.ID]; {
		case o != nil && time.Now().Before(o.next):
		case !c.worthwhile:
			b.failed(n.ID, fmt.Sprintf("no node may run the replacements: none that was on the roster it keeps (version %d) has been in session for %s", n.RosterAcked, settleTime))
		default:
			due = append(due, c)
		}
	}
	if len(due) == 0 {
		return
	}
	ballots := s.poll(ctx, v, due)
	var verdicts sync.WaitGroup
	said := make([]string, len(due))
	room := make(chan struct{}, maxVerdicts)
	for i, c := range due {
		ballot := ballots[c.node.ID]
		if ballot.dead() < ballot.need() {
			said[i] = ballot.String()
			continue
		}
		// It may have been heard of, or this process have stood still, while the votes came in.
		s.sessions.condemn(c.node.ID)
		again, ok := s.suspect(s.replica.View(), c.node.ID, settled)
		if !ok || !again.worthwhile || !s.listening() {
			s.sessions.absolve(c.node.ID)
			continue
		}
		room <- struct{}{}
		verdicts.Go(func() {
			defer func() { <-room }()
			said[i] = s.loseNode(ctx, fsm.LoseNode{Node: c.node.ID, Votes: ballot.cast, Silent: int64(again.silent), Eligible: again.fit})
		})
	}
	verdicts.Wait()
	for i, c := range due {
		if said[i] != "" && ctx.Err() == nil {
			b.failed(c.node.ID, said[i])
		}
	}
}

// suspect is a node that was silent for so long that a verdict is due.
type suspect struct {
	node   *fsm.Node
	silent time.Duration
	// fit are the nodes that may run what is replaced.
	fit []string
	// worthwhile says that a verdict would lose a task that somebody may take over, or a node on which nothing could be.
	worthwhile bool
}

// suspect says whether a verdict on a node is due: it holds a task that may be replaced after so much silence, or it holds
// none and was silent for long.
func (s *server) suspect(v *fsm.View, id string, settled []string) (*suspect, bool) {
	n, ok := v.Node(id)
	if !ok || n.UnreachableSince == 0 {
		return nil, false
	}
	renewed, _, ok := s.sessions.lastRenewed(n.ID)
	if !ok {
		return nil, false
	}
	c := &suspect{node: n, silent: time.Since(renewed), fit: mayReplace(v, n, settled)}
	held := held(v, n, c.silent)
	switch {
	case held > 0:
		c.worthwhile = v.Losable(n.ID, int64(c.silent), c.fit) > 0
	case n.LostSince == 0 && c.silent >= fsm.DefaultLostAfter:
		c.worthwhile = true
	default:
		return nil, false
	}
	return c, true
}

// held counts the tasks on a node that may be declared lost after so much silence, if there is who may take over.
func held(v *fsm.View, n *fsm.Node, silent time.Duration) int {
	count := 0
	for lease := range v.LeasesOn(n.ID) {
		j, ok := v.Job(lease.Job)
		if ok && j.Live() && int(lease.Rank) < len(j.Tasks) && j.Tasks[lease.Rank].State != v1.TaskState_ENDED &&
			replaceable(j) && silent >= lostAfter(j) {
			count++
		}
	}
	return count
}

// lostAfter is the time of silence after which a task of a job may be declared lost.
func lostAfter(j *fsm.Job) time.Duration { return time.Duration(max(j.LostAfter, fsm.MinLostAfter)) }

// replaceable says whether another attempt follows one that is lost with its node. It is the same for all of the life of
// an attempt: what the agent was told when it launched the task stays true.
func replaceable(j *fsm.Job) bool { return j.RetryLeft(fsm.RetryNodeLost) }

// mayReplace lists the settled nodes to which tasks of a node that is cut off may go, those that are longest on the roster
// first.
func mayReplace(v *fsm.View, lost *fsm.Node, settled []string) []string {
	var fit []*fsm.Node
	for _, id := range settled {
		if m, ok := v.Node(id); ok && id != lost.ID && m.RosterSince != 0 && m.RosterSince <= lost.RosterAcked {
			fit = append(fit, m)
		}
	}
	slices.SortFunc(fit, func(a, b *fsm.Node) int {
		return cmp.Or(cmp.Compare(a.RosterSince, b.RosterSince), cmp.Compare(a.ID, b.ID))
	})
	ids := make([]string, min(len(fit), maxEligible))
	for i := range ids {
		ids[i] = fit[i].ID
	}
	return ids
}

// loseNode proposes a verdict, and says why it did not come about; empty: it did.
func (s *server) loseNode(ctx context.Context, command fsm.LoseNode) string {
	result, err := replica.Propose[fsm.LoseNodeResult](ctx, s.replica, command)
	switch {
	case err != nil:
		// A verdict of unknown outcome may still be taken: the node stays condemned until it registers, or for this reign.
		if call.OutcomeOf(call.ToStatus(err)) == status.NotSent {
			s.sessions.absolve(command.Node)
		}
		return err.Error()
	case result.Refusal != nil:
		s.sessions.absolve(command.Node)
		return result.Refusal.Message
	}
	s.log.Warn("node lost", "node", command.Node, "silent", time.Duration(command.Silent).Round(time.Millisecond), "votes", len(command.Votes), "tasks", result.Lost)
	return ""
}

// failed notes why a node is not declared lost, and says so when it is news, or was not said for a while.
func (b *bench) failed(node, why string) {
	o := b.obstacles[node]
	if o == nil {
		o = &obstacle{}
		b.obstacles[node] = o
	}
	now := time.Now()
	o.tries++
	o.next = now.Add(retrySoon)
	if o.tries > manyTries {
		o.next = now.Add(retryLater)
	}
	if o.text != why || now.Sub(o.said) >= sayAgain {
		o.text, o.said = why, now
		b.server.log.Warn("node is silent, and not declared lost", "node", node, "why", why)
	}
}
