package call

import (
	"math/bits"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Job finds a job of the caller's tenant, or an element of an array. A job of another tenant is not found.
func (c *Call) Job(v *fsm.View, text string) (*work.Job, error) {
	id, ok := ident.ParseJob(text)
	if ok {
		if j, ok := v.Find(id); ok && j.Tenant == c.Tenant {
			return j, nil
		}
	}
	return nil, NotFound("job", text)
}

// Time converts a time of the state for answers; 0 is no time.
func Time(unixNanos int64) *timestamppb.Timestamp {
	if unixNanos == 0 {
		return nil
	}
	return timestamppb.New(time.Unix(0, unixNanos))
}

// GPUs returns the indices of a set of GPUs, for answers.
func GPUs(set uint64) []int32 {
	var out []int32
	for ; set != 0; set &= set - 1 {
		out = append(out, int32(bits.TrailingZeros64(set)))
	}
	return out
}
