package scheduleverbs

import (
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/schedules"
	"github.com/mindcoordinator/mind/fsm/work/lifecycle"
)

// DeleteSchedule removes a schedule. Its jobs go on.
type DeleteSchedule struct {
	Tenant string        `cbor:"1,keyasint,omitempty"`
	Name   string        `cbor:"2,keyasint,omitempty"`
	Actor  *access.Actor `cbor:"3,keyasint,omitempty"`
}

// CommandNumber implements kernel.Command.
func (DeleteSchedule) CommandNumber() uint16 { return 49 }

func init() { verbs.Add(lifecycle.Verb("DeleteSchedule", deleteSchedule, auditDeleteSchedule)) }

func deleteSchedule(tx *lifecycle.Tx, c *DeleteSchedule) ScheduleResult {
	s, ok := schedules.Of(tx.Entry.State).Schedule(schedules.Key{Tenant: c.Tenant, Name: c.Name})
	if !ok {
		return ScheduleResult{Refusal: kernel.Refuse(kernel.CodeNotFound, reason.NoSchedule, c.Name)}
	}
	schedules.Remove(schedules.Of(tx.Entry.State), s)
	tx.Emit(event.Event{Topic: event.TopicSchedule, Tenant: s.Tenant, Name: s.Name})
	return ScheduleResult{Schedule: s}
}

var auditScheduleDelete = access.DefineAction(65, "schedule.delete", access.AboutOperation)

func auditDeleteSchedule(tx *kernel.Tx, c *DeleteSchedule, result ScheduleResult) {
	access.Record(tx, c.Actor, access.AuditRecord{Action: auditScheduleDelete, Object: c.Name}, result.Refusal)
}
