package jobview

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
)

// A restarted job shows for each attempt where and how long it ran, and how and why it ended.
func TestPastAttempts_sayHowEachEnded(t *testing.T) {
	began := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	ended := began.Add(90 * time.Minute)
	exit := int32(137)
	j := &work.Job{Past: []work.PastAttempt{
		{
			Attempt: 1, Token: 7, Nodes: []string{"n1", "n2"}, ErrorType: v1.ErrorType_NODE_LOST, Reason: "node n2 was declared lost",
			StartedAt: began.UnixNano(), EndedAt: ended.UnixNano(), FailedNode: "n2",
		},
		{Attempt: 2, Nodes: []string{"n3"}, ExitCode: &exit, ErrorType: v1.ErrorType_OOM, Reason: "OOM: out of memory", EndedAt: ended.UnixNano()},
		{Attempt: 3, Nodes: []string{"n3"}, ErrorType: v1.ErrorType_DATA_FETCH, Reason: "no such bucket", StartedAt: ended.UnixNano() + 1, EndedAt: ended.UnixNano()},
	}}
	want := []*v1.PastAttempt{
		{
			Attempt: 1, Nodes: []string{"n1", "n2"}, ErrorType: v1.ErrorType_NODE_LOST, Reason: "node n2 was declared lost",
			StartedAt: timestamppb.New(began), FinishedAt: timestamppb.New(ended), FailedNode: "n2",
		},
		{Attempt: 2, Nodes: []string{"n3"}, ExitCode: &exit, ErrorType: v1.ErrorType_OOM, Reason: "OOM: out of memory", FinishedAt: timestamppb.New(ended)},
		{Attempt: 3, Nodes: []string{"n3"}, ErrorType: v1.ErrorType_DATA_FETCH, Reason: "no such bucket", StartedAt: timestamppb.New(ended), FinishedAt: timestamppb.New(ended)},
	}
	got := pastAttempts(j)
	require.Len(t, got, len(want))
	for i := range want {
		require.True(t, proto.Equal(want[i], got[i]), "%v", got[i])
	}
}
