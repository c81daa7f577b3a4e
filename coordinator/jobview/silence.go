package jobview

import (
	"fmt"
	"iter"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/liveness"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

// The texts for users about jobs with tasks on unreachable nodes.

// silentReason says what will happen to a live job with tasks on unreachable nodes; empty: it has none.
func silentReason(v *fsm.View, j *work.Job) string {
	for _, n := range SilentTasks(v, j) {
		return fmt.Sprintf("node %s is unreachable since %s%s; the task there %s", n.ID, clock(n.UnreachableSince), nodeSays(n), fateOf(j, n))
	}
	return ""
}

// SilentTasks iterates the tasks of a live job that are not known to have ended, on nodes that cannot be reached.
func SilentTasks(v *fsm.View, j *work.Job) iter.Seq2[*work.Task, *work.Node] {
	return func(yield func(*work.Task, *work.Node) bool) {
		if !j.Live() {
			return
		}
		for i := range j.Tasks {
			t := &j.Tasks[i]
			n, ok := v.Node(t.Node)
			if ok && n.UnreachableSince != 0 && t.State != v1.TaskState_ENDED && !yield(t, n) {
				return
			}
		}
	}
}

// fateOf says when a task on an unreachable node counts as dead, and what will then happen to its job.
func fateOf(j *work.Job, n *work.Node) string {
	canceled := j.Stop == v1.StopReason_CANCEL
	then := "the job is restarted on other nodes"
	if canceled {
		then = "the job is CANCELLED"
	}
	fate := "ends by its own deadline"
	if n.Reason.Code() == reason.NodeSilentButRenews {
		fate = "runs on as long as its lease is renewed, and then " + fate
	}
	switch {
	case liveness.Replaceable(j):
		fate += fmt.Sprintf(". Once the node was silent for %s, a majority of the coordinators calls it dead and a replacement node exists, %s", liveness.LostAfter(j), then)
	case canceled:
		fate += fmt.Sprintf(", at the latest at %s. Then the job is CANCELLED", clock(n.UnreachableSince+j.GiveUpAfter))
	default:
		fate = fmt.Sprintf("is not replaced. It may run on; the job is given up at %s", clock(n.UnreachableSince+j.GiveUpAfter))
	}
	if canceled {
		return fate + fmt.Sprintf("; or when the node is back, or is forgotten, or at once if you vouch that the task is dead (`mind cancel --vouch %s`)", j.ID)
	}
	return fate
}

// awaitReason says where a waiting job may not run because tasks of its earlier attempts may still be alive; empty:
// none may.
func awaitReason(v *fsm.View, j *work.Job) string {
	if !j.Replacement() {
		return ""
	}
	a := &j.Awaits[0]
	more := ""
	if len(j.Awaits) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(j.Awaits)-1)
	}
	return fmt.Sprintf("attempt %d may still be alive on %s%s, which was declared lost; the next one goes only to nodes on the roster that %s keeps, after %s in session",
		a.Attempt, a.Node, more, a.Node, liveness.SettleTime)
}

// recoveryReason says what a job waits for after a recovery of the cluster.
func recoveryReason(v *fsm.View, j *work.Job) string {
	_, at := v.Recovered()
	unheard := v.Unheard()
	if len(unheard) == 0 {
		return fmt.Sprintf("the cluster was recovered at %s: the job waits until %s, when no earlier attempt of it can be alive any more", clock(at), clock(j.SettlesAt))
	}
	return fmt.Sprintf("the cluster was recovered at %s: the job waits for these nodes to say what they run: %s (`mind node forget` takes out one that will not come back)",
		clock(at), named(unheard))
}

// explainSilence lists the consequences of unreachable nodes, task by task.
func explainSilence(v *fsm.View, j *work.Job) []string {
	var out []string
	for t, n := range SilentTasks(v, j) {
		out = append(out, fmt.Sprintf("rank %d is on node %s, unreachable since %s%s: it %s", t.Rank, n.ID, clock(n.UnreachableSince), nodeSays(n), fateOf(j, n)))
	}
	if !j.Replacement() {
		return out
	}
	for i := range j.Awaits {
		a := &j.Awaits[i]
		state := "gone from the cluster"
		if n, ok := v.Node(a.Node); ok {
			state = strings.ToLower(n.State.String())
		}
		out = append(out, fmt.Sprintf("rank %d of attempt %d may still be alive on node %s (%s): it is waited for until the node says what it runs, restarts, or is forgotten (mind node forget %s)",
			a.Rank, a.Attempt, a.Node, state, a.Node))
	}
	may := 0
	for n := range v.Nodes() {
		if n.State == v1.NodeState_READY && v.MayTakeOver(j, n) {
			may++
		}
	}
	return append(out, fmt.Sprintf("%d of the nodes that are ready may run the next attempt meanwhile", may))
}

// nodeSays returns the known reason why a node is away.
func nodeSays(n *work.Node) string {
	if n.Reason == "" {
		return ""
	}
	return " (" + words.Of(n.Reason) + ")"
}
