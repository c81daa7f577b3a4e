package coordinator

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func (c *cluster) schedules(id string) v1.ScheduleServiceClient {
	return v1.NewScheduleServiceClient(c.members[id].conn)
}

func (c *cluster) scheduled(id, name string) *v1.Schedule {
	got, err := c.schedules(id).GetSchedule(c.ctx("t1", ""), &v1.GetScheduleRequest{Name: name})
	require.NoError(c.t, err)
	return got.GetSchedule()
}

// jobsOfSchedule lists the jobs that a schedule has submitted, the oldest first.
func (c *cluster) jobsOfSchedule(id, name string) []*v1.Job {
	list, err := c.jobs(id).ListJobs(c.ctx("t1", ""), &v1.ListJobsRequest{Label: []string{"schedule=" + name}, PageSize: 100, OrderBy: "created_at"})
	require.NoError(c.t, err)
	return list.GetJobs()
}

// Leaders die while a schedule is due each minute: each minute has exactly one job.
func TestSchedules_outliveLeaders(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		c.agent("n1", 4)
		at := c.follower()
		put, err := c.schedules(at).PutSchedule(c.ctx("t1", ""), &v1.PutScheduleRequest{
			Name: "each-minute", Cron: "* * * * *", Overlap: "allow", Job: &v1.SubmitJobRequest{CommandConfig: &v1.CommandConfig{Argv: []string{"true"}, Cwd: "/"}},
		})
		require.NoError(t, err)
		first := put.GetSchedule()
		require.Equal(t, []string{"UTC", "allow"}, []string{first.GetTimezone(), first.GetOverlap()})
		require.Len(t, first.GetUpcoming(), 3)
		from := first.GetNextRunAt().AsTime()

		for minute := range 4 {
			time.Sleep(time.Until(from.Add(time.Duration(minute)*time.Minute - 2*time.Second)))
			if minute > 0 {
				old := c.leader()
				c.kill(old)
				at = c.leader()
				c.start(old)
			}
			time.Sleep(30 * time.Second)
		}
		for i, j := range c.jobsOfSchedule(at, "each-minute") {
			due := from.Add(time.Duration(i) * time.Minute)
			require.Equal(t, "each-minute", j.GetName())
			require.Equal(t, map[string]string{"MIND_SCHEDULE": "each-minute", "MIND_SCHEDULED_AT": due.UTC().Format(time.RFC3339)}, j.GetCommandConfig().GetEnvironment())
			require.False(t, j.GetCreatedAt().AsTime().Before(due))
		}
		now := c.scheduled(at, "each-minute")
		require.EqualValues(t, 4, now.GetStarted())
		require.Len(t, c.jobsOfSchedule(at, "each-minute"), 4)
		require.Equal(t, from.Add(4*time.Minute), now.GetNextRunAt().AsTime())
		require.Equal(t, "STARTED", now.GetLastRun().GetOutcome())
	})
}

// No coordinator has a majority for hours: there is one run for all the due times that were missed.
func TestSchedules_makeUpOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		at := c.leader()
		_, err := c.schedules(at).PutSchedule(c.ctx("t1", ""), &v1.PutScheduleRequest{Name: "hourly", Cron: "@hourly", Job: sleeper(0, 1)})
		require.NoError(t, err)
		due := c.scheduled(at, "hourly").GetNextRunAt().AsTime()
		for id := range c.members {
			c.kill(id)
		}
		time.Sleep(time.Until(due.Add(5*time.Hour + time.Minute)))
		for id := range c.members {
			c.start(id)
		}
		at = c.leader()
		c.eventually("it is never run", func() bool { return c.scheduled(at, "hourly").GetStarted() == 1 })
		now := c.scheduled(at, "hourly")
		require.EqualValues(t, 5, now.GetMissed())
		require.Equal(t, due.Add(6*time.Hour), now.GetNextRunAt().AsTime())
		require.Equal(t, due.Add(5*time.Hour).UTC().Format(time.RFC3339), c.jobsOfSchedule(at, "hourly")[0].GetCommandConfig().GetEnvironment()["MIND_SCHEDULED_AT"])
	})
}

