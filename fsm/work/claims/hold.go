package claims

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/work"
)

// Held are the causes after which the places of the tasks that were not at fault are kept. An exit of the job's own program
// is none of them, and neither is data that a node could not fetch: the next attempt finds it in no other state.
const Held = work.RetryNodeLost | work.RetryGPUFault | work.RetryLaunchFailed

// Hold makes the claim that keeps the places of an attempt that failed for its next one, until some time; nil: there is
// nothing to keep. The leases of the attempt are gone by now; fits says whether a task could be in its place again. A shared
// GPU is not kept: it would take more from them than the job had.
func Hold(j *work.Job, over *work.Ending, now, until int64, fits func(t *work.Task) bool) *Claim {
	if len(j.Tasks) < 2 || j.Shape.GPUs == 0 || j.Shape.FractionMilli > 0 || work.CauseOf(over.ErrorType)&Held == 0 {
		return nil
	}
	if j.Held&^work.HoldBackoff != 0 || j.Held != 0 && j.Streak.After >= until || until <= now {
		return nil // It will not start before the end.
	}
	c := &Claim{Job: j.ID, Attempt: j.Attempt + 1, CPUs: j.Shape.CPUDemand(), MemMB: j.Shape.MemMB, Since: now, Until: until}
	for i := range j.Tasks {
		t := &j.Tasks[i]
		if t.Node == over.Node || work.CauseOf(t.ErrorType)&Held != 0 || !fits(t) {
			continue
		}
		c.Ranks = append(c.Ranks, t.Rank)
		c.Tasks = append(c.Tasks, work.TaskPlacement{Node: t.Node, GPUs: t.GPUs})
	}
	if len(c.Tasks) == 0 {
		return nil
	}
	return c
}

// IsHold says whether the claim keeps what a failed attempt had, and not what victims leave.
func (c *Claim) IsHold() bool { return len(c.Ranks) > 0 }

// Missing is how many places more the job needs, of so many.
func (c *Claim) Missing(nodes uint16) int { return int(nodes) - len(c.Tasks) }

// Places are the places by rank, for so many ranks; the ones that are missing have no node.
func (c *Claim) Places(nodes uint16) []work.TaskPlacement {
	if !c.IsHold() {
		return slices.Clone(c.Tasks)
	}
	places := make([]work.TaskPlacement, nodes)
	for i, rank := range c.Ranks {
		if int(rank) < len(places) { // otherwise the claim is of a larger shape than the job has
			places[rank] = c.Tasks[i]
		}
	}
	return places
}
