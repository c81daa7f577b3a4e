package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/simulate/trace"
)

// starts returns when each job of a run has started last, and ended, after the begin.
func starts(r *run) (began, ended []time.Duration) {
	for _, j := range r.jobs {
		began, ended = append(began, time.Duration(j.row.StartedAt-r.origin)), append(ended, time.Duration(j.ended-r.origin))
	}
	return began, ended
}

// urgent returns a job of priority 9 that may not be preempted.
func urgent(gpus int, submit, takes time.Duration) trace.Job {
	j := of("urgent", "default", gpus, submit, takes)
	j.Priority, j.Preemptible = 9, false
	return j
}

// A job of ten hours has worked for 75 minutes when an urgent one comes, and has saved 60. It goes on when that one has ended, after
// a restart of 5 minutes, and works for the 9 hours that are left.
func TestRun_preemptsForAHigherPriority(t *testing.T) {
	jobs := []trace.Job{of("long", "default", 8, 0, 10*time.Hour), urgent(8, 75*time.Minute, time.Hour)}
	policy := named(t, "fifo")
	r := runOn(t, shared(t, 1, 8), jobs, policy)
	began, ended := starts(r)
	require.Equal(t, []time.Duration{135 * time.Minute, 75 * time.Minute}, began)
	require.Equal(t, []time.Duration{(135 + 5 + 9*60) * time.Minute, 135 * time.Minute}, ended)
	m := r.measures()
	require.Equal(t, 1, m.Preemptions)
	require.Equal(t, (15.0+5)*60*8, m.PreemptionCostGPUSeconds)
	require.Equal(t, (135.0+5+9*60-10*60)*60/2, m.WaitMeanSeconds, "the urgent one has not waited")
}

// The policy protects for two hours from the start: then the job has just saved 120 minutes.
func TestRun_theProtectionOfThePolicyEnds(t *testing.T) {
	jobs := []trace.Job{of("long", "default", 8, 0, 10*time.Hour), urgent(8, 75*time.Minute, time.Hour)}
	policy := named(t, "fifo")
	policy.Preemption.ProtectFromPriority = int64(2 * time.Hour)
	r := runOn(t, shared(t, 1, 8), jobs, policy)
	began, ended := starts(r)
	require.Equal(t, []time.Duration{3 * time.Hour, 2 * time.Hour}, began)
	require.Equal(t, 3*time.Hour+5*time.Minute+8*time.Hour, ended[0])
	require.Equal(t, (45.0*60+65*60)/2, r.measures().WaitMeanSeconds)
}

// Of two victims the one that has saved most recently is taken, and no more than needed.
func TestRun_preemptsWhatLosesTheLeast(t *testing.T) {
	jobs := []trace.Job{of("a", "default", 4, 0, 10*time.Hour), of("b", "default", 4, 20*time.Minute, 10*time.Hour), urgent(4, 55*time.Minute, time.Hour)}
	r := runOn(t, shared(t, 1, 8), jobs, named(t, "fifo"))
	require.Empty(t, r.jobs[0].row.Past, "25 minutes since its checkpoint")
	require.Len(t, r.jobs[1].row.Past, 1, "5 minutes")
}

func TestRun_jobsThatMayNotBePreemptedStay(t *testing.T) {
	stays := of("long", "default", 8, 0, 10*time.Hour)
	stays.Preemptible = false
	began, _ := starts(runOn(t, shared(t, 1, 8), []trace.Job{stays, urgent(8, time.Hour, time.Hour)}, named(t, "fifo")))
	require.Equal(t, 10*time.Hour, began[1])
}

// A queue that is guaranteed four GPUs takes them back from a borrower at once, whatever the priorities, and no more than these.
func TestRun_guaranteesGiveBack(t *testing.T) {
	on := shared(t, 1, 8)
	on.Queues = append(on.Queues, &work.Queue{Name: "prod", Weight: 1, Guaranteed: 4})
	borrower := func() trace.Job {
		j := of("guest", "default", 4, 0, 10*time.Hour)
		j.Priority = 9
		return j
	}
	jobs := []trace.Job{borrower(), borrower(), of("owner", "prod", 4, time.Hour, time.Hour), of("owner", "prod", 4, time.Hour, time.Hour)}
	r := runOn(t, on, jobs, named(t, "fifo"))
	began, ended := starts(r)
	require.Equal(t, time.Hour, began[2])
	require.Equal(t, 2*time.Hour, began[3], "it is not within the guarantee before")
	require.Equal(t, 1, r.measures().Preemptions)
	require.Equal(t, 10*time.Hour, min(ended[0], ended[1]))
	require.Equal(t, 3*time.Hour+5*time.Minute+9*time.Hour, max(ended[0], ended[1]))

	on.Queues[1].Guaranteed = 0
	began, _ = starts(runOn(t, on, jobs, named(t, "fifo")))
	require.Equal(t, []time.Duration{10 * time.Hour, 10 * time.Hour}, began[2:], "without the guarantee")
}

// A queue is guaranteed 8 GPUs and has 7. A small job of it takes one back from a large urgent one of another queue, and a second job
// uses what that leaves free. The urgent job may not take back the places of both: the small one would take its GPU back again, without
// end. It preempts the second one when the small one has ended.
func TestRun_nothingIsTakenInTurn(t *testing.T) {
	on := shared(t, 2, 8)
	on.Queues = append(on.Queues, &work.Queue{Name: "prod", Weight: 1, Guaranteed: 8})
	fixed := of("owner", "prod", 7, 0, 20*time.Hour)
	fixed.Preemptible = false
	big := of("guest", "default", 8, 0, 10*time.Hour)
	big.Priority = 9
	small, other := of("owner", "prod", 1, time.Hour, time.Hour), of("owner", "prod", 4, time.Hour, 2*time.Hour)
	fills := of("guest", "default", 1, 0, 20*time.Hour)
	fills.Priority, fills.Preemptible = 9, false
	began, _ := starts(runOn(t, on, []trace.Job{fixed, big, fills, small, other}, named(t, "fifo")))
	require.Equal(t, []time.Duration{0, 2 * time.Hour, 0, time.Hour, 11*time.Hour + 5*time.Minute}, began)
}
