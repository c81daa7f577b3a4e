package fsm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/schedules"
	"github.com/mindcoordinator/mind/fsm/scheduleverbs"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

const hour = int64(time.Hour)

var nightly = schedules.Key{Tenant: "acme", Name: "nightly"}

// schedule puts a schedule that is due in an hour, and again each hour.
func (w *world) schedule(change func(*scheduleverbs.PutSchedule)) scheduleverbs.ScheduleResult {
	c := scheduleverbs.PutSchedule{
		Tenant: "acme", Name: "nightly", User: "ann", Cron: "0 * * * *", Zone: "UTC", Job: []byte("a request"),
		Overlap: schedules.Skip, Next: w.now + hour, Actor: &access.Actor{Tenant: "acme", User: "ann"},
	}
	change(&c)
	return do[scheduleverbs.ScheduleResult](w, c)
}

func asItIs(*scheduleverbs.PutSchedule) {}

// due is a run of the schedule for the time at which it is due, after which it is due an hour later.
func (w *world) due() scheduleverbs.Run {
	s, ok := w.m.View().Schedule(nightly)
	require.True(w.t, ok)
	return scheduleverbs.Run{Tenant: "acme", Name: "nightly", Due: s.Next, For: s.Next, Next: s.Next + hour, Job: scheduled()}
}

// scheduled is the job of the runs. Whose it is, is not for the run to say.
func scheduled() *jobverbs.NewJob {
	return &jobverbs.NewJob{Tenant: "umbrella", User: "eve", Name: "nightly", Spec: []byte("spec"), Shape: work.Shape{GPUs: 1}, Credentials: []byte("eve's")}
}

func (w *world) runs(runs ...scheduleverbs.Run) []scheduleverbs.RunResult {
	return do[scheduleverbs.RunsResult](w, scheduleverbs.RunSchedules{Runs: runs, Actor: &access.Actor{Tenant: "acme", User: "ann"}}).Results
}

func TestSchedules_oneRunForEachTime(t *testing.T) {
	w := newWorld(t)
	require.Nil(t, w.schedule(func(c *scheduleverbs.PutSchedule) { c.Credentials = []byte("ann's") }).Refusal)
	early := w.due()
	require.Equal(t, reason.ScheduleNotDue, w.runs(early)[0].Refusal.Reason.Code(), "it is not due yet")

	w.later(time.Hour)
	again := w.due()
	got := w.runs(again, again)
	require.Equal(t, schedules.Started, got[0].Outcome)
	j := w.job(got[0].Job)
	require.Equal(t, []string{"acme", "ann", "ann's"}, []string{j.Tenant, j.User, string(j.Credentials)}, "the job is the schedule's")
	require.Equal(t, reason.ScheduleNotDue, got[1].Refusal.Reason.Code())
	require.Equal(t, reason.ScheduleNotDue, w.runs(again)[0].Refusal.Reason.Code(), "another leader proposes it once more")

	s, _ := w.m.View().Schedule(nightly)
	require.Equal(t, again.Next, s.Next)
	require.Equal(t, []any{again.For, w.now, schedules.Started, j.ID, uint64(1)}, []any{s.LastFor, s.LastAt, s.LastOutcome, s.LastJob, s.Started})
	require.Len(t, jobsOf(w.m.View()), 1)
}

func jobsOf(v *fsm.View) (all []*work.Job) {
	for j := range v.Jobs(false, 0) {
		all = append(all, j)
	}
	return all
}

