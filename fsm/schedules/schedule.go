package schedules

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// Overlap says whether a schedule runs while the job of its last run is not over.
type Overlap uint8

// The ways to overlap.
const (
	// Skip leaves the run out.
	Skip Overlap = iota + 1
	// Allow submits another job beside it.
	Allow
	// Replace cancels the job of the run before.
	Replace
)

// Outcome says how a run ended.
type Outcome uint8

// The outcomes.
const (
	// Started: a job was submitted.
	Started Outcome = iota + 1
	// Skipped: the job of the run before was not over.
	Skipped
	// Missed: it was too late when a leader came to it.
	Missed
	// Refused: the job was refused.
	Refused
)

const (
	// Max is how many schedules there are, and MaxOfTenant how many a tenant has.
	Max         = 5000
	MaxOfTenant = 500
	// MaxName, MaxText and MaxJob bound a schedule; bytes.
	MaxName = 63
	MaxText = 256
	MaxJob  = 64 << 10
	// MaxCredentials bounds sealed credentials; bytes.
	MaxCredentials = 40 << 10
)

// Key names a schedule within a tenant.
type Key struct{ Tenant, Name string }

// Schedule submits a job again and again.
type Schedule struct {
	Tenant string `cbor:"1,keyasint,omitempty"`
	Name   string `cbor:"2,keyasint,omitempty"`
	// User is the user who put the schedule last; the jobs are submitted in this name.
	User string `cbor:"3,keyasint,omitempty"`
	// Cron and Zone say when, to the leader.
	Cron string `cbor:"4,keyasint,omitempty"`
	Zone string `cbor:"5,keyasint,omitempty"`
	// Job is the request of a job, opaque here, with its sealed credentials.
	Job         []byte  `cbor:"6,keyasint,omitempty"`
	Credentials []byte  `cbor:"7,keyasint,omitempty"`
	Overlap     Overlap `cbor:"8,keyasint,omitempty"`
	// StartWithin is how late a run may be; nanoseconds. 0: however late.
	StartWithin int64 `cbor:"9,keyasint,omitempty"`
	Paused      bool  `cbor:"10,keyasint,omitempty"`
	// Next is when it is due next; Unix nanoseconds.
	Next int64 `cbor:"11,keyasint,omitempty"`
	// Last is the newest run: For which time it was due, when it came, its outcome and the reason.
	LastFor     int64         `cbor:"12,keyasint,omitempty"`
	LastAt      int64         `cbor:"13,keyasint,omitempty"`
	LastOutcome Outcome       `cbor:"14,keyasint,omitempty"`
	LastReason  reason.Reason `cbor:"15,keyasint,omitempty"`
	// LastJob is the newest job that was submitted.
	LastJob ident.Job `cbor:"16,keyasint,omitempty"`
	// How many runs had which outcome, and how many times were passed over because a later one had come.
	Started uint64 `cbor:"17,keyasint,omitempty"`
	Skipped uint64 `cbor:"18,keyasint,omitempty"`
	Missed  uint64 `cbor:"19,keyasint,omitempty"`
	Refused uint64 `cbor:"20,keyasint,omitempty"`

	CreatedAt int64  `cbor:"21,keyasint,omitempty"`
	UpdatedAt int64  `cbor:"22,keyasint,omitempty"`
	Revision  uint64 `cbor:"23,keyasint,omitempty"`
}

// Less orders keys.
func (k Key) Less(other Key) bool {
	return k.Tenant < other.Tenant || k.Tenant == other.Tenant && k.Name < other.Name
}

// Key is its name within all tenants.
func (s *Schedule) Key() Key { return Key{s.Tenant, s.Name} }

// AppendFields implements kernel.Row.
func (s *Schedule) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Text(s.Tenant).Text(s.Name).Text(s.User).Text(s.Cron).Text(s.Zone).Bytes(s.Job).Bytes(s.Credentials)
	f = f.Num(uint64(s.Overlap)).Int(s.StartWithin).Flag(s.Paused).Int(s.Next)
	f = f.Int(s.LastFor).Int(s.LastAt).Num(uint64(s.LastOutcome)).Text(string(s.LastReason)).Num(uint64(s.LastJob))
	f = f.Num(s.Started).Num(s.Skipped).Num(s.Missed).Num(s.Refused)
	return f.Int(s.CreatedAt).Int(s.UpdatedAt).Num(s.Revision)
}
