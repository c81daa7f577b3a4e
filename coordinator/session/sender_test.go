package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/liveness"
	"github.com/mindcoordinator/mind/fsm"
)

func TestSender_sendsWhatIsNewAndTheOrdersFirst(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	term := liveness.NewTerm(5*time.Second, now)
	presence := term.Enter("n1", now, func() {})
	view := fsm.New().View()
	s := NewSender(presence, NewOrderBook("n1", func(*fsm.View, *v1.SubmitJobRequest) *v1.Launcher { return nil }, nil))

	first := s.Begin(&v1.Welcome{Term: 7}, view)
	require.Len(t, first, 2)
	require.EqualValues(t, 7, first[0].GetWelcome().GetTerm())
	require.NotNil(t, first[1].GetOrders(), "before any acknowledgement")
	require.Nil(t, s.Orders(view), "once")

	presence.Beat(3, now)
	require.Empty(t, s.Acks(0), "nothing is proven yet")
	term.Round(nil).Confirm()
	acks := s.Acks(0)
	require.Len(t, acks, 1)
	require.EqualValues(t, 3, acks[0].GetAck().GetHeartbeatSeq())
	require.Empty(t, s.Acks(0))
	acks = s.Acks(12)
	require.Len(t, acks, 1)
	require.EqualValues(t, 3, acks[0].GetAck().GetHeartbeatSeq())
	require.EqualValues(t, 12, acks[0].GetAck().GetReportSeq())
}
