package term

import (
	"context"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/coordinator/session"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

const (
	// nudgePace is how often the planner is woken while replacements wait.
	nudgePace = time.Second
	// maxNodeChanges bounds the changes of nodes that are in flight at a time. They share log entries.
	maxNodeChanges = 64
)

// look proposes to mark silent nodes as unreachable, and those that are back as reachable. It also wakes the planner
// while replacements wait, because a node may have been in session for long enough to run one.
func (t *Term) look(ctx context.Context) {
	ticker := time.NewTicker(max(10*time.Millisecond, t.config.UnreachableAfter/10))
	defer ticker.Stop()
	nudged := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if t.listening() {
			seen := t.liveness.Look(t.state.View(), time.Now())
			t.sessions.End(session.ErrAgain, seen.Again...)
			t.away.Store(int64(seen.Away))
			t.setNodes(ctx, seen.Changes)
		}
		if time.Since(nudged) >= nudgePace && replacementsWait(t.state.View()) {
			nudged = time.Now()
			t.demand.again()
		}
	}
}

// replacementsWait reports whether a job waits whose last attempt may still have a live task. Such a job is a class of
// its own.
func replacementsWait(v *fsm.View) bool {
	for class := range v.Classes() {
		if j, ok := v.Job(class.Own); ok && j.Replacement() {
			return true
		}
	}
	return false
}

func (t *Term) setNodes(ctx context.Context, changes []nodeverbs.SetNode) {
	var writes sync.WaitGroup
	room := make(chan struct{}, maxNodeChanges)
	for _, change := range changes {
		room <- struct{}{}
		writes.Go(func() {
			defer func() { <-room }()
			t.setNode(ctx, change)
			if change.Action == nodeverbs.NodeUnreachable {
				t.sessions.End(session.ErrSilent, change.ID)
			}
		})
	}
	writes.Wait()
}

func (t *Term) setNode(ctx context.Context, command nodeverbs.SetNode) {
	result, err := replica.Propose[nodeverbs.NodeResult](ctx, t.state, command)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		t.log.Warn("node's state was not written", "node", command.ID, "error", err)
	case result.Refusal != nil:
		t.log.Warn("node's state was refused", "node", command.ID, "why", words.Of(result.Refusal.Reason))
	case command.Action == nodeverbs.NodeUnreachable:
		t.log.Warn("node unreachable", "node", command.ID, "why", words.Of(command.Reason))
	default:
		t.log.Info("node reachable again", "node", command.ID)
	}
}
