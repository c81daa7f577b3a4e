package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/fsm/work/windowverbs"
	"github.com/mindcoordinator/mind/scheduler/foresee"
)

// asked is a job to submit.
type asked struct {
	tenant, name, queue string
	gpus, nodes         int
	limit               time.Duration
	priority            uint8
	selector            string
}

func (s *state) ask(a asked) ident.Job {
	s.t.Helper()
	j := s.job(work.Shape{GPUs: uint16(a.gpus), Nodes: uint16(a.nodes), Selector: a.selector}, 5)
	if a.tenant != "" {
		j.Tenant = a.tenant
	}
	if a.name != "" {
		j.Name = a.name
	}
	if a.queue != "" {
		j.Queue = a.queue
	}
	if a.priority != 0 {
		j.Priority = a.priority
	}
	j.MaxRuntime = int64(a.limit)
	r := s.apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{j}})[0].(jobverbs.SubmitJobsResult).Results[0]
	require.Nil(s.t, r.Refusal)
	return r.Job
}

// begin reports that the tasks of a placed job run.
func (s *state) begin(id ident.Job) {
	s.t.Helper()
	j := s.get(id)
	for _, t := range j.Tasks {
		for _, kind := range []jobverbs.ReportKind{jobverbs.ReportStarting, jobverbs.ReportRunning} {
			s.report(id, t.Rank, jobverbs.TaskReport{Kind: kind})
		}
	}
}

func (s *state) report(id ident.Job, rank uint16, r jobverbs.TaskReport) {
	j := s.get(id)
	r.Job, r.Attempt, r.Rank, r.Token = id, j.Attempt, rank, j.Token
	s.apply(jobverbs.ReportTasks{Node: j.Tasks[rank].Node, Reports: []jobverbs.TaskReport{r}})
}

// over ends the tasks of a running job with an exit code.
func (s *state) over(id ident.Job, code int32) {
	s.t.Helper()
	for _, t := range s.get(id).Tasks {
		s.report(id, t.Rank, jobverbs.TaskReport{Kind: jobverbs.ReportEnded, ExitCode: &code})
	}
	require.True(s.t, s.get(id).Terminal())
}

// took adds a job that succeeded after a duration.
func (s *state) took(a asked, d time.Duration) {
	s.t.Helper()
	id := s.ask(a)
	s.run()
	s.begin(id)
	s.now = s.now.Add(d - time.Millisecond) // apply takes the last one
	s.over(id, 0)
}

func (s *state) foresee(tenant string) *foresee.Forecast {
	return foresee.Starts(s.machine.View(), tenant, s.now, foresee.Options{})
}

// expected returns the forecast of a job: "10m0s after a", "now", "when a ends", or "".
func (s *state) expected(names map[string]ident.Job, id ident.Job) string {
	start, ok := s.foresee(s.get(id).Tenant).Start(id)
	if !ok {
		return ""
	}
	after := ""
	for name, id := range names {
		if id == start.After {
			after = name
		}
	}
	switch {
	case start.At == 0:
		return "when " + after + " ends"
	case start.After == 0:
		require.Equal(s.t, s.now.UnixNano(), start.At)
		return "now"
	}
	return fmt.Sprintf("%s after %s", time.Duration(start.At-s.now.UnixNano()).Round(time.Second), after)
}

