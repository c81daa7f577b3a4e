package call

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/mindcoordinator/mind/fsm"
)

// Job finds a job of the caller's tenant. A job of another tenant is not found.
func (c *Call) Job(v *fsm.View, text string) (*fsm.Job, error) {
	id, ok := fsm.ParseJobID(text)
	if ok {
		if j, ok := v.Job(id); ok && j.Tenant == c.Tenant {
			return j, nil
		}
	}
	return nil, NotFound("job", text)
}

// Time is a moment of the state as an answer shows it; 0 is no moment, and shown as none.
func Time(unixNanos int64) *timestamppb.Timestamp {
	if unixNanos == 0 {
		return nil
	}
	return timestamppb.New(time.Unix(0, unixNanos))
}
