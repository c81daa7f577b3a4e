package denials

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func TestReport(t *testing.T) {
	ann := Denial{Tenant: "acme", User: "ann", Outcome: "PERMISSION_DENIED"}
	for name, last := range map[string]time.Duration{"with a last report": time.Second, "without": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tally Tally
				var calls, lost []*v1.Denial
				var limits []time.Duration
				var fails error
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					tally.Report(ctx, Reports{
						By: "agent n1", Every: 5 * time.Second, Within: time.Minute, Last: last,
						Record: func(ctx context.Context, told []*v1.Denial) error {
							require.NoError(t, ctx.Err())
							until, _ := ctx.Deadline()
							limits = append(limits, time.Until(until))
							calls = append(calls, told...)
							return fails
						},
						Lost: func(_ context.Context, told []*v1.Denial, err error) {
							require.ErrorIs(t, err, fails)
							lost = append(lost, told...)
						},
					})
				}()
				pass := func() {
					time.Sleep(5 * time.Second)
					synctest.Wait()
				}
				pass()
				require.Empty(t, calls, "there is nothing to report")
				tally.Note(ann, "", time.Now())
				tally.Note(ann, "", time.Now())
				pass()
				pass()
				require.Len(t, calls, 1, "each is reported once")
				require.Equal(t, "agent n1", calls[0].GetDeniedBy())
				require.EqualValues(t, 2, calls[0].GetCount())
				require.Empty(t, lost)
				fails = errors.New("no leader")
				tally.Note(ann, "", time.Now())
				pass()
				pass()
				require.Len(t, calls, 2, "what could not be recorded is not tried again")
				require.Len(t, lost, 1)
				tally.Note(ann, "", time.Now())
				stop()
				<-done
				want := []time.Duration{time.Minute, time.Minute}
				if last > 0 {
					want = append(want, last)
				}
				require.Equal(t, want, limits)
				require.Len(t, calls, len(want))
			})
		})
	}
}
