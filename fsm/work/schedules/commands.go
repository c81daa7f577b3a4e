package schedules

import (
	"fmt"

	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Put makes a schedule, or changes one. What is known of its runs stays.
type Put struct {
	Tenant      string  `cbor:"1,keyasint,omitempty"`
	Name        string  `cbor:"2,keyasint,omitempty"`
	User        string  `cbor:"3,keyasint,omitempty"`
	Cron        string  `cbor:"4,keyasint,omitempty"`
	Zone        string  `cbor:"5,keyasint,omitempty"`
	Job         []byte  `cbor:"6,keyasint,omitempty"`
	Credentials []byte  `cbor:"7,keyasint,omitempty"`
	Overlap     Overlap `cbor:"8,keyasint,omitempty"`
	StartWithin int64   `cbor:"9,keyasint,omitempty"`
	Paused      bool    `cbor:"10,keyasint,omitempty"`
	Next        int64   `cbor:"11,keyasint,omitempty"`
	// IfRevision is the revision of the schedule that the change was made from; 0: whatever there is.
	IfRevision uint64 `cbor:"12,keyasint,omitempty"`
	// Note is what the audit log says of the change.
	Note  string        `cbor:"13,keyasint,omitempty"`
	Actor *access.Actor `cbor:"14,keyasint,omitempty"`
}

// Delete removes a schedule. Its jobs go on.
type Delete struct {
	Tenant string        `cbor:"1,keyasint,omitempty"`
	Name   string        `cbor:"2,keyasint,omitempty"`
	Actor  *access.Actor `cbor:"3,keyasint,omitempty"`
}

// Result is the schedule as it was put, or why nothing was done.
type Result struct {
	Schedule *Schedule
	Refusal  *kernel.Refusal
}

// RunSchedules runs schedules that are due, each for itself.
type RunSchedules struct {
	Runs []Run `cbor:"1,keyasint,omitempty"`
	// Actor is who runs a schedule by hand.
	Actor *access.Actor `cbor:"2,keyasint,omitempty"`
}

// Run is one run of a schedule.
type Run struct {
	Tenant string `cbor:"1,keyasint,omitempty"`
	Name   string `cbor:"2,keyasint,omitempty"`
	// Due is when the schedule is due, as the leader saw it; 0: it is run by hand, and is due as before.
	Due int64 `cbor:"3,keyasint,omitempty"`
	// For is the newest time at which it was due, and Passed is how many there were from Due to before it.
	For    int64  `cbor:"4,keyasint,omitempty"`
	Passed uint64 `cbor:"5,keyasint,omitempty"`
	// Next is when it is due after For.
	Next int64 `cbor:"6,keyasint,omitempty"`
	// Job is what it submits; nil: Refusal says why there is none. Its tenant, user and credentials are those of the schedule.
	Job     *work.NewJob  `cbor:"7,keyasint,omitempty"`
	Refusal reason.Reason `cbor:"8,keyasint,omitempty"`
}

// RunsResult has one result per run, in order.
type RunsResult struct {
	Results []RunResult
}

// RunResult is what became of a run. With a Refusal it is no run, and has changed nothing.
type RunResult struct {
	Outcome Outcome
	Job     ident.Job
	Refusal *kernel.Refusal
}

// CommandNumber implements kernel.Command.
func (Put) CommandNumber() uint16 { return 48 }

// CommandNumber implements kernel.Command.
func (Delete) CommandNumber() uint16 { return 49 }

// CommandNumber implements kernel.Command.
func (RunSchedules) CommandNumber() uint16 { return 50 }

// Validate says what is wrong with the command itself, whatever the state is.
func (c *Put) Validate() error {
	for _, text := range []string{c.Tenant, c.User, c.Cron, c.Zone} {
		if len(text) > MaxText {
			return fmt.Errorf("a text has %d bytes, and at most %d are kept", len(text), MaxText)
		}
	}
	switch {
	case c.Name == "" || len(c.Name) > MaxName:
		return fmt.Errorf("its name has %d bytes, and 1 to %d are allowed", len(c.Name), MaxName)
	case c.Tenant == "":
		return fmt.Errorf("it is of no tenant")
	case c.Cron == "" || c.Next <= 0:
		return fmt.Errorf("it is never due")
	case len(c.Job) == 0 || len(c.Job) > MaxJob:
		return fmt.Errorf("its job has %d bytes, and 1 to %d are allowed", len(c.Job), MaxJob)
	case len(c.Credentials) > MaxCredentials:
		return fmt.Errorf("its credentials have %d bytes, and at most %d are kept", len(c.Credentials), MaxCredentials)
	case c.Overlap < Skip || c.Overlap > Replace:
		return fmt.Errorf("%d is no way to overlap", c.Overlap)
	case c.StartWithin < 0 || c.StartWithin > work.MaxDuration:
		return fmt.Errorf("it may start within %d ns", c.StartWithin)
	}
	return nil
}