func TestSchedules_whatARunBecomes(t *testing.T) {
	for name, c := range map[string]struct {
		put     func(*scheduleverbs.PutSchedule)
		run     func(w *world, r *scheduleverbs.Run)
		outcome schedules.Outcome
		why     reason.Code
		jobs    int
	}{
		"its job goes on":               {asItIs, func(*world, *scheduleverbs.Run) {}, schedules.Skipped, reason.ScheduleOverlaps, 1},
		"its job is over":               {asItIs, func(w *world, _ *scheduleverbs.Run) { w.cancelAll() }, schedules.Started, 0, 2},
		"it may overlap":                {func(c *scheduleverbs.PutSchedule) { c.Overlap = schedules.Allow }, func(*world, *scheduleverbs.Run) {}, schedules.Started, 0, 2},
		"it replaces":                   {func(c *scheduleverbs.PutSchedule) { c.Overlap = schedules.Replace }, func(*world, *scheduleverbs.Run) {}, schedules.Started, 0, 2},
		"it is as late as is allowed":   {func(c *scheduleverbs.PutSchedule) { c.Overlap, c.StartWithin = schedules.Allow, hour }, late(time.Hour), schedules.Started, 0, 2},
		"it is too late":                {func(c *scheduleverbs.PutSchedule) { c.Overlap, c.StartWithin = schedules.Allow, hour }, late(time.Hour + 1), schedules.Missed, reason.ScheduleTooLate, 1},
		"the leader finds no job in it": {func(c *scheduleverbs.PutSchedule) { c.Overlap = schedules.Allow }, refused, schedules.Refused, reason.NoSuchGPUType, 1},
		"the state refuses the job": {func(c *scheduleverbs.PutSchedule) { c.Overlap = schedules.Allow }, func(_ *world, r *scheduleverbs.Run) {
			r.Job.Queue = "gone"
		}, schedules.Refused, reason.NoQueueForJob, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			require.Nil(t, w.schedule(c.put).Refusal)
			w.later(time.Hour)
			require.Equal(t, schedules.Started, w.runs(w.due())[0].Outcome)
			first := jobsOf(w.m.View())[0].ID
			w.later(time.Hour)
			r := w.due()
			c.run(w, &r)
			got := w.runs(r)[0]
			require.Nil(t, got.Refusal)
			require.Equal(t, c.outcome, got.Outcome)
			s, _ := w.m.View().Schedule(nightly)
			require.Equal(t, c.why, s.LastReason.Code())
			require.Equal(t, r.Next, s.Next, "whatever became of it, the next time comes")
			require.Len(t, jobsOf(w.m.View()), c.jobs)
			require.Equal(t, s.Overlap == schedules.Replace || name == "its job is over", w.job(first).State == v1.JobState_CANCELED)
			require.Equal(t, uint64(2), s.Started+s.Skipped+s.Missed+s.Refused)
		})
	}
}

func late(by time.Duration) func(*world, *scheduleverbs.Run) {
	return func(w *world, _ *scheduleverbs.Run) { w.later(by) }
}

func refused(_ *world, r *scheduleverbs.Run) {
	r.Job, r.Refusal = nil, reason.New(reason.NoSuchGPUType, "B200", "H100")
}

func (w *world) cancelAll() {
	for _, j := range jobsOf(w.m.View()) {
		do[jobverbs.ControlResult](w, jobverbs.ControlJob{Job: j.ID, Action: work.ActionCancel})
	}
}

func TestSchedules_replaceAnArray(t *testing.T) {
	w := newWorld(t)
	require.Nil(t, w.schedule(func(c *scheduleverbs.PutSchedule) { c.Overlap = schedules.Replace }).Refusal)
	w.later(time.Hour)
	r := w.due()
	r.Job.Array = &jobverbs.NewArray{End: 9}
	first := w.runs(r)[0]
	require.Equal(t, schedules.Started, first.Outcome)
	w.later(time.Hour)
	require.Equal(t, schedules.Started, w.runs(w.due())[0].Outcome)
	require.Equal(t, v1.JobState_CANCELED, w.job(first.Job).State)
	require.Equal(t, reason.ReplacedByNextRun, w.job(first.Job).Reason.Code())
}

func TestSchedules_timesPassedOverAreCounted(t *testing.T) {
	w := newWorld(t)
	require.Nil(t, w.schedule(asItIs).Refusal)
	w.later(5 * time.Hour)
	r := w.due()
	r.For, r.Passed, r.Next = r.Due+4*hour, 4, r.Due+5*hour
	require.Equal(t, schedules.Started, w.runs(r)[0].Outcome)
	s, _ := w.m.View().Schedule(nightly)
	require.Equal(t, []uint64{1, 4}, []uint64{s.Started, s.Missed})
	require.Len(t, jobsOf(w.m.View()), 1)
}

