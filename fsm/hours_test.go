package fsm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/jobview"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/budgets"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/overdraft"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
)

// spending is a tenant with a quota of GPU hours and 10 % of grace, and three jobs of one GPU: one that may be preempted, one that may
// not, and one with a time limit. They are in the state from the begin of a month, on a level that stops them.
type spending struct {
	*world
	yields, stays, limited ident.Job
	began                  int64
}

func spends(t *testing.T, hours int32) *spending {
	w := newWorld(t)
	w.settle()
	w.now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	w.node("n1", 8)
	w.quota(queueverbs.PutQuota{MaxGPUHours: &hours})
	s := &spending{world: w, began: w.now}
	yields, limited := oneGPU(), oneGPU()
	yields.Preemptible = true
	limited.MaxRuntime = int64(100 * time.Hour)
	for _, j := range []struct {
		id *ident.Job
		of jobverbs.NewJob
	}{{&s.yields, yields}, {&s.stays, oneGPU()}, {&s.limited, limited}} {
		*j.id = w.submit(j.of)
		w.place(*j.id, "n1")
		w.run(*j.id)
	}
	return s
}

// due returns how long after the begin the next Tick is due.
func (s *spending) due() time.Duration {
	at, any := s.m.View().NextDue()
	require.True(s.t, any)
	return time.Duration(at - s.began)
}

func (s *spending) tickAt(after time.Duration) clusterverbs.TickResult {
	s.now = s.began + int64(after)
	return do[clusterverbs.TickResult](s.world, clusterverbs.Tick{})
}

func (s *spending) stops(id ident.Job) v1.StopReason_Value { return s.job(id).Stop }

// grace sets the grace of the policy, in percent.
func (s *spending) grace(percent int32) {
	p := s.m.View().Policy()
	base := p.Revision
	p.HoursGrace = &percent
	require.Nil(s.t, do[queueverbs.PolicyResult](s.world, queueverbs.PutPolicy{Policy: p, Base: base}).Refusal)
}

// Three GPUs use 30 hours in 10, and 10 % more in one more hour. The jobs without a limit are warned, and stopped an hour later.
func TestHours_jobsWithoutALimitAreWarnedAndStopped(t *testing.T) {
	s := spends(t, 30)
	require.Equal(t, 10*time.Hour, s.due())
	s.tickAt(10*time.Hour - time.Millisecond)
	require.Zero(t, s.m.View().Budget("acme").Warned)

	var told []ident.Job
	s.m.OnApply(func(_ *fsm.View, events []event.Event) {
		for _, e := range events {
			if e.Topic == event.TopicJob && e.From == e.To {
				told = append(told, e.Job)
			}
		}
	})
	s.tickAt(10 * time.Hour)
	require.Equal(t, []ident.Job{s.yields, s.stays}, told)
	at, ok := overdraft.StopsAt(s.m.View(), s.job(s.yields))
	require.True(t, ok)
	require.Equal(t, 11*time.Hour, time.Duration(at-s.began))
	_, ok = overdraft.StopsAt(s.m.View(), s.job(s.limited))
	require.False(t, ok)

	require.Equal(t, "its tenant has used up the 30 hours of GPU time of this month: as the job has no time limit, it is stopped at about 2026-01-01T11:00:00Z",
		jobview.Reason(s.m.View(), s.job(s.stays)))
	require.Empty(t, jobview.Reason(s.m.View(), s.job(s.limited)))

	require.Equal(t, 11*time.Hour, s.due())
	require.Zero(t, s.tickAt(11*time.Hour-time.Millisecond).OutOfHours)
	require.Equal(t, 2, s.tickAt(11*time.Hour).OutOfHours)
	require.Equal(t, v1.StopReason_PREEMPT, s.stops(s.yields))
	require.Equal(t, v1.StopReason_TIME_LIMIT, s.stops(s.stays))
	require.Equal(t, v1.StopReason_UNSPECIFIED, s.stops(s.limited), "it ends by its own limit")
	require.Equal(t, "its tenant has used 33 of 30 hours of GPU time of this month, and the job has no time limit", words.Of(s.job(s.stays).Reason))
	require.Zero(t, s.tickAt(12*time.Hour).OutOfHours, "once")

	for _, id := range []ident.Job{s.yields, s.stays} {
		s.report(id, 0, jobverbs.ReportEnded, exit(75))
	}
	require.Equal(t, v1.JobState_QUEUED, s.job(s.yields).State, "it waits for the next month")
	require.Contains(t, s.tryPlace(s.yields, "n1"), "36 of 30 hours")
	require.Equal(t, v1.JobState_FAILED, s.job(s.stays).State)
	require.Equal(t, v1.ErrorType_TIME_LIMIT, s.job(s.stays).ErrorType)
	require.Equal(t, reason.EndedForHours, s.job(s.stays).ErrorMessage.Code())
	sameState(t, s.m, s.restored())
}

// restored is a machine with a snapshot of the state.
func (s *spending) restored() *fsm.Machine {
	m := fsm.New()
	require.NoError(s.t, m.Restore(s.image()))
	return m
}

