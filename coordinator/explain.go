package coordinator

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
)

// explain lists what stands in the way of a waiting job, most telling first.
func explain(v *fsm.View, j *fsm.Job) []string {
	var out []string
	if j.Held&fsm.HoldNotBefore != 0 {
		out = append(out, "not before "+time.Unix(0, j.NotBefore).UTC().Format(time.RFC3339))
	}
	if j.Held != 0 {
		return out
	}
	out = append(out, explainLost(v, j)...)
	out = append(out, fmt.Sprintf("%d jobs of queue %q are ahead of it", v.Ahead(j), j.Queue))
	suited, free, ready := 0, 0, 0
	for n := range v.Nodes() {
		if n.State != v1.NodeState_READY {
			continue
		}
		ready++
		use := v.Use(n.ID)
		if !fsm.MatchesSelector(n.Labels, j.Shape.Selector) {
			continue
		}
		if able := bits.OnesCount64(fsm.Eligible(n, &fsm.NodeUse{}, j.Shape)); !j.Shape.NeedsGPU() || able >= max(1, int(j.Shape.GPUs)) {
			suited++
		}
		free += bits.OnesCount64(fsm.Eligible(n, &use, j.Shape))
	}
	out = append(out, fmt.Sprintf("%d nodes are ready, %d of them could take a task of it when empty", ready, suited))
	if j.Shape.NeedsGPU() {
		out = append(out, fmt.Sprintf("%d GPUs of the kind that it needs are free now", free))
	}
	return out
}

// maxNamed bounds the nodes that an explanation names.
const maxNamed = 8

// explainLost says what earlier attempts mean for where a job may go now: where they may still be alive, and where they
// failed.
func explainLost(v *fsm.View, j *fsm.Job) []string {
	var out []string
	for i := range j.Awaits {
		a := &j.Awaits[i]
		out = append(out, fmt.Sprintf("its task of attempt %d on node %s was lost and may still be alive there, until the node is back or an operator forgets it", a.Attempt, a.Node))
	}
	var may, avoided []string
	for n := range v.Nodes() {
		if n.State == v1.NodeState_READY && v.MayTakeOver(j, n) {
			may = append(may, n.ID)
		}
		if j.Avoids(n.ID) {
			avoided = append(avoided, n.ID)
		}
	}
	if j.Replacement() {
		out = append(out, "so only nodes that the lost one knew of may take over: "+named(may))
	}
	if len(avoided) > 0 {
		out = append(out, "an earlier attempt failed on "+named(avoided)+": others are preferred")
	}
	return out
}

// explainLive says what is the matter with the nodes of a live job.
func explainLive(v *fsm.View, j *fsm.Job) []string {
	var out []string
	for i := range j.Tasks {
		t := &j.Tasks[i]
		n, ok := v.Node(t.Node)
		if !ok || t.State == v1.TaskState_ENDED {
			continue
		}
		switch {
		case n.UnreachableSince != 0:
			out = append(out, fmt.Sprintf("rank %d: node %s cannot be reached since %s%s; %s", t.Rank, n.ID,
				time.Unix(0, n.UnreachableSince).UTC().Format(time.RFC3339), suffix(n.Reason), whenLost(j)))
		case n.Drain != nil && j.Stop == v1.StopReason_UNSPECIFIED:
			at := "it may run to its end"
			if n.Drain.Deadline != 0 {
				at = "it is stopped at " + time.Unix(0, n.Drain.Deadline).UTC().Format(time.RFC3339)
			}
			out = append(out, fmt.Sprintf("rank %d: node %s is being drained%s; %s", t.Rank, n.ID, suffix(n.Drain.Reason), at))
		}
	}
	return out
}

// whenLost says what becomes of a task whose node stays away.
func whenLost(j *fsm.Job) string {
	if j.RetryLeft(fsm.RetryNodeLost) {
		return fmt.Sprintf("a retry is left, so it is replaced when a majority declares the node dead, %s after the last renewal at the earliest", time.Duration(j.LostAfter))
	}
	return fmt.Sprintf("no retry is left, so it is left running until the node is back or forgotten, for %s at most", time.Duration(j.GiveUpAfter))
}

func named(nodes []string) string {
	if len(nodes) == 0 {
		return "none is ready"
	}
	slices.Sort(nodes)
	if more := len(nodes) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(nodes[:maxNamed], ", "), more)
	}
	return strings.Join(nodes, ", ")
}
