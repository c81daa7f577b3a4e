package policy

import (
	"cmp"
	"fmt"
	"time"

	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work/domains"
)

// Policy is how the scheduler decides: one row for the whole cluster. A cluster without the row has [DefaultPolicy]. The
// comments have each field's name in REST. Durations are in nanoseconds.
type Policy struct {
	// Order decides among the waiting jobs of one user with the same priority (order).
	Order Order `cbor:"1,keyasint,omitempty"`
	// HalfLife is after how long used GPU time counts half for fair share (half_life_seconds).
	HalfLife int64 `cbor:"2,keyasint,omitempty"`
	// AgingStep is the waiting that is worth one step of priority, up to MaxAging steps; 0: none is
	// (aging_step_seconds).
	AgingStep  int64      `cbor:"3,keyasint,omitempty"`
	Preemption Preemption `cbor:"4,keyasint,omitempty"`
	Backfill   Backfill   `cbor:"5,keyasint,omitempty"`

	// Hold is how long the places of a gang's other tasks are held for it after a failure of the infrastructure; 0: they
	// are not (hold_seconds).
	Hold int64 `cbor:"13,keyasint,omitempty"`

	UpdatedBy string `cbor:"6,keyasint,omitempty"`
	UpdatedAt int64  `cbor:"7,keyasint,omitempty"`
	Revision  uint64 `cbor:"8,keyasint,omitempty"`

	// Levels are the labels of the domains between nodes, innermost first, with commas between them; empty:
	// domains.Default (topology.levels).
	Levels string `cbor:"14,keyasint,omitempty"`

	// KeepFinished bounds the finished jobs that the state has; 0: DefaultKeepFinished, unless Configure says otherwise
	// (keep_finished).
	KeepFinished uint32 `cbor:"15,keyasint,omitempty"`
	// KeepSpecs is how long the spec of a finished job stays; 0: DefaultKeepSpecs (keep_specs_seconds).
	KeepSpecs int64 `cbor:"16,keyasint,omitempty"`

	// HoursGrace is how far running jobs without a time limit may exceed the GPU hours of their tenant before they are stopped, in
	// percent of these; nil: DefaultHoursGrace; NeverForHours: they are not stopped (hours_grace_percent).
	HoursGrace *int32 `cbor:"17,keyasint,omitempty"`
}

// The bounds and the default of HoursGrace.
const (
	NeverForHours     = -1
	DefaultHoursGrace = 10
	MostHoursGrace    = 100
)

// The bounds and the default of KeepFinished, and the default of KeepSpecs in nanoseconds.
const (
	LeastKeepFinished   = 100
	MostKeepFinished    = 10_000_000
	DefaultKeepFinished = 250_000
	DefaultKeepSpecs    = int64(7 * 24 * time.Hour)
)

// Gate opens the protection from jobs of a higher priority as a value of its own.
var Gate = level.NewGate(level.Released+1, "protection of running jobs from a higher priority (preemption.protect_from_priority_seconds)")

// HoursGate opens the stop of running jobs whose tenant has used up its GPU hours.
var HoursGate = level.NewGate(level.Released+1, "the end of running jobs without a time limit when the GPU hours are used up (hours_grace_percent)")

// GraceOfHours is how far running jobs without a time limit may exceed the GPU hours, in percent of these; false: they are not
// stopped for that.
func (p *Policy) GraceOfHours() (percent int32, on bool) {
	if p.HoursGrace == nil {
		return DefaultHoursGrace, true
	}
	return *p.HoursGrace, *p.HoursGrace != NeverForHours
}

// KeptFinished is how many finished jobs are kept where Configure has set a number, or 0.
func (p *Policy) KeptFinished(configured uint32) int {
	return int(cmp.Or(p.KeepFinished, configured, DefaultKeepFinished))
}

// KeptSpecs is how long the spec of a finished job stays, in nanoseconds.
func (p *Policy) KeptSpecs() int64 { return cmp.Or(p.KeepSpecs, DefaultKeepSpecs) }

// Order decides among the waiting jobs of one user with the same priority.
type Order uint8

// The orders, as REST and the command line name them.
const (
	// OrderFIFO: the oldest.
	OrderFIFO Order = iota
	// OrderShortest: the one that is predicted to need the least time.
	OrderShortest
	// OrderAttained: the one that has had the least GPU time, so that nothing has to be predicted. A job that was never
	// preempted has had none: it keeps its place by age after a failure.
	OrderAttained
)

var orderNames = [...]string{OrderFIFO: "FIFO", OrderShortest: "SHORTEST", OrderAttained: "ATTAINED"}

// String is the name of an order.
func (o Order) String() string {
	if int(o) < len(orderNames) {
		return orderNames[o]
	}
	return fmt.Sprintf("Order(%d)", uint8(o))
}

// ParseOrder is the order of a name.
func ParseOrder(name string) (Order, error) {
	for o, n := range orderNames {
		if n == name {
			return Order(o), nil
		}
	}
	return 0, fmt.Errorf("order %q is none: use FIFO, SHORTEST or ATTAINED", name)
}

// Preemption is when a running job is stopped for one that waits (preemption). Only jobs that may be preempted are.
type Preemption struct {
	// Enabled: also for jobs that need much less, and to empty nodes for those that need whole ones (enabled).
	Enabled bool `cbor:"1,keyasint,omitempty"`
	// Protect is how long an attempt is left alone from its start by preemption for the sake of the order
	// (protect_seconds).
	Protect int64 `cbor:"2,keyasint,omitempty"`
	// Ratio is how many times more GPU time the victim is predicted to need than the job that gets its GPUs (ratio).
	Ratio uint32 `cbor:"3,keyasint,omitempty"`
	// Every is the time between two decisions to preempt for the sake of Policy.Order (every_seconds).
	Every int64 `cbor:"4,keyasint,omitempty"`
	// RestartCost is the time that a restart takes beyond the work since the last checkpoint (restart_cost_seconds).
	RestartCost int64 `cbor:"5,keyasint,omitempty"`
	// ProtectFromPriority is how long an attempt is left alone from its start by jobs of a higher priority
	// (protect_from_priority_seconds). Below the Gate it is 0, and Protect counts for these, too.
	ProtectFromPriority int64 `cbor:"6,keyasint,omitempty"`
}

