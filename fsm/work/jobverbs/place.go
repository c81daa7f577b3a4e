package jobverbs

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// PlaceJobs is a plan of the scheduler. Every placement is verified again, for itself.
type PlaceJobs struct {
	// BasedOn is the index of the view that the plan was made from. All jobs created up to it have been considered.
	BasedOn    uint64           `cbor:"1,keyasint,omitempty"`
	Placements []work.Placement `cbor:"2,keyasint,omitempty"`
	Reasons    []ClassReason    `cbor:"3,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (PlaceJobs) CommandNumber() uint16 { return 3 }

func init() { verbs.Add(lifecycle.Verb("PlaceJobs", placeJobs, nil)) }

// ClassReason says why the jobs of a class wait. An empty reason takes the old one away.
type ClassReason struct {
	Class  work.ClassKey `cbor:"1,keyasint,omitempty"`
	Reason reason.Reason `cbor:"2,keyasint,omitempty"`
}

// PlaceResult says what became true of a plan.
type PlaceResult struct {
	Placed  []PlacedJob
	Refused []Refused
}

// PlacedJob has its leases, under Token.
type PlacedJob struct {
	Job     ident.Job
	Attempt uint32
	Token   uint64
}

// Refused is a placement, a preemption or a reserved start that is not legal any more.
type Refused struct {
	Job    ident.Job
	Code   kernel.Code
	Reason reason.Reason
}

func placeJobs(tx *lifecycle.Tx, c *PlaceJobs) PlaceResult {
	tx.BeginAccounts()
	res := PlaceResult{Placed: make([]PlacedJob, 0, len(c.Placements))}
	for i := range c.Placements {
		p := &c.Placements[i]
		if r := tx.Place(p); r != nil {
			res.Refused = append(res.Refused, Refused{Job: p.Job, Code: r.Code, Reason: r.Reason})
			continue
		}
		res.Placed = append(res.Placed, PlacedJob{Job: p.Job, Attempt: p.Attempt, Token: tx.Index})
	}
	tx.Meta.Considered = max(tx.Meta.Considered, min(c.BasedOn, tx.Index))
	tx.Meta.Touch()
	for i := range c.Reasons {
		tx.Explain(c.Reasons[i].Class, c.Reasons[i].Reason)
	}
	return res
}
