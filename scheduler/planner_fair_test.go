package scheduler_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
	"github.com/mindcoordinator/mind/fsm/work/typed"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/fsm/work/windowverbs"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/preempt"
	"github.com/mindcoordinator/mind/scheduler/worth"
)

// TestPlanner_sharesAsIfItWereNew is TestPlanner_plansAsIfItWereNew with many users in a tree of queues: the lanes that
// a planner keeps change no plan, whatever jobs, queues, quotas and policies came and went, and however much time has
// passed.
func TestPlanner_sharesAsIfItWereNew(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := newState(t)
		for i := range rapid.IntRange(1, 4).Draw(r, "nodes") {
			id := fmt.Sprint("n", i)
			s.node(id, gpus(id, "H100", 8, 8), nil)
		}
		s.queue("org", "", 2)
		s.queue("a", "org", 1)
		s.queue("b", "org", 3)
		var planner scheduler.Planner
		if rapid.Bool().Draw(r, "lanes by user") {
			planner = scheduler.NewByUser()
		}
		opts := scheduler.Options{PerCommand: 4, Prices: func() *worth.Prices { return nil }}
		for range rapid.IntRange(3, 15).Draw(r, "rounds") {
			drawChange(r, s)
			opts.PerPass = rapid.SampledFrom([]int{0, 0, 1, 5}).Draw(r, "per pass")
			v := s.machine.View()
			if rapid.IntRange(0, 3).Draw(r, "preempt by order") == 0 {
				opts.Running = preempt.RunningIn(v)
			} else {
				opts.Running = nil
			}
			want := scheduler.Plan(v, opts)
			requireSame(r, want, planner.Plan(v, opts))
			if rapid.IntRange(0, 3).Draw(r, "applied") > 0 {
				for _, c := range want.Commands {
					s.apply(c)
				}
			}
		}
		require.Empty(r, fsm.Check(s.machine.View()))
	})
}

