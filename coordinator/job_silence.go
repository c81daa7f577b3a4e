package coordinator

import (
	"fmt"
	"strings"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
)

// What users are told when a node fell silent that holds, or held, tasks of their jobs.

// silentReason says what becomes of a live job with tasks on nodes that cannot be reached; empty: it has none.
func silentReason(v *fsm.View, j *fsm.Job) string {
	if !j.Live() {
		return ""
	}
	for i := range j.Tasks {
		t := &j.Tasks[i]
		n, ok := v.Node(t.Node)
		if !ok || n.UnreachableSince == 0 || t.State == v1.TaskState_ENDED {
			continue
		}
		what := "no retry is left, so the task there is left running"
		if replaceable(j) {
			what = fmt.Sprintf("the task there is replaced once the node was silent for %s and a majority of the coordinators calls it dead", lostAfter(j))
		}
		return fmt.Sprintf("node %s is unreachable since %s%s; %s", n.ID, clock(n.UnreachableSince), nodeSays(n), what)
	}
	return ""
}

// awaitReason says where a waiting job may not go because of what may still be alive; empty: nothing may.
func awaitReason(v *fsm.View, j *fsm.Job) string {
	if !j.Replacement() {
		return ""
	}
	a := &j.Awaits[0]
	more := ""
	if len(j.Awaits) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(j.Awaits)-1)
	}
	return fmt.Sprintf("attempt %d may still be alive on %s%s, which was declared lost; the next one goes only to nodes on the roster that %s keeps, after %s in session",
		a.Attempt, a.Node, more, a.Node, settleTime)
}

// explainSilence lists all of it, task by task.
func explainSilence(v *fsm.View, j *fsm.Job) []string {
	var out []string
	for i := range j.Tasks {
		t := &j.Tasks[i]
		n, ok := v.Node(t.Node)
		if !ok || !j.Live() || n.UnreachableSince == 0 || t.State == v1.TaskState_ENDED {
			continue
		}
		fate := "it is never replaced by the clock; " + giveUpText(j)
		if replaceable(j) {
			fate = fmt.Sprintf("after %s of silence it is replaced (retry %d of %d), if a majority of the coordinators calls the node dead and another node may take over",
				lostAfter(j), j.Retries.Counted()+1, j.Retry.Max)
		}
		out = append(out, fmt.Sprintf("rank %d is on node %s, unreachable since %s%s: %s", t.Rank, n.ID, clock(n.UnreachableSince), nodeSays(n), fate))
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

func giveUpText(j *fsm.Job) string {
	return fmt.Sprintf("it is given up after %s", time.Duration(j.GiveUpAfter))
}

// nodeSays is what is known of why a node is away.
func nodeSays(n *fsm.Node) string {
	if n.Reason == "" {
		return ""
	}
	return " (" + n.Reason + ")"
}

func clock(unixNanos int64) string { return time.Unix(0, unixNanos).UTC().Format(time.RFC3339) }

func pastAttempts(j *fsm.Job) []*v1.PastAttempt {
	var out []*v1.PastAttempt
	for i := range j.Past {
		p := &j.Past[i]
		out = append(out, &v1.PastAttempt{
			Attempt: int32(p.Attempt), Nodes: p.Nodes, ExitCode: p.ExitCode, ErrorType: p.ErrorType, Reason: p.Reason,
			StartedAt: timestamp(p.StartedAt), FinishedAt: timestamp(p.EndedAt), FailedNode: p.FailedNode,
		})
	}
	return out
}
