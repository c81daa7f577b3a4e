package denials

import (
	"context"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Reports configures how denials are reported to the audit log.
type Reports struct {
	// By names the component that denied the calls.
	By string
	// Every is the time between two reports, and Within limits the time of a report. Last limits the time of the last
	// report, which is made when the reporting ends; 0: there is no such report.
	Every, Within, Last time.Duration
	// Record records denials. If it fails they are lost, and Lost is called.
	Record func(ctx context.Context, told []*v1.Denial) error
	Lost   func(ctx context.Context, told []*v1.Denial, err error)
}

// Report reports the denials of the tally until ctx ends. It makes no call when there are none.
func (t *Tally) Report(ctx context.Context, r Reports) {
	ticker := time.NewTicker(r.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			if r.Last > 0 {
				t.ReportOnce(context.WithoutCancel(ctx), r, r.Last)
			}
			return
		case <-ticker.C:
			t.ReportOnce(ctx, r, r.Within)
		}
	}
}

// ReportOnce makes at most one report.
func (t *Tally) ReportOnce(ctx context.Context, r Reports, within time.Duration) {
	told := t.Take()
	if len(told) == 0 {
		return
	}
	for _, d := range told {
		d.DeniedBy = r.By
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := r.Record(ctx, told); err != nil {
		r.Lost(ctx, told, err)
	}
}
