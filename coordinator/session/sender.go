package session

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/liveness"
	"github.com/mindcoordinator/mind/fsm"
)

// Sender decides what one session sends, and in which order: first Begin, and then, whenever something may have
// changed, Acks before Orders. It does no I/O and has no clock; the coordinator drives it, and so does chaos/sim. One
// goroutine uses it.
type Sender struct {
	presence  *liveness.Presence
	orders    *OrderBook
	heartbeat uint64
	reported  uint64
}

// NewSender returns a Sender for a session that has not sent anything.
func NewSender(presence *liveness.Presence, orders *OrderBook) *Sender {
	return &Sender{presence: presence, orders: orders}
}

// Begin returns the welcome and the first orders. The first orders come before the first acknowledgement: after an
// acknowledgement the agent may launch tasks, and tasks from the orders of an earlier session may run elsewhere by now.
func (s *Sender) Begin(welcome *v1.Welcome, v *fsm.View) []*v1.SessionResponse {
	first := []*v1.SessionResponse{{Body: &v1.SessionResponse_Welcome{Welcome: welcome}}}
	if orders := s.Orders(v); orders != nil {
		first = append(first, orders)
	}
	return first
}

// Acks returns the acknowledgements that were not sent yet. reported is the number of the newest committed report.
// Later orders must come from a view that includes the report, because the agent may forget the task after the
// acknowledgement.
func (s *Sender) Acks(reported uint64) []*v1.SessionResponse {
	var acks []*v1.SessionResponse
	if heartbeat := s.presence.Renewed(); heartbeat != s.heartbeat || reported != s.reported {
		s.heartbeat, s.reported = heartbeat, reported
		acks = append(acks, &v1.SessionResponse{Body: &v1.SessionResponse_Ack{Ack: &v1.Ack{HeartbeatSeq: heartbeat, ReportSeq: reported}}})
	}
	for _, ack := range s.presence.Relayed() {
		acks = append(acks, &v1.SessionResponse{Body: &v1.SessionResponse_RelayedAck{RelayedAck: ack}})
	}
	return acks
}

// Orders returns the orders of a view for the node; nil: they have not changed.
func (s *Sender) Orders(v *fsm.View) *v1.SessionResponse {
	if orders := s.orders.Update(v); orders != nil {
		return &v1.SessionResponse{Body: &v1.SessionResponse_Orders{Orders: orders}}
	}
	return nil
}
