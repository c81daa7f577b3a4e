package schedules

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/schedules"
	"github.com/mindcoordinator/mind/fsm/scheduleverbs"
)

// Config configures a Service.
type Config struct {
	State     State
	Admission Admission
	// Ran is called with the outcome of each run.
	Ran func(outcome string)
	Log *slog.Logger
}

const (
	// pace is how often the leader checks whether schedules are due. The check is cheap while none is.
	pace = 200 * time.Millisecond
	// atATime bounds the runs of one command.
	atATime = 64
	// maxCounted bounds the due times that are counted one by one after a time without a leader.
	maxCounted = 1000
	// maxWhy bounds the reason of a refused job; bytes.
	maxWhy = 1024
)

// Lead runs schedules that are due, as long as this coordinator leads.
func (s *Service) Lead(ctx context.Context) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			for more := true; more && ctx.Err() == nil; {
				more = s.run(ctx, now)
			}
		}
	}
}

// run runs some of the schedules that are due. It returns false if no more are due, or if it failed.
func (s *Service) run(ctx context.Context, now time.Time) (more bool) {
	var c scheduleverbs.RunSchedules
	for row := range s.State.View().DueSchedules(now.UnixNano()) {
		if len(c.Runs) == atATime {
			more = true
			break
		}
		c.Runs = append(c.Runs, s.due(ctx, row, now))
	}
	if len(c.Runs) == 0 {
		return false
	}
	result, err := replica.Propose[scheduleverbs.RunsResult](ctx, s.State, c)
	if err != nil {
		if ctx.Err() == nil {
			s.Log.Warn("schedules that are due were not run: the next attempt follows", "schedules", len(c.Runs), "error", err)
		}
		return false
	}
	for i, r := range result.Results {
		one := &c.Runs[i]
		if r.Refusal != nil {
			continue // The schedule was changed meanwhile.
		}
		s.Ran(outcomes[r.Outcome])
		s.Log.Info("schedule was run", "tenant", one.Tenant, "schedule", one.Name, "outcome", outcomes[r.Outcome], "job", r.Job.String())
	}
	return more
}

// due returns the run for a schedule that is due.
func (s *Service) due(ctx context.Context, row *schedules.Schedule, now time.Time) scheduleverbs.Run {
	r := scheduleverbs.Run{Tenant: row.Tenant, Name: row.Name, Due: row.Next, For: row.Next}
	times, err := timesOf(row.Cron, row.Zone)
	if err != nil {
		// Another version of mind accepted the expression. By tomorrow an operator may have upgraded this one.
		r.Next, r.Refusal = now.Add(24*time.Hour).UnixNano(), why(err)
		return r
	}
	newest, passed := times.Newest(time.Unix(0, row.Next), now, maxCounted)
	r.For, r.Passed = newest.UnixNano(), passed
	next := times.Next(now)
	if next.IsZero() {
		next = now.AddDate(10, 0, 0)
	}
	r.Next = next.UnixNano()
	job, err := s.job(ctx, row, newest)
	if err != nil {
		r.Refusal = why(err)
		return r
	}
	r.Job = &job
	return r
}

// why returns the reason of a refused job, for the state.
func why(err error) reason.Reason {
	var f *call.Failure
	if errors.As(call.ToStatus(err), &f) {
		return reason.Text(call.Clip(f.Message, maxWhy))
	}
	return reason.Text(call.Clip(err.Error(), maxWhy))
}