// A job that comes to its own end while it is stopped has succeeded.
func TestHours_whatEndsByItselfHasSucceeded(t *testing.T) {
	s := spends(t, 30)
	s.tickAt(10 * time.Hour)
	s.tickAt(11 * time.Hour)
	s.report(s.stays, 0, jobverbs.ReportEnded, exit(0))
	require.Equal(t, v1.JobState_SUCCEEDED, s.job(s.stays).State)
}

// The GPUs that the tenant holds decide when: when a job ends, the others have longer. The policy says how far they may go.
func TestHours_theTimeFollowsWhatIsHeldAndThePolicy(t *testing.T) {
	s := spends(t, 30)
	s.now = s.began + int64(5*time.Hour) // 15 of 30 are used
	s.report(s.limited, 0, jobverbs.ReportEnded, exit(0))
	require.Equal(t, 12*time.Hour+30*time.Minute, s.due())
	s.tickAt(s.due())
	require.Equal(t, 14*time.Hour, s.due())
	s.grace(100)
	require.Equal(t, 27*time.Hour+30*time.Minute, s.due())
	s.grace(0)
	require.Equal(t, 12*time.Hour+40*time.Minute, s.due(), "ten minutes after the warning")
	s.grace(policy.NeverForHours)
	require.Greater(t, s.due(), 100*time.Hour)
	require.Zero(t, s.tickAt(100*time.Hour).OutOfHours)
	s.grace(0)
	require.Equal(t, 2, s.tickAt(100*time.Hour).OutOfHours)
}

// A quota that is lowered below what was used leaves ten minutes, and one that is raised meanwhile takes the warning back.
func TestHours_aQuotaThatIsChangedTakesTheWarningBack(t *testing.T) {
	s := spends(t, 300)
	s.now = s.began + int64(20*time.Hour)
	s.quota(queueverbs.PutQuota{MaxGPUHours: limit(1)})
	s.tickAt(20 * time.Hour)
	require.Equal(t, 20*time.Hour+10*time.Minute, s.due())
	s.quota(queueverbs.PutQuota{MaxGPUHours: limit(1), MaxGPUs: limit(100)})
	require.Equal(t, 20*time.Hour+10*time.Minute, s.due(), "another limit was changed")
	s.quota(queueverbs.PutQuota{MaxGPUHours: limit(90)})
	require.Zero(t, s.m.View().Budget("acme").Warned)
	require.Equal(t, 30*time.Hour, s.due())
	s.tickAt(30 * time.Hour)
	require.NotZero(t, s.m.View().Budget("acme").Warned)
	require.Nil(t, do[queueverbs.QuotaResult](s.world, queueverbs.DeleteQuota{Tenant: "acme"}).Refusal)
	require.Equal(t, 100*time.Hour, s.due().Round(time.Hour), "only the time limit of a job is left")
	require.Zero(t, s.tickAt(90*time.Hour).OutOfHours)
}

// A job whose time limit is taken away when the others were stopped gets its warning and its ten minutes.
func TestHours_aLimitThatIsTakenAway(t *testing.T) {
	s := spends(t, 30)
	s.tickAt(10 * time.Hour)
	s.tickAt(11 * time.Hour)
	j := s.job(s.limited)
	r := do[jobverbs.ControlResult](s.world, jobverbs.UpdateJob{
		Job: s.limited, Was: jobverbs.SpecDigest(j.Spec), Set: jobverbs.SetLimit, To: jobverbs.NewJob{Spec: j.Spec},
	})
	require.Nil(t, r.Refusal)
	require.Zero(t, s.tickAt(11*time.Hour).OutOfHours)
	require.Equal(t, 11*time.Hour+10*time.Minute, s.due())
	require.Equal(t, 1, s.tickAt(s.due()).OutOfHours)
	require.Equal(t, v1.StopReason_TIME_LIMIT, s.stops(s.limited))
}

// With the month the warning ends, and so does the stop.
func TestHours_aNewMonthTakesTheWarningBack(t *testing.T) {
	s := spends(t, 3*24*31-6) // used up two hours before the end of the month
	s.tickAt(31*24*time.Hour - 2*time.Hour)
	require.NotZero(t, s.m.View().Budget("acme").Warned)
	_, ok := overdraft.StopsAt(s.m.View(), s.job(s.stays))
	require.False(t, ok, "not in this month")
	s.tickAt(31 * 24 * time.Hour)
	require.Zero(t, s.m.View().Budget("acme").Warned)
	require.Equal(t, v1.StopReason_UNSPECIFIED, s.stops(s.stays))
}

