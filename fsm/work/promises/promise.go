package promises

import (
	"math"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

const (
	// Startup is how long an attempt is given to begin to run once it is placed: its limit counts from then on. Nanoseconds.
	Startup = int64(30e9)
	// Slack is how long after its limit and its grace period an attempt may take to give back its places. Nanoseconds.
	Slack = int64(30e9)
)

// Promise is the start of the next attempt of a job.
type Promise struct {
	Job     ident.Job `cbor:"1,keyasint,omitempty"`
	Attempt uint32    `cbor:"2,keyasint,omitempty"`
	// StartAt is when its places are free for it at the latest, Until when it has left them again; 0: that is not known.
	// Unix nanoseconds.
	StartAt int64 `cbor:"3,keyasint,omitempty"`
	Until   int64 `cbor:"4,keyasint,omitempty"`
	// Tasks are the places, by rank.
	Tasks []work.TaskPlacement `cbor:"5,keyasint,omitempty"`
	// CPUs and MemMB are for each place.
	CPUs  uint32 `cbor:"6,keyasint,omitempty"`
	MemMB uint32 `cbor:"7,keyasint,omitempty"`
	// Since is when a start was first promised, and First which; ChangedAt is when this one was, and Cause why it is not the
	// first one any more. Unix nanoseconds of log time.
	Since     int64         `cbor:"8,keyasint,omitempty"`
	First     int64         `cbor:"9,keyasint,omitempty"`
	ChangedAt int64         `cbor:"10,keyasint,omitempty"`
	Cause     reason.Reason `cbor:"11,keyasint,omitempty"`
}

// AppendFields implements kernel.Row.
func (p *Promise) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Num(uint64(p.Job)).Num(uint64(p.Attempt)).Int(p.StartAt).Int(p.Until).Num(uint64(len(p.Tasks)))
	for i := range p.Tasks {
		f = f.Text(p.Tasks[i].Node).Num(p.Tasks[i].GPUs)
	}
	return f.Num(uint64(p.CPUs)).Num(uint64(p.MemMB)).Int(p.Since).Int(p.First).Int(p.ChangedAt).Text(string(p.Cause))
}

// Reasons calls see for each reason in the row.
func (p *Promise) Reasons(see func(what string, why reason.Reason)) { see("the cause", p.Cause) }

// Of returns the resources that the promise needs on the node of one of its places.
func (p *Promise) Of(i int) work.Claimed {
	return work.Claimed{GPUs: p.Tasks[i].GPUs, CPUs: p.CPUs, MemMB: p.MemMB}
}

// Nodes are its places, by rank.
func (p *Promise) Nodes() []string {
	nodes := make([]string, len(p.Tasks))
	for i := range p.Tasks {
		nodes[i] = p.Tasks[i].Node
	}
	return nodes
}

// During says whether the promised time has anything of the time between two others; to 0: that has no end.
func (p *Promise) During(from, to int64) bool {
	return (p.Until == 0 || from < p.Until) && (to == 0 || p.StartAt < to)
}

// EndOf is when an attempt that is placed at a time has given back its places, if it keeps its limit; 0: it has none.
func EndOf(j *work.Job, placed int64) int64 {
	if j.MaxRuntime == 0 {
		return 0
	}
	return later(placed, Startup, j.MaxRuntime, j.Grace, Slack)
}

// Earliest is not after the EndOf of any job of a term; 0: its jobs have no limit. The limit of a job that may be preempted
// counts as if it were none at all.
func Earliest(t work.Term, placed int64) int64 {
	switch t {
	case work.TermOpen:
		return 0
	case work.TermYields:
		return later(placed, Startup, Slack)
	}
	return later(placed, Startup, (t - 1).Limit(), Slack)
}

// Leaves is when an attempt has given back its places, if it keeps its limit; 0: it has none. One that was placed and does not
// run yet may take its time to begin.
func Leaves(j *work.Job, placed, now int64) int64 {
	switch {
	case j.MaxRuntime == 0:
		return 0
	case j.StartedAt == 0:
		return max(EndOf(j, placed), later(now, j.MaxRuntime, j.Grace, Slack))
	}
	at := later(j.StartedAt, j.MaxRuntime, j.Grace, Slack)
	if j.Stop != 0 {
		at = min(at, later(j.UpdatedAt, j.StopGrace, Slack))
	}
	return at
}

// later adds durations to a time, and stops at the last time that there is.
func later(at int64, by ...int64) int64 {
	for _, d := range by {
		if at > math.MaxInt64-d {
			return math.MaxInt64
		}
		at += d
	}
	return at
}