func TestForesee(t *testing.T) {
	const minute = time.Minute
	// Each case has one node of two GPUs. The running jobs are started, the waiting ones submitted, and then time
	// passes.
	tests := []struct {
		name    string
		setup   func(s *state)
		running []asked
		waiting []asked
		then    func(s *state, jobs map[string]ident.Job)
		wants   map[string]string
	}{
		{
			name: "nothing of its own is in the way", waiting: []asked{{name: "b", gpus: 1}},
			wants: map[string]string{"b": "now"},
		}, {
			name:    "after the limit of the one that runs",
			running: []asked{{name: "a", gpus: 2, limit: 10 * minute}}, waiting: []asked{{name: "b", gpus: 1}},
			wants: map[string]string{"b": "10m0s after a"},
		}, {
			name:    "one after the other, and beside it what fits",
			running: []asked{{name: "a", gpus: 1, limit: 10 * minute}, {name: "b", gpus: 1, limit: 20 * minute}},
			waiting: []asked{{name: "c", gpus: 1, limit: 5 * minute}, {name: "d", gpus: 1, limit: 30 * minute}, {name: "e", gpus: 1}, {name: "f", gpus: 1}},
			wants:   map[string]string{"c": "10m0s after a", "d": "15m0s after c", "e": "20m0s after b", "f": "45m0s after d"},
		}, {
			name:    "higher priority first",
			running: []asked{{name: "a", gpus: 2, limit: 10 * minute}},
			waiting: []asked{{name: "b", gpus: 2, limit: 10 * minute}, {name: "c", gpus: 2, limit: minute, priority: 9}},
			wants:   map[string]string{"c": "10m0s after a", "b": "11m0s after c"},
		}, {
			name:    "how long one takes is not known",
			running: []asked{{name: "a", gpus: 2}}, waiting: []asked{{name: "b", gpus: 2, limit: minute}, {name: "c", gpus: 2}},
			wants: map[string]string{"b": "when a ends", "c": ""},
		}, {
			name:    "a job that fits nowhere",
			running: []asked{{name: "a", gpus: 2, limit: minute}}, waiting: []asked{{name: "b", gpus: 2, selector: "name=nowhere"}, {name: "c", gpus: 16}},
			wants: map[string]string{"b": "", "c": ""},
		}, {
			name: "what those of that name took, whatever their number",
			setup: func(s *state) {
				for i, d := range []time.Duration{7 * minute, 30 * minute, 8 * minute} {
					s.took(asked{name: fmt.Sprintf("train-2026-01-%d", i), gpus: 2}, d)
				}
				s.took(asked{name: "train-2026-02-01", gpus: 1}, minute)             // other needs
				s.took(asked{name: "trainer-1", gpus: 2}, minute)                    // another name
				s.took(asked{name: "train-1", gpus: 2, tenant: "other"}, 500*minute) // another tenant
			},
			running: []asked{{name: "train-9", gpus: 2}}, waiting: []asked{{name: "b", gpus: 1}},
			wants: map[string]string{"b": "8m0s after train-9"},
		}, {
			name: "longer than it usually takes",
			setup: func(s *state) {
				for _, d := range []time.Duration{7 * minute, 30 * minute, 40 * minute, 8 * minute} {
					s.took(asked{name: "a", gpus: 2}, d)
				}
			},
			running: []asked{{name: "a", gpus: 2}}, waiting: []asked{{name: "b", gpus: 1}},
			then:  func(s *state, _ map[string]ident.Job) { s.now = s.now.Add(9 * minute) },
			wants: map[string]string{"b": "31m0s after a"},
		}, {
			name:    "longer than any before, and no limit",
			setup:   func(s *state) { s.took(asked{name: "a", gpus: 2}, minute) },
			running: []asked{{name: "a", gpus: 2}}, waiting: []asked{{name: "b", gpus: 1}},
			then:  func(s *state, _ map[string]ident.Job) { s.now = s.now.Add(9 * minute) },
			wants: map[string]string{"b": "when a ends"},
		}, {
			name:    "longer than any before, and a limit",
			setup:   func(s *state) { s.took(asked{name: "a", gpus: 2}, minute) },
			running: []asked{{name: "a", gpus: 2, limit: 20 * minute}}, waiting: []asked{{name: "b", gpus: 1}},
			then:  func(s *state, _ map[string]ident.Job) { s.now = s.now.Add(9 * minute) },
			wants: map[string]string{"b": "11m0s after a"},
		}, {
			name: "what failed, and what was tried again, tells nothing",
			setup: func(s *state) {
				id := s.ask(asked{name: "a", gpus: 2})
				s.run()
				s.begin(id)
				s.over(id, 1)
				require.Nil(s.t, s.apply(jobverbs.ControlJob{Tenant: "t", Job: id, Action: work.ActionRetry})[0].(jobverbs.ControlResult).Refusal)
				s.run()
				s.begin(id)
				s.over(id, 0)
			},
			running: []asked{{name: "a", gpus: 2}}, waiting: []asked{{name: "b", gpus: 1}},
			wants: map[string]string{"b": "when a ends"},
		}, {
			name:    "its own progress",
			running: []asked{{name: "a", gpus: 2, limit: 100 * minute}}, waiting: []asked{{name: "b", gpus: 1}},
			then: func(s *state, jobs map[string]ident.Job) {
				s.now = s.now.Add(10 * minute)
				s.report(jobs["a"], 0, jobverbs.TaskReport{Kind: jobverbs.ReportProgress, Step: 100, Total: 400})
				s.now = s.now.Add(5 * minute)
			},
			wants: map[string]string{"b": "25m0s after a"},
		}, {
			name:    "progress of the first moments",
			running: []asked{{name: "a", gpus: 2, limit: 100 * minute}}, waiting: []asked{{name: "b", gpus: 1}},
			then: func(s *state, jobs map[string]ident.Job) {
				s.now = s.now.Add(10 * minute)
				s.report(jobs["a"], 0, jobverbs.TaskReport{Kind: jobverbs.ReportProgress, Step: 1, Total: 400})
			},
			wants: map[string]string{"b": "1h30m0s after a"},
		}, {
			name: "the quota of the tenant",
			setup: func(s *state) {
				one := int32(1)
				s.apply(queueverbs.PutQuota{Tenant: "t", MaxGPUs: &one})
			},
			running: []asked{{name: "a", gpus: 1, limit: 10 * minute}}, waiting: []asked{{name: "b", gpus: 1}},
			wants: map[string]string{"b": "10m0s after a"},
		}, {
			name:    "the limit of the queue",
			setup:   func(s *state) { s.apply(queueverbs.PutQueue{Queue: work.Queue{Name: "narrow", MaxGPUs: 1}}) },
			running: []asked{{name: "a", gpus: 1, queue: "narrow", limit: 10 * minute}}, waiting: []asked{{name: "b", gpus: 1, queue: "narrow"}, {name: "c", gpus: 1}},
			wants: map[string]string{"b": "10m0s after a", "c": "now"},
		}, {
			name:    "one that is being stopped",
			running: []asked{{name: "a", gpus: 2}}, waiting: []asked{{name: "b", gpus: 1}},
			then: func(s *state, jobs map[string]ident.Job) {
				require.Nil(s.t, s.apply(jobverbs.ControlJob{Tenant: "t", Job: jobs["a"], Action: work.ActionCancel})[0].(jobverbs.ControlResult).Refusal)
			},
			wants: map[string]string{"b": "30s after a"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newState(t)
			s.node("n1", gpus("n1", "H100", 2, 2), nil)
			if tt.setup != nil {
				tt.setup(s)
			}
			jobs := map[string]ident.Job{}
			for _, a := range tt.running {
				jobs[a.name] = s.ask(a)
			}
			s.run()
			for _, a := range tt.running {
				s.begin(jobs[a.name])
			}
			for _, a := range tt.waiting {
				jobs[a.name] = s.ask(a)
			}
			if tt.then != nil {
				tt.then(s, jobs)
			}
			for name, want := range tt.wants {
				require.Equal(t, want, s.expected(jobs, jobs[name]), name)
			}
		})
	}
}

