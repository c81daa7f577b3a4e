package claims

import (
	"math/bits"
	"slices"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

// CheckClaims reports what does not hold of the claims; job finds a job.
func (t *Book) CheckClaims(job func(ident.Job) (*work.Job, bool), report kernel.Report) {
	claimed := map[string]uint64{}
	victims, holds := 0, 0
	for c := range t.Claims() {
		j, ok := job(c.Job)
		switch {
		case !ok || j.State != v1.JobState_QUEUED:
			report("I12: a claim for %s, which is not QUEUED", c.Job)
		case c.IsHold():
			t.checkHold(c, j, report)
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
		if c.IsHold() {
			holds++
		}
	}
	if t.ClaimCount() > Max || t.victims.Len() != victims || t.ends.Len() != t.rows.Len() || t.holds.Len() != holds {
		report("%d claims, %d ends, %d victims instead of %d, %d holds instead of %d", t.rows.Len(), t.ends.Len(), t.victims.Len(), victims, t.holds.Len(), holds)
	}
}

// checkHold reports what does not hold of a claim for what a failed attempt had.
func (t *Book) checkHold(c *Claim, j *work.Job, report kernel.Report) {
	last := work.PastAttempt{}
	if n := len(j.Past); n > 0 {
		last = j.Past[n-1]
	}
	switch {
	case c.Attempt != j.Attempt+1 || len(c.Tasks) != len(c.Ranks) || c.Missing(j.Shape.Nodes) < 0 || len(c.Victims) != 0:
		report("I17: the hold of %s is for attempt %d with %d places for %d ranks and %d victims; it is at %d", c.Job, c.Attempt, len(c.Tasks), len(c.Ranks), len(c.Victims), j.Attempt)
		return
	case !t.holds.Has(c.Job):
		report("I17: the hold of %s is not listed", c.Job)
	case last.Attempt != j.Attempt || work.CauseOf(last.ErrorType)&Held == 0:
		report("I17: places are held for %s, whose attempt %d ended with %s", c.Job, last.Attempt, last.ErrorType)
	case j.HeldBack() && (j.Held != work.HoldBackoff || j.Streak.After >= c.Until):
		report("I17: places are held until %d for %s, which cannot start by then", c.Until, c.Job)
	}
	for i, rank := range c.Ranks {
		if i > 0 && rank <= c.Ranks[i-1] || int(rank) >= len(last.Nodes) || last.Nodes[rank] != c.Tasks[i].Node || bits.OnesCount64(c.Tasks[i].GPUs) != int(j.Shape.GPUs) {
			report("I17: place %d that is held for %s is %b on %s for rank %d; it was on %v", i, c.Job, c.Tasks[i].GPUs, c.Tasks[i].Node, rank, last.Nodes)
		}
	}
}
