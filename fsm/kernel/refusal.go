package kernel

import "github.com/mindcoordinator/mind/fsm/reason"

// Code says what kind of refusal this is. The numbers are those of gRPC, so that they go out unchanged.
type Code uint8

// The codes that refusals carry. Append only.
const (
	CodeInvalidArgument    Code = 3
	CodeNotFound           Code = 5
	CodeAlreadyExists      Code = 6
	CodePermissionDenied   Code = 7
	CodeResourceExhausted  Code = 8
	CodeFailedPrecondition Code = 9
	CodeAborted            Code = 10
	CodeUnauthenticated    Code = 16 // in audit records only
)

// Refusal is the answer to a command that changed nothing: a replicated result, equal on all replicas. Callers are told the
// reason in words, which say what to do.
type Refusal struct {
	Code   Code
	Reason reason.Reason
	// Quota: a quota forbids it. Only that being raised, or something ending, changes it.
	Quota bool
}

// Refuse makes a refusal; args are the parameters of the reason.
func Refuse(code Code, why reason.Code, args ...any) *Refusal {
	return &Refusal{Code: code, Reason: reason.New(why, args...)}
}
