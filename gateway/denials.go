package gateway

import (
	"context"
	"log/slog"
	"time"

	"github.com/mindcoordinator/mind/api/client"
	"github.com/mindcoordinator/mind/api/denials"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Time limits of a call that reports denials, and of the last one, for which the shutdown waits.
const (
	tellDenialsWithin     = 10 * time.Second
	tellLastDenialsWithin = time.Second
)

// reports returns the settings for reporting denied requests to the coordinators: periodically, and once more at the
// end. Denials that cannot be reported are missing in the audit log; the gateway's own log says so.
func (s *server) reports() denials.Reports {
	return denials.Reports{
		By: "gateway", Every: s.Timeouts.Denials, Within: tellDenialsWithin, Last: tellLastDenialsWithin,
		Record: func(ctx context.Context, told []*v1.Denial) error {
			until, _ := ctx.Deadline()
			_, err := s.audit.RecordDenials(client.WithCall(ctx, client.Call{RetryFor: time.Until(until)}), &v1.RecordDenialsRequest{Denials: told})
			return err
		},
		Lost: func(ctx context.Context, told []*v1.Denial, err error) {
			var count int64
			for _, d := range told {
				count += d.GetCount()
			}
			s.Log.LogAttrs(ctx, slog.LevelError, "denied requests are not in the audit log", slog.String("event", "scaimind_coordinator_error"),
				slog.Int64("count", count), slog.String("raw_detail", err.Error()))
		},
	}
}
