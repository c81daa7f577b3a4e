package term

import (
	"context"
	"sync"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/liveness"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

// maxLosses bounds the proposals to declare a node lost that are in flight at a time.
const maxLosses = 32

// lose proposes to declare nodes lost that have been silent for too long. It decides nothing: the state counts the
// votes.
func (t *Term) lose(ctx context.Context) {
	bench := liveness.NewBench(t.liveness)
	ticker := time.NewTicker(liveness.BenchPace)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if t.listening() {
				t.loseDue(ctx, bench)
			}
		}
	}
}

// loseDue asks the voters about every node that is due, and makes the proposals.
func (t *Term) loseDue(ctx context.Context, bench *liveness.Bench) {
	v := t.state.View()
	due := bench.Due(v, time.Now(), t.notLost)
	if len(due) == 0 {
		return
	}
	ballots := t.poll(ctx, v.Voters(), due)
	why := make([]string, len(due))
	var losses sync.WaitGroup
	room := make(chan struct{}, maxLosses)
	for i, suspect := range due {
		if !ballots[i].Won() {
			why[i] = ballots[i].String()
			continue
		}
		command, ok := bench.Propose(suspect, ballots[i], t.state.View(), t.listening(), time.Now())
		if !ok {
			continue
		}
		room <- struct{}{}
		losses.Go(func() {
			defer func() { <-room }()
			why[i] = t.loseNode(ctx, command)
		})
	}
	losses.Wait()
	for i, suspect := range due {
		if why[i] != "" && ctx.Err() == nil && bench.Failed(suspect.Node.ID, why[i], time.Now()) {
			t.notLost(suspect.Node.ID, why[i])
		}
	}
}

func (t *Term) notLost(node, why string) {
	t.log.Warn("node is silent, and not declared lost", "node", node, "why", why)
}

// poll asks all voters about some nodes, at the same time.
func (t *Term) poll(ctx context.Context, voters []string, suspects []*liveness.Suspect) []*liveness.Ballot {
	ids := make([]string, len(suspects))
	for i, s := range suspects {
		ids[i] = s.Node.ID
	}
	answers, errs := make([][]*v1.Vote, len(voters)), make([]error, len(voters))
	var asked sync.WaitGroup
	for i, voter := range voters {
		asked.Go(func() { answers[i], errs[i] = t.config.Voters.Ask(ctx, voter, ids) })
	}
	asked.Wait()
	ballots := make([]*liveness.Ballot, len(suspects))
	for n, s := range suspects {
		ballots[n] = liveness.NewBallot(s.Node, len(voters))
		for i, voter := range voters {
			ballots[n].Count(voter, answers[i], errs[i])
		}
	}
	return ballots
}

// loseNode proposes to declare a node lost, and returns why it was not; empty: it was.
func (t *Term) loseNode(ctx context.Context, command nodeverbs.LoseNode) string {
	result, err := replica.Propose[nodeverbs.LoseNodeResult](ctx, t.state, command)
	switch {
	case err != nil:
		// A proposal of unknown outcome may still be applied: the node stays barred until it registers, or until the
		// term ends.
		if call.OutcomeOf(call.ToStatus(err)) == status.NotSent {
			t.liveness.Unbar(command.Node)
		}
		return err.Error()
	case result.Refusal != nil:
		t.liveness.Unbar(command.Node)
		return words.Of(result.Refusal.Reason)
	}
	t.log.Warn("node lost", "node", command.Node, "silent", time.Duration(command.Silent).Round(time.Millisecond), "votes", len(command.Votes), "tasks", result.Lost)
	return ""
}