// Protects is how long an attempt is left alone from its start, by a job of a higher priority or for the sake of the order.
func (p *Preemption) Protects(fromPriority bool) int64 {
	if fromPriority {
		return p.ProtectFromPriority
	}
	return p.Protect
}

// Backfill is how jobs that do not fit get their turn while smaller ones keep coming (backfill).
type Backfill struct {
	// Reservations is how many blocked jobs have their start reserved at a time; 0: none (reservations).
	Reservations uint32 `cbor:"1,keyasint,omitempty"`
	// After is how long a job waits before a start is reserved for it (after_seconds).
	After int64 `cbor:"2,keyasint,omitempty"`
}

// MaxAging is the most steps of priority that waiting is worth: the lowest priority reaches the highest.
const MaxAging = 10

// DefaultPolicy holds until an operator sets another one.
func DefaultPolicy() Policy {
	return Policy{
		Order:     OrderAttained,
		HalfLife:  int64(7 * 24 * time.Hour),
		AgingStep: int64(5 * 24 * time.Hour),
		Preemption: Preemption{
			Enabled: true, Protect: int64(2 * time.Hour), Ratio: 4, Every: int64(10 * time.Minute), RestartCost: int64(5 * time.Minute),
		},
		Backfill: Backfill{Reservations: 8, After: int64(10 * time.Minute)},
		Hold:     int64(2 * time.Minute),
	}
}

// Validate says what is wrong with a policy, and what would be right.
func (p *Policy) Validate() error {
	if int(p.Order) >= len(orderNames) {
		return fmt.Errorf("order %d is none: use FIFO, SHORTEST or ATTAINED", p.Order)
	}
	const year = 365 * 24 * time.Hour
	return cmp.Or(
		between("half_life_seconds", p.HalfLife, time.Minute, 10*year),
		between("preemption.protect_seconds", p.Preemption.Protect, 0, year),
		between("preemption.protect_from_priority_seconds", p.Preemption.ProtectFromPriority, 0, year),
		between("preemption.every_seconds", p.Preemption.Every, time.Second, 24*time.Hour),
		between("preemption.restart_cost_seconds", p.Preemption.RestartCost, 0, 24*time.Hour),
		between("backfill.after_seconds", p.Backfill.After, 0, year),
		between("hold_seconds", p.Hold, 0, time.Hour),
		between("keep_specs_seconds", p.KeptSpecs(), time.Hour, 10*year),
		p.validateAging(), p.validateRatio(), p.validateReservations(), p.validateKeep(), p.validateHours(),
		domains.Validate(p.Levels),
	)
}

func (p *Policy) validateAging() error {
	if p.AgingStep == 0 {
		return nil
	}
	return between("aging_step_seconds", p.AgingStep, time.Minute, 365*24*time.Hour)
}

func (p *Policy) validateRatio() error {
	if r := p.Preemption.Ratio; r < 2 || r > 1000 {
		return fmt.Errorf("preemption.ratio is %d: use 2 to 1000 (below 2, jobs would preempt each other in turn)", r)
	}
	return nil
}

func (p *Policy) validateReservations() error {
	if p.Backfill.Reservations > 1000 {
		return fmt.Errorf("backfill.reservations is %d: use 0 to 1000", p.Backfill.Reservations)
	}
	return nil
}

func (p *Policy) validateKeep() error {
	if n := p.KeepFinished; n != 0 && (n < LeastKeepFinished || n > MostKeepFinished) {
		return fmt.Errorf("keep_finished is %d: use %d to %d", n, LeastKeepFinished, MostKeepFinished)
	}
	return nil
}

func (p *Policy) validateHours() error {
	if n := p.HoursGrace; n != nil && (*n < NeverForHours || *n > MostHoursGrace) {
		return fmt.Errorf("hours_grace_percent is %d: use 0 to %d, or %d to stop no job", *n, MostHoursGrace, NeverForHours)
	}
	return nil
}

// AppendFields implements kernel.Row.
func (p *Policy) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Num(uint64(p.Order)).Int(p.HalfLife).Int(p.AgingStep)
	f = f.Flag(p.Preemption.Enabled).Int(p.Preemption.Protect).Num(uint64(p.Preemption.Ratio)).Int(p.Preemption.Every)
	f = f.Int(p.Preemption.RestartCost).Num(uint64(p.Backfill.Reservations)).Int(p.Backfill.After)
	f = f.Int(p.Hold)
	f = f.Text(p.UpdatedBy).Int(p.UpdatedAt).Num(p.Revision)
	f = f.Text(p.Levels)
	if p.KeepFinished != 0 || p.KeepSpecs != 0 || p.Preemption.ProtectFromPriority != 0 || p.HoursGrace != nil { // of a later level than the other fields: without them the hash is theirs
		f = f.Num(uint64(p.KeepFinished)).Int(p.KeepSpecs).Int(p.Preemption.ProtectFromPriority).Optional(p.HoursGrace)
	}
	return f
}

func between(name string, v int64, least, most time.Duration) error {
	if v < int64(least) || v > int64(most) {
		return fmt.Errorf("%s is %d: use %d to %d", name, v/int64(time.Second), int64(least/time.Second), int64(most/time.Second))
	}
	return nil
}