// drawChange makes a random change of the jobs, the queues, the quotas, the policy, the time or the machine.
func drawChange(r *rapid.T, s *state) {
	switch rapid.SampledFrom([]string{
		"jobs", "jobs", "jobs", "jobs", "burst", "ends", "ends", "cancel", "queue", "quota", "policy", "time", "losses", "restore", "window", "node",
	}).Draw(r, "step") {
	case "jobs":
		s.apply(jobverbs.SubmitJobs{Jobs: drawUsersJobs(r, s, rapid.IntRange(1, 25).Draw(r, "jobs"))})
	case "burst": // more jobs of one user than are read at a time
		jobs := drawUsersJobs(r, s, 1)
		for len(jobs) < 150 {
			jobs = append(jobs, jobs[0])
			jobs[len(jobs)-1].MaxRuntime = int64(time.Hour) * int64(1+len(jobs)*7%11)
		}
		s.apply(jobverbs.SubmitJobs{Jobs: jobs})
	case "ends":
		drawEnds(r, s)
	case "losses":
		drawLosses(r, s)
	case "cancel":
		var waiting []ident.Job
		for j := range s.machine.View().Jobs(false, 0) {
			if j.Waiting() && rapid.IntRange(0, 3).Draw(r, "canceled") == 0 {
				waiting = append(waiting, j.ID)
			}
		}
		for _, id := range waiting {
			s.apply(jobverbs.ControlJob{Job: id, Action: rapid.SampledFrom([]work.Action{work.ActionCancel, work.ActionPause}).Draw(r, "action")})
		}
	case "queue":
		s.apply(queueverbs.PutQueue{Queue: work.Queue{
			Name: rapid.SampledFrom([]string{"org", "a", "b", "c"}).Draw(r, "queue"), Parent: rapid.SampledFrom([]string{"", "org", "b"}).Draw(r, "parent"),
			Weight: rapid.Uint32Range(1, 5).Draw(r, "weight"), MaxGPUs: rapid.SampledFrom([]uint32{0, 0, 4, 9}).Draw(r, "limit"),
			Guaranteed: rapid.SampledFrom([]uint32{0, 0, 2, 6}).Draw(r, "guarantee"),
		}})
	case "quota":
		tenant := fmt.Sprint("t", rapid.IntRange(0, 3).Draw(r, "tenant"))
		if rapid.Bool().Draw(r, "no quota") {
			s.apply(queueverbs.DeleteQuota{Tenant: tenant})
			return
		}
		most := rapid.Int32Range(0, 12).Draw(r, "gpus")
		put := queueverbs.PutQuota{Tenant: tenant, MaxGPUs: &most}
		switch rapid.IntRange(0, 3).Draw(r, "kind of quota") {
		case 0:
			put = queueverbs.PutQuota{Tenant: tenant, MaxByType: typed.Limits{{Type: "H100", GPUs: most}}}
		case 1:
			put = queueverbs.PutQuota{Tenant: tenant, MaxRunning: &most}
		case 2:
			put = queueverbs.PutQuota{Tenant: tenant, MaxGPUHours: &most}
		}
		s.apply(put)
	case "window":
		name := fmt.Sprint("w", rapid.IntRange(0, 2).Draw(r, "window"))
		kind := rapid.SampledFrom([]windows.Kind{windows.Maintenance, windows.Reservation}).Draw(r, "kind of window")
		if rapid.IntRange(0, 2).Draw(r, "no window") == 0 {
			s.apply(windowverbs.DeleteWindow{Name: name, Kind: kind})
			return
		}
		from := s.machine.View().Now() + int64(rapid.SampledFrom([]time.Duration{0, time.Minute, 2 * time.Hour, 10 * time.Hour}).Draw(r, "from"))
		put := windowverbs.PutWindow{Name: name, Kind: kind, From: from, Until: from + int64(3*time.Hour)}
		if kind == windows.Maintenance {
			put.Patterns = []string{fmt.Sprint("n", rapid.IntRange(0, 3).Draw(r, "node"))}
		} else {
			put.Tenant, put.GPUs = fmt.Sprint("t", rapid.IntRange(0, 3).Draw(r, "of")), uint32(rapid.IntRange(1, 16).Draw(r, "reserved"))
		}
		s.apply(put, clusterverbs.Tick{})
	case "node":
		id := fmt.Sprint("n", rapid.IntRange(0, 3).Draw(r, "which"))
		if _, ok := s.machine.View().Node(id); ok {
			s.apply(nodeverbs.SetNode{ID: id, Action: rapid.SampledFrom([]nodeverbs.NodeAction{nodeverbs.NodeDrain, nodeverbs.NodeEnable}).Draw(r, "drained")})
		}
	case "policy":
		p := s.machine.View().Policy()
		p.Order = rapid.SampledFrom([]policy.Order{policy.OrderFIFO, policy.OrderShortest, policy.OrderAttained}).Draw(r, "order")
		p.HalfLife = int64(rapid.SampledFrom([]time.Duration{time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}).Draw(r, "half-life"))
		p.AgingStep = int64(rapid.SampledFrom([]time.Duration{0, time.Hour, 5 * 24 * time.Hour}).Draw(r, "aging"))
		p.Preemption.Enabled = rapid.Bool().Draw(r, "preemption")
		require.Nil(r, s.apply(queueverbs.PutPolicy{Policy: p, Base: p.Revision})[0].(queueverbs.PolicyResult).Refusal)
	case "time":
		s.now = s.now.Add(rapid.SampledFrom([]time.Duration{time.Minute, time.Hour, 24 * time.Hour}).Draw(r, "passes"))
		s.apply(clusterverbs.Tick{})
	case "restore":
		var image bytes.Buffer
		_, err := s.machine.Snapshot().WriteTo(&image)
		require.NoError(r, err)
		s.machine = fsm.New()
		require.NoError(r, s.machine.Restore(&image))
	}
}

// drawUsersJobs draws jobs of some users.
func drawUsersJobs(r *rapid.T, s *state, n int) []jobverbs.NewJob {
	var jobs []jobverbs.NewJob
	for range n {
		shape := work.Shape{GPUs: rapid.SampledFrom([]uint16{1, 1, 1, 2, 4, 8}).Draw(r, "gpus")}
		j := s.of(rapid.SampledFrom([]string{"default", "org", "a", "b"}).Draw(r, "queue"),
			fmt.Sprint("t", rapid.IntRange(0, 3).Draw(r, "tenant")), fmt.Sprint("u", rapid.IntRange(0, 3).Draw(r, "user")), shape)
		j.Priority = uint8(rapid.SampledFrom([]int{5, 5, 5, 4, 6, 0}).Draw(r, "priority"))
		j.MaxRuntime = int64(rapid.SampledFrom([]time.Duration{0, time.Hour, 5 * time.Hour, 90 * time.Hour}).Draw(r, "most"))
		j.Retry = work.RetryPolicy{Max: 9, On: work.RetryInfrastructure}
		jobs = append(jobs, j)
	}
	return jobs
}
