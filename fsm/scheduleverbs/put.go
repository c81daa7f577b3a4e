package scheduleverbs

import (
	"fmt"

	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/schedules"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// PutSchedule makes a schedule, or changes one. The figures of its runs stay.
type PutSchedule struct {
	Tenant      string            `cbor:"1,keyasint,omitempty"`
	Name        string            `cbor:"2,keyasint,omitempty"`
	User        string            `cbor:"3,keyasint,omitempty"`
	Cron        string            `cbor:"4,keyasint,omitempty"`
	Zone        string            `cbor:"5,keyasint,omitempty"`
	Job         []byte            `cbor:"6,keyasint,omitempty"`
	Credentials []byte            `cbor:"7,keyasint,omitempty"`
	Overlap     schedules.Overlap `cbor:"8,keyasint,omitempty"`
	StartWithin int64             `cbor:"9,keyasint,omitempty"`
	Paused      bool              `cbor:"10,keyasint,omitempty"`
	Next        int64             `cbor:"11,keyasint,omitempty"`
	// IfRevision is the revision of the schedule that the change was made from; 0: whatever there is.
	IfRevision uint64 `cbor:"12,keyasint,omitempty"`
	// Note is the message of the change in the audit log.
	Note  string        `cbor:"13,keyasint,omitempty"`
	Actor *access.Actor `cbor:"14,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (PutSchedule) CommandNumber() uint16 { return 48 }

func init() { verbs.Add(lifecycle.Verb("PutSchedule", putSchedule, auditPutSchedule)) }

// ScheduleResult is the schedule as it was put, or why nothing was done.
type ScheduleResult struct {
	Schedule *schedules.Schedule
	Refusal  *kernel.Refusal
}

func putSchedule(tx *lifecycle.Tx, c *PutSchedule) ScheduleResult {
	if err := c.Validate(); err != nil {
		return ScheduleResult{Refusal: kernel.Refuse(kernel.CodeInvalidArgument, reason.BadSchedule, err.Error())}
	}
	s := &schedules.Schedule{Tenant: tx.Entry.Intern(c.Tenant), Name: c.Name, CreatedAt: tx.Now}
	if old, there := schedules.Of(tx.Entry.State).Schedule(s.Key()); there {
		if c.IfRevision != 0 && c.IfRevision != old.Revision || c.Next <= old.LastFor {
			return ScheduleResult{Refusal: kernel.Refuse(kernel.CodeAborted, reason.ScheduleChanged, c.Name)}
		}
		kept := *old
		s = &kept
	} else if r := roomForSchedule(tx, c); r != nil {
		return ScheduleResult{Refusal: r}
	}
	s.User, s.Cron, s.Zone, s.Job, s.Credentials = c.User, c.Cron, c.Zone, c.Job, c.Credentials
	s.Overlap, s.StartWithin, s.Paused, s.Next = c.Overlap, c.StartWithin, c.Paused, c.Next
	s.UpdatedAt, s.Revision = tx.Now, tx.Index
	saveSchedule(tx, s)
	return ScheduleResult{Schedule: s}
}

// roomForSchedule says why there can be no new schedule.
func roomForSchedule(tx *lifecycle.Tx, c *PutSchedule) *kernel.Refusal {
	if c.IfRevision != 0 {
		return kernel.Refuse(kernel.CodeNotFound, reason.NoSchedule, c.Name)
	}
	if schedules.Of(tx.Entry.State).ScheduleCount() >= schedules.Max {
		return kernel.Refuse(kernel.CodeResourceExhausted, reason.TooManySchedules, schedules.Max)
	}
	mine := 0
	for range schedules.Of(tx.Entry.State).Schedules(c.Tenant) {
		mine++
	}
	if mine >= schedules.MaxOfTenant {
		return kernel.Refuse(kernel.CodeResourceExhausted, reason.TooManySchedulesOfTenant, schedules.MaxOfTenant)
	}
	return nil
}

func saveSchedule(tx *lifecycle.Tx, s *schedules.Schedule) {
	schedules.Add(schedules.Of(tx.Entry.State), s)
	tx.Emit(event.Event{Topic: event.TopicSchedule, Tenant: s.Tenant, Name: s.Name})
}

// Validate says what is wrong with the command itself, whatever the state is.
func (c *PutSchedule) Validate() error {
	for _, text := range []string{c.Tenant, c.User, c.Cron, c.Zone} {
		if len(text) > schedules.MaxText {
			return fmt.Errorf("a text has %d bytes, and at most %d are kept", len(text), schedules.MaxText)
		}
	}
	switch {
	case c.Name == "" || len(c.Name) > schedules.MaxName:
		return fmt.Errorf("its name has %d bytes, and 1 to %d are allowed", len(c.Name), schedules.MaxName)
	case c.Tenant == "":
		return fmt.Errorf("it is of no tenant")
	case c.Cron == "" || c.Next <= 0:
		return fmt.Errorf("it is never due")
	case len(c.Job) == 0 || len(c.Job) > schedules.MaxJob:
		return fmt.Errorf("its job has %d bytes, and 1 to %d are allowed", len(c.Job), schedules.MaxJob)
	case len(c.Credentials) > schedules.MaxCredentials:
		return fmt.Errorf("its credentials have %d bytes, and at most %d are kept", len(c.Credentials), schedules.MaxCredentials)
	case c.Overlap < schedules.Skip || c.Overlap > schedules.Replace:
		return fmt.Errorf("%d is no way to overlap", c.Overlap)
	case c.StartWithin < 0 || c.StartWithin > work.MaxDuration:
		return fmt.Errorf("it may start within %d ns", c.StartWithin)
	}
	return nil
}

var auditSchedulePut = access.DefineAction(64, "schedule.put", access.AboutOperation)

func auditPutSchedule(tx *kernel.Tx, c *PutSchedule, result ScheduleResult) {
	r := access.AuditRecord{Action: auditSchedulePut, Object: c.Name, Message: reason.Text(c.Note)}
	access.Record(tx, c.Actor, r, result.Refusal)
}