// A job that was preempted has had its turn: younger jobs of its user come before it, and it stays in line.
func TestForecast_ofAPreemptedJob(t *testing.T) {
	s := newState(t)
	s.node("a", gpus("a", "H100", 1, 1), nil)
	old := s.preemptible(work.Shape{GPUs: 1}, 1)
	s.run()
	s.start(old)
	s.now = s.now.Add(3 * time.Hour)
	urgent := s.ask(asked{gpus: 1, priority: 9, limit: time.Hour})
	require.Len(t, s.preempt(), 1)
	s.leave(old)
	s.begin(urgent)
	younger := s.preemptible(work.Shape{GPUs: 1}, 1)
	foreseen := s.foresee("t")
	first, ok := foreseen.Start(younger)
	require.True(t, ok)
	require.Equal(t, urgent, first.After)
	_, again := foreseen.Start(old)
	require.True(t, again)
}

// A job that windows keep from all nodes starts when they end: a maintenance enables the nodes that it has drained.
func TestForesee_whenWindowsEnd(t *testing.T) {
	for name, x := range map[string]struct {
		window windowverbs.PutWindow
		begun  bool
	}{
		"a maintenance that is planned": {windowverbs.PutWindow{Kind: windows.Maintenance, Patterns: []string{"n1"}}, false},
		"a maintenance that goes on":    {windowverbs.PutWindow{Kind: windows.Maintenance, Patterns: []string{"n1"}}, true},
		"a reservation that is planned": {windowverbs.PutWindow{Kind: windows.Reservation, Tenant: "other", GPUs: 8}, false},
		"a reservation that has begun":  {windowverbs.PutWindow{Kind: windows.Reservation, Tenant: "other", GPUs: 8}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(t)
			s.node("n1", gpus("n1", "H100", 8, 8), nil)
			x.window.Name, x.window.From = "w", s.now.Add(10*time.Minute).UnixNano()
			x.window.Until = x.window.From + int64(time.Hour)
			require.Nil(t, s.apply(x.window)[0].(windowverbs.WindowResult).Refusal)
			if x.begun {
				s.pass(11 * time.Minute)
			}
			waits := s.submit(work.Shape{GPUs: 2}, 5)
			require.Zero(t, s.run().Placed)
			start, ok := s.foresee("t").Start(waits)
			require.True(t, ok)
			require.Equal(t, foresee.Start{At: x.window.Until, Window: true}, start)
			s.now = time.Unix(0, x.window.Until)
			s.pass(time.Second)
			require.Equal(t, 1, s.run().Placed)
		})
	}
}
