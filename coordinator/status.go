package coordinator

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/raftnode"
)

// failure is an error for a caller: a gRPC status and, for a write, what became of it.
type failure struct {
	code    codes.Code
	message string
	outcome string
}

func (f *failure) Error() string { return f.message }

// GRPCStatus makes gRPC send the code.
func (f *failure) GRPCStatus() *grpcstatus.Status { return grpcstatus.New(f.code, f.message) }

// notSent is a call that had no effect and never will.
func notSent(format string, args ...any) error {
	return &failure{codes.Unavailable, fmt.Sprintf(format, args...), status.NotSent}
}

func outcomeOf(err error) string {
	var f *failure
	if errors.As(err, &f) {
		return f.outcome
	}
	return ""
}

// toStatus is the one place where what went wrong inside becomes what a caller sees.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	var (
		f       *failure
		many    *manyInvalid
		wrong   *invalid
		refused *fsm.Refusal
	)
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &many):
		return &failure{codes.InvalidArgument, many.Error(), ""}
	case errors.As(err, &wrong):
		return &failure{codes.InvalidArgument, wrong.Error(), ""}
	case errors.As(err, &refused):
		f = &failure{codes.Code(refused.Code), refused.Message, ""}
		if refused.Quota {
			f.outcome = status.QuotaExceeded
		}
		return f
	case errors.Is(err, raftnode.ErrBacklogFull):
		return &failure{codes.ResourceExhausted, "too many writes are waiting: try again a little later", status.NotSent}
	case errors.Is(err, raftnode.ErrCommandTooLarge):
		return &failure{codes.InvalidArgument, "the request is too large for one entry: send fewer jobs at a time", status.NotSent}
	case errors.Is(err, raftnode.ErrNotSent):
		return &failure{codes.Unavailable, "no leader took the write: " + err.Error(), status.NotSent}
	case errors.Is(err, raftnode.ErrUnknownOutcome) && errors.Is(err, context.DeadlineExceeded):
		return &failure{codes.DeadlineExceeded, "the write was not committed in time; its outcome is unknown", status.Unknown}
	case errors.Is(err, raftnode.ErrUnknownOutcome):
		return &failure{codes.Unavailable, "leadership changed during the write; its outcome is unknown", status.Unknown}
	case errors.Is(err, context.DeadlineExceeded):
		return &failure{codes.DeadlineExceeded, "time ran out", ""}
	case errors.Is(err, context.Canceled):
		return &failure{codes.Canceled, "the caller went away", ""}
	}
	if st, ok := grpcstatus.FromError(err); ok {
		return st.Err()
	}
	return &failure{codes.Internal, err.Error(), ""}
}

func notFound(what, id string) error {
	return &failure{codes.NotFound, fmt.Sprintf("there is no %s %.64s", what, id), ""}
}