func TestSchedules_ofATenant(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		at := c.leader()
		s := c.schedules(at)
		a := c.agent("n1", 1)
		failed, foreign := c.submit(at, sleeper(1, 0)), "job_zzzz"
		c.awaitStatus(at, failed, v1.JobStatus_TRAINING)
		a.end(failed, 1)
		c.awaitStatus(at, failed, v1.JobStatus_FAILED)
		after := func(job string) *v1.SchedulingConfig {
			return &v1.SchedulingConfig{Dependencies: []*v1.Dependency{{JobId: job, Condition: "ok"}}}
		}
		good := &v1.PutScheduleRequest{Name: "nightly", Cron: "30 2 * * 1-5", Timezone: "Europe/Berlin", Job: sleeper(0, 1)}
		_, err := s.PutSchedule(c.ctx("t1", ""), good)
		require.NoError(t, err)

		for says, change := range map[string]func(*v1.PutScheduleRequest){
			"lower-case":                         func(r *v1.PutScheduleRequest) { r.Name = "../x" },
			"five fields":                        func(r *v1.PutScheduleRequest) { r.Cron = "every night" },
			"Europe/Berlin":                      func(r *v1.PutScheduleRequest) { r.Timezone = "Berlin" },
			"skip, allow":                        func(r *v1.PutScheduleRequest) { r.Overlap = "sometimes" },
			"negative":                           func(r *v1.PutScheduleRequest) { r.StartWithinSeconds = -1 },
			"is missing":                         func(r *v1.PutScheduleRequest) { r.Job = nil },
			"another label":                      func(r *v1.PutScheduleRequest) { r.Job.Labels = map[string]string{"schedule": "x"} },
			"was to succeed and failed":          func(r *v1.PutScheduleRequest) { r.Job.SchedulingConfig = after(failed) },
			"there is no job job_zzzz to depend": func(r *v1.PutScheduleRequest) { r.Job.SchedulingConfig = after(foreign) },
			"nosuch":                             func(r *v1.PutScheduleRequest) { r.Job.SchedulingConfig = &v1.SchedulingConfig{Queue: "nosuch"} },
			"at most 65536 ":                     func(r *v1.PutScheduleRequest) { r.Job.CommandConfig.Argv = []string{strings.Repeat("x", 70_000)} },
		} {
			bad := proto.CloneOf(good)
			change(bad)
			_, err := s.PutSchedule(c.ctx("t1", ""), bad)
			requireCode(t, codes.InvalidArgument, err)
			require.ErrorContains(t, err, says)
		}

		other := c.ctx("t2", "")
		list, err := s.ListSchedules(other, &v1.ListSchedulesRequest{})
		require.NoError(t, err)
		require.Empty(t, list.GetSchedules())
		_, err = s.GetSchedule(other, &v1.GetScheduleRequest{Name: "nightly"})
		requireCode(t, codes.NotFound, err)
		_, err = s.DeleteSchedule(other, &v1.DeleteScheduleRequest{Name: "nightly"})
		requireCode(t, codes.NotFound, err)
		_, err = s.PauseSchedule(other, &v1.PauseScheduleRequest{Name: "nightly"})
		requireCode(t, codes.NotFound, err)
		_, err = s.RunSchedule(other, &v1.RunScheduleRequest{Name: "nightly"})
		requireCode(t, codes.NotFound, err)

		paused, err := s.PauseSchedule(c.ctx("t1", ""), &v1.PauseScheduleRequest{Name: "nightly"})
		require.NoError(t, err)
		require.True(t, paused.GetSchedule().GetPaused())
		require.Nil(t, paused.GetSchedule().GetNextRunAt())
		ran, err := s.RunSchedule(c.ctx("t1", ""), &v1.RunScheduleRequest{Name: "nightly"})
		require.NoError(t, err)
		require.Equal(t, ran.GetJobId(), c.scheduled(at, "nightly").GetLastJobId())
		_, err = s.RunSchedule(c.ctx("t1", ""), &v1.RunScheduleRequest{Name: "nightly"})
		requireCode(t, codes.FailedPrecondition, err)
		require.ErrorContains(t, err, "overlap: skip")
		resumed, err := s.ResumeSchedule(c.ctx("t1", ""), &v1.ResumeScheduleRequest{Name: "nightly"})
		require.NoError(t, err)
		require.True(t, resumed.GetSchedule().GetNextRunAt().AsTime().After(time.Now()))
		_, err = s.DeleteSchedule(c.ctx("t1", ""), &v1.DeleteScheduleRequest{Name: "nightly"})
		require.NoError(t, err)
		require.Len(t, c.jobsOfSchedule(at, "nightly"), 1, "its job goes on")
	})
}

// A job of a schedule is refused: the schedule shows the reason, and continues.
func TestSchedules_sayWhyARunWasRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		at := c.leader()
		_, err := c.nodes(at).PutQueue(c.ctx("t1", ""), &v1.PutQueueRequest{Name: "nights"})
		require.NoError(t, err)
		job := sleeper(0, 1)
		job.SchedulingConfig = &v1.SchedulingConfig{Queue: "nights"}
		_, err = c.schedules(at).PutSchedule(c.ctx("t1", ""), &v1.PutScheduleRequest{Name: "each-minute", Cron: "* * * * *", Job: job})
		require.NoError(t, err)
		_, err = c.nodes(at).DeleteQueue(c.ctx("t1", ""), &v1.DeleteQueueRequest{Name: "nights"})
		require.NoError(t, err)
		time.Sleep(time.Until(c.scheduled(at, "each-minute").GetNextRunAt().AsTime()))
		c.eventually("it is never refused", func() bool { return c.scheduled(at, "each-minute").GetRefused() > 0 })
		require.Contains(t, c.scheduled(at, "each-minute").GetLastRun().GetReason(), "nights")
	})
}