func TestSchedules_pausedUntilResumed(t *testing.T) {
	w := newWorld(t)
	made := w.schedule(asItIs).Schedule
	pause := func(c *scheduleverbs.PutSchedule) { c.Paused, c.IfRevision, c.Next = true, made.Revision, made.Next }
	require.Nil(t, w.schedule(pause).Refusal)
	require.Equal(t, kernel.CodeAborted, w.schedule(pause).Refusal.Code, "it was changed since")
	w.later(2 * time.Hour)
	require.Equal(t, reason.ScheduleNotDue, w.runs(w.due())[0].Refusal.Reason.Code())
	for range w.m.View().DueSchedules(w.now) {
		t.Fatal("a paused schedule is due")
	}
	require.Nil(t, w.schedule(asItIs).Refusal)
	w.later(time.Hour)
	require.Equal(t, schedules.Started, w.runs(w.due())[0].Outcome)
}

// TestSchedules_noTimeComesTwice holds that no change of a schedule takes it back to a time for which it was run.
func TestSchedules_noTimeComesTwice(t *testing.T) {
	w := newWorld(t)
	w.schedule(asItIs)
	w.later(time.Hour)
	r := w.due()
	w.runs(r)
	require.Equal(t, kernel.CodeAborted, w.schedule(func(c *scheduleverbs.PutSchedule) { c.Next = r.For }).Refusal.Code)
}

func TestSchedules_runByHand(t *testing.T) {
	w := newWorld(t)
	w.schedule(asItIs)
	hand := scheduleverbs.Run{Tenant: "acme", Name: "nightly", Job: scheduled()}
	hand.Job.Key, hand.Job.Fingerprint = "once", 7
	first := w.runs(hand)[0]
	require.Equal(t, schedules.Started, first.Outcome)
	require.Equal(t, first.Job, w.runs(hand)[0].Job, "the same call again")
	s, _ := w.m.View().Schedule(nightly)
	require.Equal(t, w.now+hour, s.Next, "it is due as before")
	require.Zero(t, s.LastFor)
	require.Equal(t, uint64(1), s.Started)

	hand.Job.Key = "another"
	got := w.runs(hand)[0]
	require.Equal(t, reason.ScheduleOverlaps, got.Refusal.Reason.Code())
	unchanged, _ := w.m.View().Schedule(nightly)
	require.Equal(t, s, unchanged, "a refused run by hand is no run")
	hand.Name = "other"
	require.Equal(t, kernel.CodeNotFound, w.runs(hand)[0].Refusal.Code)
}

func TestSchedules_bounds(t *testing.T) {
	w := newWorld(t)
	for name, bad := range map[string]func(*scheduleverbs.PutSchedule){
		"no name":       func(c *scheduleverbs.PutSchedule) { c.Name = "" },
		"no tenant":     func(c *scheduleverbs.PutSchedule) { c.Tenant = "" },
		"never due":     func(c *scheduleverbs.PutSchedule) { c.Next = 0 },
		"no job":        func(c *scheduleverbs.PutSchedule) { c.Job = nil },
		"large job":     func(c *scheduleverbs.PutSchedule) { c.Job = make([]byte, schedules.MaxJob+1) },
		"large secrets": func(c *scheduleverbs.PutSchedule) { c.Credentials = make([]byte, schedules.MaxCredentials+1) },
		"no overlap":    func(c *scheduleverbs.PutSchedule) { c.Overlap = 0 },
		"back in time":  func(c *scheduleverbs.PutSchedule) { c.StartWithin = -1 },
		"long zone":     func(c *scheduleverbs.PutSchedule) { c.Zone = string(make([]byte, schedules.MaxText+1)) },
	} {
		require.Equal(t, reason.BadSchedule, w.schedule(bad).Refusal.Reason.Code(), name)
	}
	for i := range schedules.MaxOfTenant {
		require.Nil(t, w.schedule(func(c *scheduleverbs.PutSchedule) { c.Name = string(rune('a'+i/26)) + string(rune('a'+i%26)) }).Refusal)
	}
	require.Equal(t, reason.TooManySchedulesOfTenant, w.schedule(asItIs).Refusal.Reason.Code())
	require.Nil(t, w.schedule(func(c *scheduleverbs.PutSchedule) { c.Tenant = "umbrella" }).Refusal, "another tenant")
	require.Nil(t, w.schedule(func(c *scheduleverbs.PutSchedule) { c.Name = "aa" }).Refusal, "one that is there may be changed")

	gone := scheduleverbs.DeleteSchedule{Tenant: "acme", Name: "aa"}
	require.Nil(t, do[scheduleverbs.ScheduleResult](w, gone).Refusal)
	require.Equal(t, reason.NoSchedule, do[scheduleverbs.ScheduleResult](w, gone).Refusal.Reason.Code())
}

