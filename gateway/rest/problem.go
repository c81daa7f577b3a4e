package rest

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/mindcoordinator/mind/gateway/wire"
)

// Problem is an answer that is an error.
type Problem struct {
	HTTP       int    // the status
	Code       string // error.code
	Message    string
	Details    []wire.Fault
	RetryAfter int // seconds; 0: none
	// Reason is the label under which a denial is counted; empty: the code.
	Reason string
	// More has further members of an error without an envelope: JSON, each with a comma before it.
	More []byte
	// Coordinators: the coordinators refused the request, and recorded that themselves.
	Coordinators bool
}

func (p *Problem) Error() string { return p.Code + ": " + p.Message }

// Invalid returns a 422 about one field, parameter or header.
func Invalid(field, message string) *Problem {
	return InvalidBody([]wire.Fault{{Field: field, Message: message}})
}

// InvalidBody returns a 422 about some fields, of which there is at least one.
func InvalidBody(faults []wire.Fault) *Problem {
	message := faults[0].Message
	if faults[0].Field != "" {
		message = faults[0].Field + ": " + message
	}
	if n := len(faults); n > 1 {
		message += " (and " + strconv.Itoa(n-1) + " more)"
	}
	return &Problem{HTTP: http.StatusUnprocessableEntity, Code: "VALIDATION_ERROR", Message: message, Details: faults}
}

// Conflict returns a 409: the state of something does not allow the request.
func Conflict(message string) *Problem {
	return &Problem{HTTP: http.StatusConflict, Code: "FAILED_PRECONDITION", Message: message}
}

// Append writes the problem as the member error of an answer.
func (p *Problem) Append(b []byte) []byte {
	return p.appendFaults(wire.AppendString(append(b, `{"code":`...), p.Code))
}

// appendBare writes an error as ScaiFlow published it: its codes are in lower case.
func (p *Problem) appendBare(b []byte) []byte {
	b = wire.AppendString(append(b, `{"error":`...), strings.ToLower(p.Code))
	if len(p.More) == 0 {
		return p.appendFaults(b)
	}
	b = p.appendFaults(b)
	return append(append(b[:len(b)-1], p.More...), '}')
}

// appendFaults completes an error after its code.
func (p *Problem) appendFaults(b []byte) []byte {
	b = append(b, `,"message":`...)
	b = wire.AppendString(b, p.Message)
	if len(p.Details) > 0 {
		b = append(b, `,"details":[`...)
		for i, f := range p.Details {
			if i > 0 {
				b = append(b, ',')
			}
			if f.Field == "" {
				f.Field = "body"
			}
			b = append(b, `{"field":`...)
			b = wire.AppendString(b, f.Field)
			b = append(b, `,"message":`...)
			b = wire.AppendString(b, f.Message)
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	if p.RetryAfter > 0 {
		b = append(b, `,"retry_after":`...)
		b = strconv.AppendInt(b, int64(p.RetryAfter), 10)
	}
	return append(b, '}')
}
