package coordinator

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/mindcoordinator/mind/coordinator/call"
)

func timestamp(unixNanos int64) *timestamppb.Timestamp { return call.Time(unixNanos) }
