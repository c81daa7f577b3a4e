package call

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/raftnode"
)

// Failure is an error for a caller: a gRPC status and, for a write, its outcome.
type Failure struct {
	Code    codes.Code
	Message string
	Outcome string
}

func (f *Failure) Error() string { return f.Message }

// GRPCStatus makes gRPC send the code.
func (f *Failure) GRPCStatus() *grpcstatus.Status { return grpcstatus.New(f.Code, f.Message) }

// Errorf returns a failure without an outcome.
func Errorf(code codes.Code, format string, args ...any) error {
	return &Failure{Code: code, Message: fmt.Sprintf(format, args...)}
}

// NotSent returns the failure of a call that had no effect and never will.
func NotSent(format string, args ...any) error {
	return &Failure{codes.Unavailable, fmt.Sprintf(format, args...), status.NotSent}
}

// NodeSilent returns the failure of a read that needs a node which does not answer. The text is for the caller.
func NodeSilent(format string, args ...any) error {
	return &Failure{codes.Unavailable, fmt.Sprintf(format, args...), status.NodeSilent}
}

// Refused returns the failure for a refusal of the state, in words.
func Refused(r *kernel.Refusal) *Failure {
	f := &Failure{Code: codes.Code(r.Code), Message: words.Of(r.Reason)}
	if f.Code == codes.Aborted {
		// Something was changed meanwhile. The published table of errors shows users ABORTED as an internal error.
		f.Code = codes.FailedPrecondition
	}
	if r.Quota {
		f.Outcome = status.QuotaExceeded
	}
	return f
}

func OutcomeOf(err error) string {
	var f *Failure
	if errors.As(err, &f) {
		return f.Outcome
	}
	return ""
}

// ToStatus translates an internal error into the error that callers see. It is the only place that does so.
func ToStatus(err error) error {
	if err == nil {
		return nil
	}
	var (
		f      *Failure
		many   *ManyInvalid
		wrong  *Invalid
		locked *level.Locked
	)
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &many):
		return Errorf(codes.InvalidArgument, "%s", many.Error())
	case errors.As(err, &wrong):
		return Errorf(codes.InvalidArgument, "%s", wrong.Error())
	case errors.As(err, &locked):
		return Errorf(codes.FailedPrecondition, "%s", locked.Error())
	case errors.Is(err, raftnode.ErrBacklogFull):
		return &Failure{codes.ResourceExhausted, "too many writes are waiting: try again a little later", status.NotSent}
	case errors.Is(err, raftnode.ErrCommandTooLarge):
		return &Failure{codes.InvalidArgument, "the request is too large for one entry: send fewer jobs at a time", status.NotSent}
	case errors.Is(err, raftnode.ErrNotSent):
		return &Failure{codes.Unavailable, "no leader accepted the write: " + err.Error(), status.NotSent}
	case errors.Is(err, raftnode.ErrUnknownOutcome) && errors.Is(err, context.DeadlineExceeded):
		return &Failure{codes.DeadlineExceeded, "the write was not committed in time; its outcome is unknown", status.Unknown}
	case errors.Is(err, raftnode.ErrUnknownOutcome):
		return &Failure{codes.Unavailable, "leadership changed during the write; its outcome is unknown", status.Unknown}
	case errors.Is(err, context.DeadlineExceeded):
		return Errorf(codes.DeadlineExceeded, "the call's time limit was reached")
	case errors.Is(err, context.Canceled):
		return Errorf(codes.Canceled, "the caller canceled the call")
	}
	if st, ok := grpcstatus.FromError(err); ok {
		return st.Err()
	}
	return Errorf(codes.Internal, "%s", err.Error())
}

func NotFound(what, id string) error {
	return Errorf(codes.NotFound, "there is no %s %.64s", what, id)
}

// MayRepeat reports whether a failed write had no effect, and may succeed elsewhere. A full backlog is no reason for an
// immediate retry.
func MayRepeat(err error) bool {
	err = ToStatus(err)
	return OutcomeOf(err) == status.NotSent && grpcstatus.Code(err) == codes.Unavailable
}
