package admin

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
)

// ListFailovers lists the newest terms. The jobs that they cost are of all tenants, and so for operators alone.
func (s *Service) ListFailovers(ctx context.Context, _ *v1.ListFailoversRequest) (*v1.ListFailoversResponse, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	out := &v1.ListFailoversResponse{}
	for t := range v.Terms() {
		row := &v1.Failover{
			Term: t.Number, Leader: t.Leader, PreviousLeader: t.Previous, Index: t.Index, At: call.Time(t.At),
		}
		if call.Of(ctx).Operator {
			row.JobsRunning, row.JobsHarmed = proto.Int32(int32(t.Live)), proto.Int32(int32(t.Harmed))
		}
		if t.Gap > 0 {
			row.StoodStillSeconds = proto.Float64(time.Duration(t.Gap).Seconds())
		}
		out.Failovers = append(out.Failovers, row)
	}
	return out, nil
}
