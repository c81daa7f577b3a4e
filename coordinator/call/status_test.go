package call_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/raftnode"
)

func TestToStatus_everythingThatGoesWrong(t *testing.T) {
	for name, tt := range map[string]struct {
		err     error
		code    codes.Code
		outcome string
	}{
		"bad request":          {call.Bad("field", "is wrong"), codes.InvalidArgument, ""},
		"refused":              {call.Refused(kernel.Refuse(kernel.CodeFailedPrecondition, reason.RetryPaused, "job_1")), codes.FailedPrecondition, ""},
		"changed meanwhile":    {call.Refused(kernel.Refuse(kernel.CodeAborted, reason.JobChanged, "job_1")), codes.FailedPrecondition, ""},
		"not found":            {call.Refused(kernel.Refuse(kernel.CodeNotFound, reason.NoJob, "job_1")), codes.NotFound, ""},
		"beyond a quota":       {call.Refused(&kernel.Refusal{Code: kernel.CodeResourceExhausted, Quota: true}), codes.ResourceExhausted, status.QuotaExceeded},
		"not the leader":       {&raftnode.NotLeaderError{LeaderID: "c2"}, codes.Unavailable, status.NotSent},
		"backlog full":         {raftnode.ErrBacklogFull, codes.ResourceExhausted, status.NotSent},
		"too large":            {raftnode.ErrCommandTooLarge, codes.InvalidArgument, status.NotSent},
		"stopped":              {raftnode.ErrStopped, codes.Unavailable, status.NotSent},
		"canceled before":      {fmt.Errorf("%w: %w", raftnode.ErrNotSent, context.Canceled), codes.Unavailable, status.NotSent},
		"leadership lost":      {raftnode.ErrUnknownOutcome, codes.Unavailable, status.Unknown},
		"time ran out after":   {fmt.Errorf("%w: %w", raftnode.ErrUnknownOutcome, context.DeadlineExceeded), codes.DeadlineExceeded, status.Unknown},
		"caller gone after":    {fmt.Errorf("%w: %w", raftnode.ErrUnknownOutcome, context.Canceled), codes.Unavailable, status.Unknown},
		"time ran out, a read": {context.DeadlineExceeded, codes.DeadlineExceeded, ""},
		"caller gone":          {context.Canceled, codes.Canceled, ""},
		"no leader":            {call.NotSent("no leader"), codes.Unavailable, status.NotSent},
		"status of an agent":   {grpcstatus.Error(codes.NotFound, "no log"), codes.NotFound, ""},
		"anything else":        {errors.New("boom"), codes.Internal, ""},
		"nothing":              {nil, codes.OK, ""},
		"wrapped":              {fmt.Errorf("proposing: %w", raftnode.ErrBacklogFull), codes.ResourceExhausted, status.NotSent},
	} {
		t.Run(name, func(t *testing.T) {
			err := call.ToStatus(tt.err)
			require.Equal(t, tt.code, grpcstatus.Code(err))
			require.Equal(t, tt.outcome, call.OutcomeOf(err))
		})
	}
}
