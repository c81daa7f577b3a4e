package virtual

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// scene is a cluster in a bubble, with a user who calls when the test says.
type scene struct {
	*Cluster
	*Workload
	t *testing.T
}

// stage runs a scene and fails the test if the checkers have findings.
func stage(t *testing.T, o Options, play func(s *scene)) {
	t.Helper()
	o.Dir = t.TempDir()
	began := now()
	var lived time.Duration
	var findings, journal []string
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := New(o)
		defer c.Close()
		defer func() {
			c.CheckViews()
			findings, lived = c.Findings.All(), time.Since(start)
			if t.Failed() || len(findings) > 0 {
				journal = c.Journal(400)
			}
		}()
		c.Start()
		play(&scene{Cluster: c, Workload: c.Work(Load{}), t: t})
	})
	t.Logf("%s of cluster life in %.1f s", lived.Round(time.Second), now().Sub(began).Seconds())
	if len(journal) > 0 {
		t.Logf("%s", strings.Join(journal, "\n"))
	}
	require.Empty(t, findings)
}

// running submits a job and waits until all of its ranks run.
func (s *scene) running(j *Job) *Job {
	s.t.Helper()
	s.Submit(0, j)
	s.await(j, 2*time.Minute, func(job *v1.Job) bool { return job.GetState() == v1.JobState_RUNNING })
	return j
}

// await reads a job until a condition holds.
func (s *scene) await(j *Job, within time.Duration, want func(*v1.Job) bool) *v1.Job {
	s.t.Helper()
	var job *v1.Job
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if got := s.Get(0, j); got != nil {
			if job = got; want(job) {
				return job
			}
		}
	}
	require.Failf(s.t, "a job never came to what was awaited", "%s after %s: %v\n%s", j.Key, within, job, s.World.Story(j.ID))
	return nil
}

// on returns the number of the node on which the only task of the job runs.
func (s *scene) on(j *Job) int {
	s.t.Helper()
	lives := s.World.LiveOf(j.ID)
	require.Len(s.t, lives, 1, s.World.Story(j.ID))
	for i, n := range s.agents {
		if n.id == lives[0].Node {
			return i
		}
	}
	return -1
}

// isolate cuts a component off from all others, or connects it again.
func (s *scene) isolate(ip string, cut bool) {
	coordinators, agents := s.IPs()
	for _, other := range append(append(coordinators, agents...), s.Cluster.users.IP()) {
		if other != ip {
			s.Network.Cut(ip, other, cut)
			s.Network.Cut(other, ip, cut)
		}
	}
}

// leader returns the number of the leading coordinator, as far as the client knows.
func (s *scene) leader() int {
	s.t.Helper()
	for range 600 {
		ctx, cancel := s.context("")
		resp, err := s.client.Operators().ListPeers(ctx, &v1.ListPeersRequest{})
		cancel()
		if err == nil {
			for _, p := range resp.GetPeers() {
				for i, r := range s.places() {
					if p.GetLeader() && p.GetId() == r.id {
						return i
					}
				}
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	require.Fail(s.t, "nobody leads")
	return -1
}

// unharmed requires that each rank of the jobs had one process, which ended by itself, and that the jobs have ended.
func (s *scene) unharmed(jobs ...*Job) {
	s.t.Helper()
	for _, j := range jobs {
		lives := s.World.Lives(j.ID)
		require.Len(s.t, lives, j.Ranks, "%s was harmed:\n%s", j.Key, s.World.Story(j.ID))
		for _, l := range lives {
			require.Equal(s.t, "its work was done", l.Why, s.World.Story(j.ID))
		}
	}
}