// scheduling draws commands about schedules.
func (g *generator) scheduling() kernel.Command {
	k := schedules.Key{Tenant: g.tenant(), Name: pick(g, "schedule", "s1", "s2")}
	s, there := g.w.m.View().Schedule(k)
	switch {
	case g.n("delete schedule", 0, 5) == 0:
		return scheduleverbs.DeleteSchedule{Tenant: k.Tenant, Name: k.Name, Actor: g.actor()}
	case !there || g.n("put schedule", 0, 3) == 0:
		c := scheduleverbs.PutSchedule{
			Tenant: k.Tenant, Name: k.Name, User: "ann", Cron: "* * * * *", Job: []byte("r"), Overlap: schedules.Overlap(g.n("overlap", 0, 4)),
			StartWithin: int64(pick(g, "within", 0, 0, 30, -1)) * 1e9, Paused: g.n("paused", 0, 3) == 0,
			Next: g.w.now + int64(pick(g, "next", -60, 0, 60))*1e9, Actor: g.actor(),
		}
		if there {
			c.IfRevision = pick(g, "if", 0, s.Revision, 1)
		}
		return c
	}
	run := scheduleverbs.Run{Tenant: k.Tenant, Name: k.Name, Due: pick(g, "due", s.Next, s.Next, s.Next, 0, 1), Passed: uint64(g.n("passed", 0, 2))}
	run.For = run.Due + int64(pick(g, "for", 0, 0, 60, -1))*1e9
	run.Next = run.For + int64(pick(g, "then", 60, 60, 0))*1e9
	if job := g.newJob(); g.n("no job", 0, 5) > 0 {
		run.Job = &job
	} else {
		run.Refusal = reason.New(reason.NoQueueForJob, "x", "y")
	}
	return scheduleverbs.RunSchedules{Runs: []scheduleverbs.Run{run, run}[:g.n("times", 1, 2)], Actor: g.actor()}
}

// checkSchedules holds what one state cannot show (I18): that each time of a schedule comes once, and that nothing but a run for it
// has taken it away.
func checkSchedules(t require.TestingT, before, after *fsm.View, cmds []kernel.Command) {
	ran, changed := map[schedules.Key]int{}, map[schedules.Key]bool{}
	for _, c := range cmds {
		switch c := c.(type) {
		case scheduleverbs.PutSchedule:
			changed[schedules.Key{Tenant: c.Tenant, Name: c.Name}] = true
		case scheduleverbs.DeleteSchedule:
			changed[schedules.Key{Tenant: c.Tenant, Name: c.Name}] = true
		case scheduleverbs.RunSchedules:
			for i := range c.Runs {
				ran[schedules.Key{Tenant: c.Runs[i].Tenant, Name: c.Runs[i].Name}]++
			}
		}
	}
	for s := range before.AllSchedules() {
		now, there := after.Schedule(s.Key())
		if changed[s.Key()] {
			continue
		}
		require.True(t, there, "I18: the schedule %v is gone", s.Key())
		runs := int(now.Started + now.Skipped + now.Refused - s.Started - s.Skipped - s.Refused)
		require.LessOrEqual(t, runs, ran[s.Key()], "I18: more runs of %v than were proposed", s.Key())
		require.GreaterOrEqual(t, now.Next, s.Next, "I18: %v is due again", s.Key())
		if now.Next != s.Next {
			require.GreaterOrEqual(t, now.LastFor, s.Next, "I18: %v was not run for %d", s.Key(), s.Next)
		}
	}
}
