package virtual

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/chaos/virtual/machine"
	"github.com/mindcoordinator/mind/chaos/virtual/network"
)

// trainings returns jobs that work for the given time: with one rank and two, restartable and not, some of which
// succeed and some fail.
func trainings(run time.Duration) []*Job {
	var all []*Job
	for i := range 6 {
		j := &Job{Key: fmt.Sprintf("training-%d", i), Ranks: 1 + i%2, Restarts: i/2%2 == 1, Does: machine.Behaviour{Run: run + time.Duration(i)*time.Minute}}
		if i >= 4 {
			j.Does.Exit = 10 + i
		}
		all = append(all, j)
	}
	return all
}

// long reports whether to run the scenarios in their full length and in all variants.
func long() bool { return os.Getenv("MIND_CHAOS_LONG") != "" }

// TestWithoutQuorum runs a part of the two hours without a quorum. With MIND_CHAOS_LONG it runs all of them.
func TestWithoutQuorum(t *testing.T) {
	outageTime := 8 * time.Minute
	if long() {
		outageTime = 2 * time.Hour
	}
	for name, outage := range map[string]struct{ begin, end func(s *scene) }{
		"two of three coordinators are down": {
			begin: func(s *scene) { s.CrashCoordinator(0, true); s.CrashCoordinator(1, true) },
			end:   func(s *scene) { s.StartCoordinator(0); s.StartCoordinator(1) },
		},
		"no agent reaches a coordinator": {
			begin: func(s *scene) { s.planes(true) },
			end:   func(s *scene) { s.planes(false) },
		},
		"coordinators do not reach each other": {
			begin: func(s *scene) { s.apart(true) },
			end:   func(s *scene) { s.apart(false) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			if !long() && name != "no agent reaches a coordinator" {
				t.Skip("MIND_CHAOS_LONG plays this")
			}
			stage(t, Options{Coordinators: 3, Agents: 3, GPUs: 8, Seed: 11, Heartbeat: 2 * time.Second, Commit: 500 * time.Millisecond}, func(s *scene) {
				jobs := trainings(outageTime / 4)
				longer := trainings(outageTime + 10*time.Minute)
				for i, j := range longer {
					j.Key = fmt.Sprintf("long-%d", i)
				}
				jobs = append(jobs, longer[:3]...)
				for _, j := range jobs {
					s.running(j)
				}
				time.Sleep(time.Minute)
				outage.begin(s)
				time.Sleep(outageTime)
				live, _ := s.World.Live()
				require.Equal(s.t, 4, live, "of the long ones everybody lives")
				outage.end(s)
				s.Rest()
				ended := s.Settle(3 * time.Hour)
				s.unharmed(jobs...)
				for _, j := range jobs {
					require.Equal(s.t, int32(j.Does.Exit), ended[j.Key].GetExitCode(), j.Key)
					require.EqualValues(s.t, 1, ended[j.Key].GetAttempt(), j.Key)
				}
				require.Zero(s.t, s.Replicas.Lost())
			})
		})
	}
}

// planes cuts, or restores, all links between agents and coordinators.
func (s *scene) planes(cut bool) {
	coordinators, agents := s.IPs()
	for _, c := range coordinators {
		for _, a := range agents {
			s.Network.Cut(c, a, cut)
			s.Network.Cut(a, c, cut)
		}
	}
}

// apart cuts, or restores, all links between coordinators.
func (s *scene) apart(cut bool) {
	coordinators, _ := s.IPs()
	for _, a := range coordinators {
		for _, b := range coordinators {
			if a != b {
				s.Network.Cut(a, b, cut)
			}
		}
	}
}

// TestLossAndStalls runs a part of a day with a tenth of all messages lost and stalls of 5 s.
func TestLossAndStalls(t *testing.T) {
	if long() {
		lossAndStalls(t, 24*time.Hour)
		return
	}
	lossAndStalls(t, 15*time.Minute)
}

func lossAndStalls(t *testing.T, length time.Duration) {
	stage(t, Options{Coordinators: 3, Agents: 3, Seed: 12, Drift: 0.001}, func(s *scene) {
		jobs := trainings(length - 10*time.Minute)
		for _, j := range jobs {
			s.running(j)
		}
		s.Weather(network.Weather{Delay: time.Millisecond, Jitter: 5 * time.Millisecond, Loss: 0.1, Double: 0.02, Stall: 0.002, StallFor: 5 * time.Second})
		time.Sleep(length)
		s.Weather(network.Weather{})
		s.Rest()
		s.Settle(time.Hour)
		s.unharmed(jobs...)
		require.Zero(s.t, s.Replicas.Lost())
	})
}

