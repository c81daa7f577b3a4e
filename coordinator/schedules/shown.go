package schedules

import (
	"time"

	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm/schedules"
)

var (
	overlaps = map[schedules.Overlap]string{schedules.Skip: "skip", schedules.Allow: "allow", schedules.Replace: "replace"}
	outcomes = map[schedules.Outcome]string{
		schedules.Started: "STARTED", schedules.Skipped: "SKIPPED", schedules.Missed: "MISSED", schedules.Refused: "REFUSED",
	}
)

// ahead is the number of due times after the next one that are shown.
const ahead = 3

// shown returns a schedule as its tenant sees it in a list.
func shown(s *schedules.Schedule) *v1.Schedule {
	out := &v1.Schedule{
		Name: s.Name, UserId: s.User, Cron: s.Cron, Timezone: s.Zone, Overlap: overlaps[s.Overlap],
		StartWithinSeconds: int32(s.StartWithin / int64(time.Second)), Paused: s.Paused,
		Started: int64(s.Started), Skipped: int64(s.Skipped), Missed: int64(s.Missed), Refused: int64(s.Refused),
		CreatedAt: call.Time(s.CreatedAt), UpdatedAt: call.Time(s.UpdatedAt),
	}
	if s.LastOutcome != 0 {
		out.LastRun = &v1.ScheduleRun{Outcome: outcomes[s.LastOutcome], Reason: words.Of(s.LastReason), At: call.Time(s.LastAt)}
	}
	if s.LastJob != 0 {
		out.LastJobId = s.LastJob.String()
	}
	if !s.Paused {
		out.NextRunAt = call.Time(s.Next)
	}
	return out
}

// whole returns a schedule with its job and its next due times.
func whole(s *schedules.Schedule) *v1.Schedule {
	out := shown(s)
	out.Job = &v1.SubmitJobRequest{}
	if proto.Unmarshal(s.Job, out.Job) != nil {
		out.Job = nil
	}
	if times, err := timesOf(s.Cron, s.Zone); err == nil && !s.Paused {
		for at := time.Unix(0, s.Next); len(out.Upcoming) < ahead; {
			if at = times.Next(at); at.IsZero() {
				break
			}
			out.Upcoming = append(out.Upcoming, call.Time(at.UnixNano()))
		}
	}
	return out
}
