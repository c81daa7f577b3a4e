package fsm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// TestCheck_canFail breaks a sound state in one place after the other, and requires that Check says so.
func TestCheck_canFail(t *testing.T) {
	firstLive := func(s *state) *Job {
		for id := range s.jobs.active.all() {
			j, _ := s.Job(id)
			return j
		}
		return nil
	}
	firstLease := func(s *state) *Lease {
		for l := range s.Leases() {
			return l
		}
		return nil
	}
	firstKey := func(s *state) *idempotencyKey {
		for k := range s.keys.rows.rows() {
			return k
		}
		return nil
	}
	edit := func(s *state, f func(j *Job)) {
		j := *firstLive(s)
		f(&j)
		s.jobs.rows.put(j.ID, &j)
	}
	// awaiting breaks the job that runs while a lost task of it may still be alive.
	awaiting := func(s *state, f func(j *Job)) {
		for j := range s.jobs.rows.rows() {
			if j.Live() && j.Replacement() {
				c := *j
				c.Awaits = append([]AwaitedTask(nil), j.Awaits...)
				c.Past = append([]PastAttempt(nil), j.Past...)
				f(&c)
				s.jobs.rows.put(c.ID, &c)
				return
			}
		}
		require.Fail(t, "the story has no such job")
	}
	node := func(s *state, id string, f func(n *Node)) {
		n, _ := s.Node(id)
		c := *n
		f(&c)
		s.nodes.rows.put(id, &c)
	}
	// result adds one that is like the first but for what f changes.
	result := func(s *state, f func(r *EvaluationResult)) {
		for r := range s.evaluations.results.rows() {
			c := *r
			f(&c)
			s.putResult(&c)
			return
		}
		require.Fail(t, "the story has no result")
	}
	tests := map[string]struct {
		breakIt func(s *state)
		says    string
	}{
		"a GPU leased twice": {func(s *state) {
			l := *firstLease(s)
			l.Job = 99
			s.leases.rows.put(leaseKey{l.Node, l.Job, l.Rank}, &l)
		}, "I1"},
		"a GPU leased and shared": {func(s *state) {
			l := *firstLease(s)
			l.Job, l.FractionMilli = 99, 100
			s.leases.rows.put(leaseKey{l.Node, l.Job, l.Rank}, &l)
		}, "I1"},
		"a GPU shared beyond the whole": {func(s *state) {
			for i := range 3 {
				l := &Lease{Node: "n1", Job: JobID(90 + i), FractionMilli: 500, GPUs: 1 << 7}
				s.leases.rows.put(leaseKey{l.Node, l.Job, l.Rank}, l)
			}
		}, "I1: n1: GPU 7"},
		"a lease without a task": {func(s *state) {
			s.leases.rows.put(leaseKey{"n1", 99, 0}, &Lease{Job: 99, Node: "n1"})
		}, "I2"},
		"half a gang": {func(s *state) {
			l := firstLease(s)
			s.leases.rows.delete(leaseKey{l.Node, l.Job, l.Rank})
		}, "I2"},
		"a lease under another token": {func(s *state) {
			l := *firstLease(s)
			l.Token++
			s.leases.rows.put(leaseKey{l.Node, l.Job, l.Rank}, &l)
		}, "I2"},
		"leases of a finished job":   {func(s *state) { edit(s, func(j *Job) { j.State, j.FinishedAt = v1.JobState_FAILED, 1 }) }, "I2"},
		"a token of the past":        {func(s *state) { edit(s, func(j *Job) { j.Token = 1 }) }, "I3"},
		"a token of the future":      {func(s *state) { edit(s, func(j *Job) { j.Token = 1 << 40 }) }, "I3"},
		"a past attempt out of turn": {func(s *state) { edit(s, func(j *Job) { j.Past = []PastAttempt{{Attempt: 1, Token: 1 << 40}} }) }, "I3"},
		"a key for no job": {func(s *state) {
			k := *firstKey(s)
			s.keys.rows.delete(k.place())
			k.Job = 99
			s.keys.rows.put(k.place(), &k)
		}, "I4"},
		"a key twice": {func(s *state) {
			k := *firstKey(s)
			k.ExpiresAt++
			s.keys.rows.put(k.place(), &k)
		}, "I4"},
		"finished and not finished": {func(s *state) { edit(s, func(j *Job) { j.FinishedAt = 1 }) }, "I5"},
		"a row changed in place":    {func(s *state) { firstLive(s).Name = "changed" }, "I8"},
		"a checkpoint of no job":    {func(s *state) { s.putCheckpoint(&Checkpoint{ID: 9, Job: 99}) }, "I9"},
		"a checkpoint of no attempt": {func(s *state) {
			j := firstLive(s)
			s.putCheckpoint(&Checkpoint{ID: 9, Job: j.ID, Tenant: j.Tenant, Attempt: 7, Token: 7})
		}, "I9"},
		"a last checkpoint that is not there": {func(s *state) { edit(s, func(j *Job) { j.LastCheckpoint = 77 }) }, "I9"},
		"a checkpoint without a manifest": {func(s *state) {
			j := firstLive(s)
			s.putCheckpoint(&Checkpoint{ID: CheckpointID(s.meta.Index << idPositionBits), Job: j.ID, Tenant: j.Tenant, Attempt: j.Attempt, Token: j.Token})
		}, "has no manifest"},
		"a checkpoint of an attempt to come": {func(s *state) {
			j := firstLive(s)
			s.putCheckpoint(&Checkpoint{ID: 9, Job: j.ID, Tenant: j.Tenant, Attempt: j.Attempt, Token: j.Token + 1})
		}, "I9"},
		"lost by a minority": {func(s *state) {
			awaiting(s, func(j *Job) { j.Awaits[0].Loss.Votes = 1 })
		}, "I6"},
		"lost before its time": {func(s *state) {
			awaiting(s, func(j *Job) { j.Awaits[0].Loss.Silent = j.LostAfter - 1 })
		}, "I6"},
		"lost without grounds": {func(s *state) { awaiting(s, func(j *Job) { j.Awaits[0].Loss.How = LossReboot }) }, "on the grounds"},
		"a past attempt by a minority": {func(s *state) {
			awaiting(s, func(j *Job) { j.Past[0].Loss = &Loss{How: LossVerdict, Votes: 1, Voters: 2, Silent: 1e12} })
		}, "I6"},
		"an end by a minority":           {func(s *state) { edit(s, func(j *Job) { j.Ending = &Ending{Loss: &Loss{How: LossVerdict}} }) }, "I6"},
		"lost and ended by itself":       {func(s *state) { awaiting(s, func(j *Job) { j.Past[0].ErrorType = v1.ErrorType_OOM }) }, "I6"},
		"waiting for one task twice":     {func(s *state) { awaiting(s, func(j *Job) { j.Awaits = append(j.Awaits, j.Awaits[0]) }) }, "twice"},
		"waiting for nobody":             {func(s *state) { awaiting(s, func(j *Job) { j.Awaits[0].Node = "n9" }) }, "n9, which there is not"},
		"waiting for an attempt to come": {func(s *state) { awaiting(s, func(j *Job) { j.Awaits[0].Attempt = 9 }) }, "I3"},
		"waiting by an unknown roster":   {func(s *state) { awaiting(s, func(j *Job) { j.Awaits[0].Roster = 1 << 40 }) }, "had acknowledged a roster"},
		"waiting for a live task": {func(s *state) {
			awaiting(s, func(j *Job) { j.Awaits[0].Attempt, j.Awaits[0].Token = j.Attempt, j.Token })
		}, "is waited for as lost"},
		"waiting unlisted": {func(s *state) {
			for a := range s.jobs.awaits.all() {
				s.jobs.awaits.delete(a)
				return
			}
		}, "not listed as waiting for n3"},
		"listed and not waiting":        {func(s *state) { s.jobs.awaits.put(awaitingJob{"n1", 9}) }, "the index of awaited tasks"},
		"away and on the roster":        {func(s *state) { node(s, "n3", func(n *Node) { n.RosterSince = 1 }) }, "is on the roster"},
		"a roster to come":              {func(s *state) { node(s, "n1", func(n *Node) { n.RosterSince = 1 << 40 }) }, "the newest is"},
		"a roster unheard of":           {func(s *state) { node(s, "n1", func(n *Node) { n.RosterAcked = 1 << 40 }) }, "has acknowledged"},
		"a roster of tomorrow":          {func(s *state) { s.meta.RosterVersion = 1 << 40 }, "the roster is of index"},
		"enabled tomorrow":              {func(s *state) { node(s, "n1", func(n *Node) { n.EnabledAt = 1 << 40 }) }, "was enabled"},
		"lost and there":                {func(s *state) { node(s, "n1", func(n *Node) { n.LostSince = 1 }) }, "I6: n1 is lost"},
		"lost and not counted":          {func(s *state) { s.meta.NodesLost = 0 }, "were declared lost"},
		"a job unlisted for its tenant": {func(s *state) { edit(s, func(j *Job) { j.Tenant = "x" }) }, "I11"},
		"a group that counts wrong": {func(s *state) {
			for g := range s.jobs.groups.all() {
				g.Jobs++
				s.jobs.groups.put(g)
				return
			}
		}, "I11: the group"},
		"a group uncounted": {func(s *state) {
			for g := range s.jobs.groups.all() {
				s.jobs.groups.delete(g)
				return
			}
		}, "groups of jobs are not counted"},
		"a job in two groups": {func(s *state) { s.jobs.grouped.put(groupedJob{1 << 40, 1}) }, "the index of groups has"},
		"waiting jobs uncounted": {func(s *state) {
			for b := range s.jobs.blocks.all() {
				s.jobs.blocks.delete(b)
				return
			}
		}, "blocks of waiting jobs are not counted"},
		"waiting jobs counted wrong": {func(s *state) { s.jobs.blocks.put(waitingBlock{blockKey{"x", 7}, 3}) }, "of waiting jobs has 3, counted anew 0"},
		"wrong counts":               {func(s *state) { s.jobs.counts[1]++ }, "counts are"},
		"wrong figures of a queue":   {func(s *state) { s.queues.figures.put(namedFigures{"default", &queueFigures{}}) }, "the figures of queue"},
		"wrong figures of a tenant": {func(s *state) {
			for f := range s.queues.shares.all() {
				s.queues.shares.put(tenantFigures{f.of, &queueFigures{gpuMilli: 1}})
				return
			}
		}, "I11: the figures of tenant"},
		"a tenant's part uncounted": {func(s *state) {
			for f := range s.queues.shares.all() {
				s.queues.shares.delete(f)
				return
			}
		}, "parts of queues that tenants have are not counted"},
		"wrong use of a node": {func(s *state) { s.leases.use.put(nodeUse{"n1", &NodeUse{}}) }, "the use of n1"},
		"a job waiting unlisted": {func(s *state) {
			for w := range s.jobs.waiting.all() {
				s.jobs.waiting.delete(w)
				return
			}
		}, "the index of waiting has"},
		"a job active unlisted": {func(s *state) { s.jobs.active.delete(firstLive(s).ID) }, "not listed as active"},
		"a timer too many":      {func(s *state) { s.jobs.timers.put(jobTimer{5, 5}) }, "the index of timers"},
		"a reason for nobody":   {func(s *state) { s.jobs.reasons.put(ClassKey{Queue: "x"}, &classReason{Class: ClassKey{Queue: "x"}}) }, "a reason for class"},
		"a job in no queue":     {func(s *state) { edit(s, func(j *Job) { j.Queue = "x" }) }, "which does not exist"},
		"a task out of rank":    {func(s *state) { edit(s, func(j *Job) { j.Tasks = []Task{{Rank: 1}} }) }, "has rank 1"},
		"a state that is none":  {func(s *state) { edit(s, func(j *Job) { j.State = 12 }) }, "has the state 12"},
		"a node in a wrong state": {func(s *state) {
			n, _ := s.Node("n1")
			c := *n
			c.State = v1.NodeState_LOST
			s.nodes.rows.put("n1", &c)
		}, "n1 is LOST and should be READY"},
		"a launcher without argv":    {func(s *state) { s.launchers.rows.put("X", &Launcher{Framework: "X"}) }, "a launcher that would not be taken"},
		"a launcher of tomorrow":     {func(s *state) { l := testLauncher("X"); l.Revision = 1 << 40; s.launchers.rows.put("X", &l) }, "was put at index"},
		"a result of no job":         {func(s *state) { result(s, func(r *EvaluationResult) { r.Job = 99 }) }, "I11: a result"},
		"a result of another tenant": {func(s *state) { result(s, func(r *EvaluationResult) { r.Tenant = "x" }) }, "I11: a result"},
		"a result of a job that is no evaluation": {func(s *state) {
			result(s, func(r *EvaluationResult) {
				j, _ := s.Job(r.Job)
				c := *j
				c.Labels = nil
				s.jobs.rows.put(c.ID, &c)
			})
		}, "I11: a result"},
		"a result of no attempt":         {func(s *state) { result(s, func(r *EvaluationResult) { r.Attempt = 7 }) }, "I11: the result"},
		"a result of an attempt to come": {func(s *state) { result(s, func(r *EvaluationResult) { r.Token++ }) }, "I11: the result"},
		"a result out of bounds":         {func(s *state) { result(s, func(r *EvaluationResult) { r.Error = strings.Repeat("x", 2000) }) }, "out of bounds"},
		"two results in one place":       {func(s *state) { result(s, func(r *EvaluationResult) { r.Benchmark = "other" }) }, "the place 1"},
		"results without end": {func(s *state) {
			for i := range MaxResultsPerJob {
				result(s, func(r *EvaluationResult) {
					r.Benchmark, r.Place = strings.Repeat("x", 1+i%100)+strings.Repeat("y", i/100), uint64(5+i)
				})
			}
		}, "results of more than"},
		"a node away unlisted": {func(s *state) { s.nodes.away.put("x") }, "nodes away"},
		"a pause without an end": {func(s *state) {
			for j := range s.jobs.rows.rows() {
				if j.Held&HoldBackoff != 0 {
					c := *j
					c.Streak.After = 0
					s.jobs.rows.put(c.ID, &c)
				}
			}
		}, "pauses without an end"},
		"attempts in vain without end": {func(s *state) { edit(s, func(j *Job) { j.Streak.Fruitless = MaxFruitless }) }, "brought nothing new"},
		"a hold of a recovery that ends never": {func(s *state) {
			for j := range s.jobs.rows.rows() {
				if j.Waiting() {
					c := *j
					c.Held = HoldRecovery
					s.jobs.rows.put(c.ID, &c)
				}
			}
		}, "settles at 0"},
		"a node that is unheard without a recovery": {func(s *state) { node(s, "n1", func(n *Node) { n.Unheard = true }) }, "has not been heard of"},
		"an unheard node unlisted":                  {func(s *state) { s.nodes.unheard.put("x") }, "were not heard of"},
		"a job placed before all nodes were heard": {func(s *state) {
			j := firstLive(s)
			s.meta.Recovered, s.meta.RecoveredAt = j.Token-1, 1
			s.nodes.unheard.put("n1")
		}, "was given attempt"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			w := story(t)
			require.Empty(t, Check(w.m.View()))
			// The rows that are changed in place are shared with the view: only this test does that.
			c.breakIt(w.m.st)
			found := strings.Join(Check(w.m.publish()), "\n")
			require.Contains(t, found, c.says)
		})
	}
}
