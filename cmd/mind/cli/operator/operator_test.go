package operator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestExplain_saysWhatToDo(t *testing.T) {
	o := &Flags{Timeout: 10 * time.Second}
	for code, want := range map[codes.Code]string{
		codes.Unauthenticated: "MIND_API_SECRET", codes.PermissionDenied: "--cert", codes.Unavailable: "check that a majority of them runs", codes.DeadlineExceeded: "10s",
	} {
		require.ErrorContains(t, o.Explain(status.Error(code, "no")), want)
	}
	require.EqualError(t, o.Explain(status.Error(codes.NotFound, "there is no peer x")), "there is no peer x")
}
