package claims

import (
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

// CheckClaims reports what does not hold of the claims; job finds a job.
func (t *Book) CheckClaims(job func(ident.Job) (*work.Job, bool), report kernel.Report) {
	claimed := map[string]uint64{}
	victims := 0
	for c := range t.Claims() {
		j, ok := job(c.Job)
		switch {
		case !ok || j.State != v1.JobState_QUEUED:
			report("I12: a claim for %s, which is not QUEUED", c.Job)
		case c.Attempt != j.Attempt+1 || len(c.Tasks) != int(j.Shape.Nodes):
			report("I12: the claim of %s is for attempt %d with %d places; it is at %d with %d", c.Job, c.Attempt, len(c.Tasks), j.Attempt, j.Shape.Nodes)
		case len(c.Victims) == 0 || !slices.IsSorted(c.Victims):
			report("I12: the claim of %s waits for %v", c.Job, c.Victims)
		}
		for i := range c.Tasks {
			if claimed[c.Tasks[i].Node]&c.Tasks[i].GPUs != 0 {
				report("I12: a GPU of %b on %s is in two claims", c.Tasks[i].GPUs, c.Tasks[i].Node)
			}
			claimed[c.Tasks[i].Node] |= c.Tasks[i].GPUs
		}
		for _, v := range c.Victims {
			victims++
			if at, ok := job(v); !ok || !at.Live() || at.Stop == v1.StopReason_UNSPECIFIED {
				report("I12: the claim of %s waits for %s, which nobody asked to leave", c.Job, v)
			}
			if !t.victims.Has(victim{v, c.Job}) {
				report("I12: %s is not listed as a victim of %s", v, c.Job)
			}
		}
		if !t.ends.Has(end{c.Until, c.Job}) {
			report("the claim of %s has no end at %d", c.Job, c.Until)
		}
	}
	if t.rows.Len() > Max || t.victims.Len() != victims || t.ends.Len() != t.rows.Len() {
		report("%d claims, %d ends, %d victims instead of %d", t.rows.Len(), t.ends.Len(), t.victims.Len(), victims)
	}
}
