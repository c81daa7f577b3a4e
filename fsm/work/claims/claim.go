package claims

import (
	"math/bits"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

const (
	// Max is how many claims there are at a time.
	Max = 256
	// MaxVictims is how many jobs are stopped for one.
	MaxVictims = 1024
	// Slack is how long after the grace periods of its victims a claim ends, if they still have not left; nanoseconds.
	Slack = int64(60e9)
	// ClosingGrace is the rest of the notice of a victim that has committed a checkpoint since it was asked to stop;
	// nanoseconds.
	ClosingGrace = int64(5e9)
)

// Claim keeps places for the next attempt of a job: those that its victims leave, or, in a hold, those that the tasks of
// its last attempt had.
type Claim struct {
	Job     ident.Job `cbor:"1,keyasint,omitempty"`
	Attempt uint32    `cbor:"2,keyasint,omitempty"`
	// Tasks are the places, by rank.
	Tasks []work.TaskPlacement `cbor:"3,keyasint,omitempty"`
	// Victims are the jobs that have yet to leave, by id.
	Victims []ident.Job `cbor:"4,keyasint,omitempty"`
	// CPUs and MemMB are for each place.
	CPUs  uint32 `cbor:"5,keyasint,omitempty"`
	MemMB uint32 `cbor:"6,keyasint,omitempty"`
	// Since and Until are Unix nanoseconds of log time.
	Since int64 `cbor:"7,keyasint,omitempty"`
	Until int64 `cbor:"8,keyasint,omitempty"`
	// Ranks are set in a hold: which rank of the next attempt each place is for. In a preemption the places are those of
	// all ranks.
	Ranks []uint16 `cbor:"9,keyasint,omitempty"`
}

// AppendFields implements kernel.Row.
func (c *Claim) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Num(uint64(c.Job)).Num(uint64(c.Attempt)).Num(uint64(len(c.Tasks)))
	for i := range c.Tasks {
		f = f.Text(c.Tasks[i].Node).Num(c.Tasks[i].GPUs)
	}
	f = f.Num(uint64(len(c.Victims)))
	for _, v := range c.Victims {
		f = f.Num(uint64(v))
	}
	f = f.Num(uint64(c.CPUs)).Num(uint64(c.MemMB)).Int(c.Since).Int(c.Until).Num(uint64(len(c.Ranks)))
	for _, r := range c.Ranks {
		f = f.Num(uint64(r))
	}
	return f
}

// Of returns the resources that the claim keeps on the node of one of its places.
func (c *Claim) Of(i int) work.Claimed {
	return work.Claimed{GPUs: c.Tasks[i].GPUs, CPUs: c.CPUs, MemMB: c.MemMB}
}

// GPUs is how many GPUs the claim keeps.
func (c *Claim) GPUs() int {
	n := 0
	for i := range c.Tasks {
		n += bits.OnesCount64(c.Tasks[i].GPUs)
	}
	return n
}
