package status

import (
	"net/http"

	"google.golang.org/grpc/codes"
)

// Policy says how REST callers see the text of a coordinator's error.
type Policy int

const (
	// Pass shows the text, which was written for the caller.
	Pass Policy = iota
	// Sanitise replaces the text, because it may contain internals. The original goes to the log.
	Sanitise
	// Friendly replaces the text by one for the caller; the gateway adds what to do, which depends on the request. The
	// original goes to the log.
	Friendly
)

// Error is the REST form of a gRPC code.
type Error struct {
	HTTP   int
	Code   string // error.code of the envelope
	Policy Policy
	// Message replaces the text unless Policy is Pass.
	Message string
}

var internal = Error{
	http.StatusInternalServerError, "INTERNAL", Sanitise,
	"internal error; the gateway's log has the details under the request id",
}

// errors is the table that ScaiMind published. Other codes are answered like INTERNAL, which reveals nothing.
var errors = map[codes.Code]Error{
	codes.OK:                 {http.StatusOK, "OK", Pass, ""},
	codes.InvalidArgument:    {http.StatusBadRequest, "INVALID_ARGUMENT", Pass, ""},
	codes.Unauthenticated:    {http.StatusUnauthorized, "UNAUTHENTICATED", Pass, ""},
	codes.PermissionDenied:   {http.StatusForbidden, "PERMISSION_DENIED", Pass, ""},
	codes.NotFound:           {http.StatusNotFound, "NOT_FOUND", Pass, ""},
	codes.AlreadyExists:      {http.StatusConflict, "ALREADY_EXISTS", Pass, ""},
	codes.FailedPrecondition: {http.StatusConflict, "FAILED_PRECONDITION", Pass, ""},
	codes.ResourceExhausted:  {http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", Pass, ""},
	codes.Unavailable: {
		http.StatusServiceUnavailable, "UNAVAILABLE", Friendly,
		"no coordinator can accept this now: there is no leader, or none can be reached",
	},
	codes.DeadlineExceeded: {
		http.StatusGatewayTimeout, "DEADLINE_EXCEEDED", Friendly,
		"the coordinators did not answer in time",
	},
	codes.Internal:      internal,
	codes.Unknown:       internal,
	codes.Canceled:      internal,
	codes.Aborted:       internal,
	codes.OutOfRange:    internal,
	codes.Unimplemented: internal,
	codes.DataLoss:      internal,
}

// quotaExceeded is the REST form of RESOURCE_EXHAUSTED with the outcome QuotaExceeded.
var quotaExceeded = Error{http.StatusTooManyRequests, "QUOTA_EXCEEDED", Pass, ""}

// nodeSilent is the REST form of UNAVAILABLE with the outcome NodeSilent.
var nodeSilent = Error{http.StatusServiceUnavailable, "NODE_UNAVAILABLE", Pass, ""}

// OfOutcome returns the REST form of a gRPC code with its outcome.
func OfOutcome(c codes.Code, outcome string) Error {
	if c == codes.ResourceExhausted && outcome == QuotaExceeded {
		return quotaExceeded
	}
	if c == codes.Unavailable && outcome == NodeSilent {
		return nodeSilent
	}
	return OfCode(c)
}

// OfCode returns the REST form of a gRPC code. An unknown code becomes INTERNAL.
func OfCode(c codes.Code) Error {
	if e, ok := errors[c]; ok {
		return e
	}
	return internal
}
