package jobview

import (
	"fmt"
	"math/bits"
	"strings"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Explain lists the causes of a job's state beside its reason, the most telling first. now is the time of the view.
func Explain(v *fsm.View, j *work.Job, now time.Time) []string {
	var out []string
	if j.State == v1.JobState_QUEUED {
		out = append(out, explainQueued(v, j, now)...)
	}
	if j.Live() {
		out = append(out, explainTransfers(j)...)
		out = append(out, explainLive(v, j)...)
	}
	return append(out, explainSilence(v, j)...)
}

// explainQueued lists the obstacles of a waiting job.
func explainQueued(v *fsm.View, j *work.Job, now time.Time) []string {
	if j.HeldBack() {
		return nil // The reason says it all.
	}
	var out []string
	out = append(out, explainReserved(v, j, now)...)
	out = append(out, explainAvoided(v, j)...)
	out = append(out, fmt.Sprintf("ahead of it in queue %q, by priority and age: %s", j.Queue, call.Plural(v.Ahead(j), "job")))
	suited, free, ready := 0, 0, 0
	for n := range v.Nodes() {
		if n.State != v1.NodeState_READY {
			continue
		}
		ready++
		use := v.Use(n.ID)
		if !work.MatchesSelector(n.Labels, j.Shape.Selector) {
			continue
		}
		if able := bits.OnesCount64(work.Eligible(n, &work.NodeUse{}, j.Shape)); !j.Shape.NeedsGPU() || able >= max(1, int(j.Shape.GPUs)) {
			suited++
		}
		free += bits.OnesCount64(work.Eligible(n, &use, j.Shape))
	}
	out = append(out, fmt.Sprintf("ready: %s, of which %d could hold a task of it when empty", call.Plural(ready, "node"), suited))
	if j.Shape.NeedsGPU() {
		out = append(out, fmt.Sprintf("free now: %s of the kind that it needs", call.Plural(free, "GPU")))
	}
	return out
}

// maxNamed bounds the nodes that an explanation names.
const maxNamed = 8

// explainAvoided lists the nodes on which earlier attempts of a waiting job failed.
func explainAvoided(v *fsm.View, j *work.Job) []string {
	var avoided []string
	for n := range v.Nodes() {
		if j.Avoids(n.ID) {
			avoided = append(avoided, n.ID)
		}
	}
	if len(avoided) == 0 {
		return nil
	}
	return []string{"an earlier attempt failed on " + named(avoided) + ": other nodes are preferred"}
}

// explainLive lists the drains of a live job's nodes, and their effect on the job.
func explainLive(v *fsm.View, j *work.Job) []string {
	var out []string
	for i := range j.Tasks {
		t := &j.Tasks[i]
		n, ok := v.Node(t.Node)
		if !ok || n.Drain == nil || t.State == v1.TaskState_ENDED || j.Stop != v1.StopReason_UNSPECIFIED {
			continue
		}
		fate := "it may run to its end"
		if n.Drain.Deadline != 0 {
			fate = "it is stopped at " + time.Unix(0, n.Drain.Deadline).UTC().Format(time.RFC3339)
		}
		out = append(out, fmt.Sprintf("rank %d: node %s is being drained%s; %s", t.Rank, n.ID, suffix(words.Of(n.Drain.Reason)), fate))
	}
	return out
}

func named(nodes []string) string {
	if more := len(nodes) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(nodes[:maxNamed], ", "), more)
	}
	return strings.Join(nodes, ", ")
}
