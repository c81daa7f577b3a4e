package session

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/liveness"
	"github.com/mindcoordinator/mind/fsm"
)

// Sender decides what one session sends, and in which order: Begin, and then, whenever there may be news, Acks before Orders.
// It does no I/O and has no clock; the coordinator drives it, and so does chaos/sim. One goroutine uses it.
type Sender struct {
	presence  *liveness.Presence
	orders    *OrderBook
	heartbeat uint64
	reported  uint64
}

// NewSender is for a session that has not sent anything.
func NewSender(presence *liveness.Presence, orders *OrderBook) *Sender {
	return &Sender{presence: presence, orders: orders}
}

// Begin is the welcome and the first orders. The first orders go before the first acknowledgement: with that the agent may
// launch what it was ordered in an earlier session, and some of it may be at work elsewhere by now.
func (s *Sender) Begin(welcome *v1.Welcome, v *fsm.View) []*v1.SessionResponse {
	first := []*v1.SessionResponse{{Body: &v1.SessionResponse_Welcome{Welcome: welcome}}}
	if orders := s.Orders(v); orders != nil {
		first = append(first, orders)
	}
	return first
}

// Acks acknowledges what was not acknowledged yet: reported is the number of the newest report that is committed. The orders
// that follow must be of a view that holds the report: an agent that was told may forget the task.
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

// Orders is what a view wants of the node; nil: nothing new.
func (s *Sender) Orders(v *fsm.View) *v1.SessionResponse {
	if orders := s.orders.Update(v); orders != nil {
		return &v1.SessionResponse{Body: &v1.SessionResponse_Orders{Orders: orders}}
	}
	return nil
}
