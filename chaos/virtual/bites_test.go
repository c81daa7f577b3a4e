package virtual

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/chaos/virtual/machine"
)

// broken runs play in a cluster that is broken on purpose, and returns the findings of the checkers.
func broken(t *testing.T, o Options, play func(s *scene)) []string {
	t.Helper()
	o.Dir = t.TempDir()
	var findings []string
	synctest.Test(t, func(t *testing.T) {
		c := New(o)
		defer c.Close()
		c.Start()
		s := &scene{Cluster: c, Workload: c.Work(Load{LostAfter: 20 * time.Second}), t: t}
		play(s)
		findings = c.Findings.All()
	})
	return findings
}

func TestCheckers_noticeTasksThatOutliveTheirDeadline(t *testing.T) {
	findings := broken(t, Options{Coordinators: 3, Agents: 3, Seed: 21, ImmortalTasks: true}, func(s *scene) {
		job := s.running(&Job{Key: "job", Ranks: 1, Restarts: true, Does: machine.Behaviour{Run: 30 * time.Minute}})
		time.Sleep(time.Minute)
		s.isolate(s.agents[s.on(job)].ip, true)
		time.Sleep(2 * time.Minute)
	})
	require.Contains(t, strings.Join(findings, "\n"), "I2")
}

func TestCheckers_noticeDisksThatForget(t *testing.T) {
	findings := broken(t, Options{Coordinators: 3, Agents: 1, Seed: 22, ForgetfulDisks: true}, func(s *scene) {
		for i := range 30 {
			s.Submit(0, &Job{Key: fmt.Sprintf("job-%d", i), Ranks: 1, Does: machine.Behaviour{Run: time.Second}})
		}
		for i := range s.coordinators {
			s.CrashCoordinator(i, true)
		}
		time.Sleep(10 * time.Second)
		for i := range s.coordinators {
			s.StartCoordinator(i)
		}
		time.Sleep(time.Minute)
		s.Rest()
		s.Settle(5 * time.Minute)
	})
	require.NotEmpty(t, findings)
}
