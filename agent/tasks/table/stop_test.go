package table

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func TestStopRequest_noticeIsWhatIsLeftOfATimeLimit(t *testing.T) {
	for _, c := range []struct {
		why   v1.StopReason_Value
		grace time.Duration
		want  shim.StopRequest
	}{
		{v1.StopReason_TIME_LIMIT, 5 * time.Minute, shim.StopRequest{Notice: 5 * time.Minute, Term: 10 * time.Second}},
		{v1.StopReason_TIME_LIMIT, 0, shim.StopRequest{Term: 2 * time.Second}},
		{v1.StopReason_DRAIN, 5 * time.Second, shim.StopRequest{Notice: 5 * time.Second, Term: 5 * time.Second}},
		{v1.StopReason_CANCEL, 5 * time.Second, shim.StopRequest{Term: 5 * time.Second}},
		{v1.StopReason_GANG, time.Minute, shim.StopRequest{Term: 10 * time.Second}},
	} {
		require.Equal(t, c.want, stopRequest(c.why, c.grace), "%s", c.why)
	}
}
