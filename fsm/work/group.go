package work

import (
	"cmp"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
)

// JobGroup is the fields of jobs by which lists filter. Each job is in one group, and each group knows how many it has: so a
// list finds its page and its total without looking at other jobs.
type JobGroup struct {
	Tenant   string
	Queue    string
	Priority uint8
	State    v1.JobState_Value
	// Phase of RUNNING jobs; 0 in other states.
	Phase v1.JobPhase_Value
	// Held: QUEUED, and not offered to the scheduler.
	Held       bool
	Evaluation bool
	// Element: of an array, which stands for it in lists.
	Element bool
}

func (a *JobGroup) Compare(b *JobGroup) int {
	if c := strings.Compare(a.Tenant, b.Tenant); c != 0 {
		return c
	}
	if c := strings.Compare(a.Queue, b.Queue); c != 0 {
		return c
	}
	return cmp.Compare(a.rest(), b.rest())
}

// rest is all of a group but its names, as one number.
func (a *JobGroup) rest() uint64 {
	n := uint64(a.Priority)<<32 | uint64(a.State&0xff)<<16 | uint64(a.Phase&0xff)<<8
	if a.Held {
		n |= 2
	}
	if a.Evaluation {
		n |= 1
	}
	if a.Element {
		n |= 4
	}
	return n
}

// Group is the one that a job is in.
func (j *Job) Group() JobGroup {
	g := JobGroup{Tenant: j.Tenant, Queue: j.Queue, Priority: j.Priority, State: j.State, Evaluation: j.Evaluation()}
	_, _, g.Element = j.ID.Element()
	switch j.State {
	case v1.JobState_RUNNING:
		g.Phase = j.Phase
	case v1.JobState_QUEUED:
		g.Held = j.HeldBack()
	}
	return g
}

// CountedGroup is a group of a view.
type CountedGroup struct {
	JobGroup
	Jobs int
	// Since limits JobsOfGroups to the jobs of the group from this id on. Callers may set it.
	Since ident.Job
	// Number is that of the group in its index.
	Number uint64
}

// RanThrough says whether the job ran from its beginning to its end in one attempt. Only such a job tells how long the next
// one like it takes: one that failed, was stopped or went on from a checkpoint ran for some other time.
func (j *Job) RanThrough() bool {
	return j.State == v1.JobState_SUCCEEDED && j.Attempt == 1 && j.StartedAt != 0
}

// Stem is a name without what numbers it: "nightly" of "nightly-2026-01-31". Names of nothing else are left alone.
func Stem(name string) string {
	if stem := strings.TrimRight(name, "0123456789-_.: "); stem != "" {
		return stem
	}
	return name
}
