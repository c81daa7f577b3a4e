package kernel

import "fmt"

// Code says what kind of refusal this is. The numbers are those of gRPC, so that they go out unchanged.
type Code uint8

// The codes that refusals carry. Append only.
const (
	CodeInvalidArgument    Code = 3
	CodeNotFound           Code = 5
	CodeAlreadyExists      Code = 6
	CodePermissionDenied   Code = 7 // in audit records only
	CodeResourceExhausted  Code = 8
	CodeFailedPrecondition Code = 9
	CodeAborted            Code = 10
	CodeUnauthenticated    Code = 16 // in audit records only
)

// Refusal is the answer to a command that changed nothing: a replicated result, equal on all replicas, with a sentence
// that says what to do.
type Refusal struct {
	Code    Code
	Message string
	// Quota: a quota is what forbids it. Only that being raised, or something ending, changes it.
	Quota bool
}

// Error makes a Refusal usable as an error outside of this package.
func (r *Refusal) Error() string { return r.Message }

// Refuse makes a refusal.
func Refuse(code Code, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}