// At the level before nothing is stopped, and no Tick is due for it.
func TestHours_beforeTheirLevel(t *testing.T) {
	w := newWorld(t)
	w.at = level.Released
	w.now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	w.node("n1", 8)
	w.quota(queueverbs.PutQuota{MaxGPUHours: limit(1)})
	id := w.submit(oneGPU())
	w.place(id, "n1")
	w.run(id)
	w.later(50 * time.Hour)
	for range 3 {
		w.do(clusterverbs.Tick{})
		w.later(time.Hour)
	}
	require.Equal(t, v1.StopReason_UNSPECIFIED, w.job(id).Stop)
	due, any := w.m.View().NextDue()
	require.True(t, any)
	require.Equal(t, time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), time.Unix(0, due).UTC())

	p := policy.DefaultPolicy()
	p.HoursGrace = limit(0)
	_, err := kernel.Encode(level.Released, queueverbs.PutPolicy{Policy: p})
	require.ErrorContains(t, err, "(hours_grace_percent) needs feature level 2")
}

// The check finds a warning without a cause, a stop without its warning, and a job that goes on.
func TestHours_checkCanFail(t *testing.T) {
	s := spends(t, 30)
	s.tickAt(10 * time.Hour)
	s.tickAt(11 * time.Hour)
	was := *s.m.View().Budget("acme")
	put := func(change func(b *budgets.Budget)) []string {
		b := was
		change(&b)
		budgets.Put(&s.tables().Meter, &b)
		said := fsm.Check(s.publish())
		budgets.Put(&s.tables().Meter, &was)
		return said
	}
	require.Contains(t, put(func(b *budgets.Budget) { b.Used = budgets.Hour })[0], "I26: tenant \"acme\" was warned")
	require.Contains(t, put(func(b *budgets.Budget) { b.Stopped = b.Warned + 1 })[0], "I26: the jobs of tenant \"acme\" were stopped at")
	require.Contains(t, put(func(b *budgets.Budget) { b.Warned = 0 })[0], "I26: the jobs of tenant")
	old := s.job(s.stays)
	goesOn := *old
	goesOn.Stop = v1.StopReason_UNSPECIFIED
	s.tables().PutJob(old, &goesOn)
	require.Contains(t, fsm.Check(s.publish())[0], "I26: "+s.stays.String()+" goes on")
}

// In any order of changes, a job without a limit is not stopped before it was warned for ten minutes, and none that may start, ends, or loses
// its limit is forgotten: the check after each entry holds I26.
func TestHours_anyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.settle()
		w.now = time.Date(2026, 1, 30, 0, 0, 0, 0, time.UTC).UnixNano()
		w.node("n1", 8)
		var jobs []ident.Job
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			w.later(rapid.SampledFrom([]time.Duration{0, time.Minute, 5 * time.Minute, 20 * time.Minute, 3 * time.Hour, 30 * time.Hour}).Draw(t, "passes"))
			switch rapid.IntRange(0, 7).Draw(t, "what") {
			case 0, 1:
				n := oneGPU()
				n.Preemptible, n.MaxRuntime = rapid.Bool().Draw(t, "preemptible"), int64(rapid.SampledFrom([]time.Duration{0, 0, 50 * time.Hour}).Draw(t, "limit"))
				id := w.submit(n)
				if jobs = append(jobs, id); len(jobs) < 8 {
					do[jobverbs.PlaceResult](w, jobverbs.PlaceJobs{BasedOn: w.index, Placements: []work.Placement{w.placement(id, "n1")}})
				}
			case 2:
				w.quota(queueverbs.PutQuota{MaxGPUHours: limit(int32(rapid.IntRange(0, 20).Draw(t, "hours")))})
			case 3:
				p := w.m.View().Policy()
				base := p.Revision
				p.HoursGrace = limit(rapid.SampledFrom([]int32{-1, 0, 10, 100}).Draw(t, "grace"))
				do[queueverbs.PolicyResult](w, queueverbs.PutPolicy{Policy: p, Base: base})
			case 4:
				for _, id := range jobs {
					if j := w.job(id); j.Live() && rapid.Bool().Draw(t, "ends") {
						w.report(id, 0, jobverbs.ReportEnded, exit(0))
					}
				}
			case 5:
				for _, id := range jobs {
					j := w.job(id)
					do[jobverbs.ControlResult](w, jobverbs.UpdateJob{
						Job: id, Was: jobverbs.SpecDigest(j.Spec), Set: jobverbs.SetLimit, To: jobverbs.NewJob{Spec: j.Spec, MaxRuntime: int64(rapid.SampledFrom([]time.Duration{0, 40 * time.Hour}).Draw(t, "other limit"))},
					})
				}
			default:
				before := w.m.View()
				w.do(clusterverbs.Tick{})
				b := w.m.View().Budget("acme")
				for _, id := range jobs {
					was, _ := before.Job(id)
					j := w.job(id)
					if j.MaxRuntime == 0 && was.Stop == v1.StopReason_UNSPECIFIED && j.Stop != v1.StopReason_UNSPECIFIED {
						require.NotZero(t, b.Warned)
						require.GreaterOrEqual(t, w.now/1e6, b.Warned+overdraft.Notice)
					}
				}
				due, any := w.m.View().NextDue()
				require.True(t, !any || due > w.now, "what was due is done")
			}
		}
		require.Equal(t, w.m.View().Hash(), w.again().Hash())
	})
}

// again returns the state of another machine with the same log.
func (w *world) again() *fsm.View {
	m := fsm.New()
	w.replay(m)
	return m.View()
}