func TestNodeCutOff_replacedAndNeverTwice(t *testing.T) {
	for name, cut := range map[string]func(s *scene, ip string, cut bool){
		"both ways": func(s *scene, ip string, cut bool) { s.isolate(ip, cut) },
		"nothing that it says arrives": func(s *scene, ip string, cut bool) {
			for other := range s.others(ip) {
				s.Network.Cut(ip, other, cut)
			}
		},
		"it hears nothing": func(s *scene, ip string, cut bool) {
			for other := range s.others(ip) {
				s.Network.Cut(other, ip, cut)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			if !long() && name != "both ways" {
				t.Skip("MIND_CHAOS_LONG plays this")
			}
			stage(t, Options{Coordinators: 3, Agents: 3, Seed: 13, Drift: 0.005}, func(s *scene) {
				s.load.LostAfter = time.Minute
				job := s.running(&Job{Key: "replaced", Ranks: 1, Restarts: true, Does: machine.Behaviour{Run: 30 * time.Minute, Stubborn: true}})
				kept := s.running(&Job{Key: "kept", Ranks: 1, Does: machine.Behaviour{Run: 5 * time.Minute, Exit: 7}})
				first := s.on(job)
				time.Sleep(time.Minute)
				began := time.Now()
				cut(s, s.agents[first].ip, true)
				s.await(job, 2*time.Minute, func(j *v1.Job) bool { return j.GetAttempt() == 2 && j.GetState() == v1.JobState_RUNNING })
				require.LessOrEqual(s.t, time.Since(began), 75*time.Second, "LOST within lost_after + 5 s, and then it is launched")
				require.NotEqual(s.t, first, s.on(job))
				time.Sleep(10 * time.Minute)
				cut(s, s.agents[first].ip, false)
				s.Rest()
				ended := s.Settle(2 * time.Hour)
				require.Equal(s.t, v1.JobState_SUCCEEDED, ended["replaced"].GetState())
				require.EqualValues(s.t, 2, ended["replaced"].GetAttempt())
				// A task that may not be replaced was not: it was cut off and kept running.
				s.unharmed(kept)
				require.EqualValues(s.t, 7, ended["kept"].GetExitCode())
			})
		})
	}
}

// others returns the addresses of all other components.
func (s *scene) others(ip string) map[string]bool {
	coordinators, agents := s.IPs()
	all := map[string]bool{s.Cluster.users.IP(): true}
	for _, other := range append(coordinators, agents...) {
		if other != ip {
			all[other] = true
		}
	}
	return all
}

func TestAgentAwayForTenMinutes(t *testing.T) {
	for name, away := range map[string]struct{ begin, end func(s *scene, node int) }{
		"dead":    {func(s *scene, n int) { s.CrashAgent(n, false) }, func(s *scene, n int) { s.StartAgent(n) }},
		"stopped": {func(s *scene, n int) { s.Stop(s.agents[n].ip) }, func(s *scene, n int) { s.Continue(s.agents[n].ip) }},
	} {
		t.Run(name, func(t *testing.T) {
			stage(t, Options{Coordinators: 3, Agents: 3, Seed: 14, Drift: 0.005}, func(s *scene) {
				// All of these run on one node; the other nodes are full until then.
				s.load.LostAfter = time.Minute
				fill := []*Job{
					s.running(&Job{Key: "fill-1", Ranks: 1, Does: machine.Behaviour{Run: time.Minute}}),
				}
				retryable := s.running(&Job{Key: "retryable", Ranks: 1, Restarts: true, Does: machine.Behaviour{Run: 20 * time.Minute}})
				node := s.on(retryable)
				var kept []*Job
				for i := range 8 {
					j := s.running(&Job{Key: fmt.Sprintf("kept-%d", i), Ranks: 1, Does: machine.Behaviour{Run: time.Duration(2+2*i) * time.Minute, Exit: i}})
					kept = append(kept, j)
				}
				away.begin(s, node)
				s.await(retryable, 2*time.Minute, func(j *v1.Job) bool { return j.GetAttempt() == 2 && j.GetState() == v1.JobState_RUNNING })
				require.NotEqual(s.t, node, s.on(retryable))
				time.Sleep(10 * time.Minute)
				away.end(s, node)
				s.Rest()
				ended := s.Settle(time.Hour)
				s.unharmed(append(kept, fill...)...)
				for i, j := range kept {
					require.EqualValues(s.t, i, ended[j.Key].GetExitCode())
				}
				require.EqualValues(s.t, 2, ended["retryable"].GetAttempt())
				require.Equal(s.t, v1.JobState_SUCCEEDED, ended["retryable"].GetState())
			})
		})
	}
}

func TestNodeAndLeaderDieTogether_lostInTime(t *testing.T) {
	stage(t, Options{Coordinators: 3, Agents: 3, Seed: 15}, func(s *scene) {
		s.load.LostAfter = time.Minute
		job := s.running(&Job{Key: "job", Ranks: 1, Restarts: true, Does: machine.Behaviour{Run: 10 * time.Minute}})
		time.Sleep(time.Minute)
		node, leader := s.on(job), s.leader()
		began := time.Now()
		s.CrashCoordinator(leader, true)
		s.CrashAgent(node, true)
		s.await(job, 3*time.Minute, func(j *v1.Job) bool { return j.GetAttempt() == 2 && j.GetState() == v1.JobState_RUNNING })
		// A new leader grants each node a whole new period, which begins with its term.
		require.LessOrEqual(s.t, time.Since(began), 80*time.Second)
		s.StartCoordinator(leader)
		s.StartAgent(node)
		s.Rest()
		s.Settle(time.Hour)
	})
}
