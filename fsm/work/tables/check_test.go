package tables

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/catalog"
	"github.com/mindcoordinator/mind/fsm/coordinators"
	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/flows"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/once"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/schedules"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/accounts"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
	"github.com/mindcoordinator/mind/fsm/work/claims"
	"github.com/mindcoordinator/mind/fsm/work/figures"
	"github.com/mindcoordinator/mind/fsm/work/inuse"
	"github.com/mindcoordinator/mind/fsm/work/keys"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/fsm/work/results"
)

// TestCheck_canFail breaks a sound state in one place after the other, and requires that Check says so.
func TestCheck_canFail(t *testing.T) {
	firstLive := func(s *State) *work.Job {
		for id := range s.jobs.active.All() {
			j, _ := s.Job(id)
			return j
		}
		return nil
	}
	firstLease := func(s *State) *work.Lease {
		for l := range s.Leases() {
			return l
		}
		return nil
	}
	firstKey := func(s *State) *keys.IdempotencyKey {
		for k := range s.Keys() {
			return k
		}
		return nil
	}
	edit := func(s *State, f func(j *work.Job)) {
		j := *firstLive(s)
		f(&j)
		s.jobs.rows.Put(j.ID, &j)
	}
	// awaiting breaks the job that runs while a lost task of it may still be alive.
	awaiting := func(s *State, f func(j *work.Job)) {
		for j := range s.jobs.rows.Rows() {
			if j.Live() && j.Replacement() {
				c := *j
				c.Awaits = append([]work.AwaitedTask(nil), j.Awaits...)
				c.Past = append([]work.PastAttempt(nil), j.Past...)
				f(&c)
				s.jobs.rows.Put(c.ID, &c)
				return
			}
		}
		require.Fail(t, "the story has no such job")
	}
	node := func(s *State, id string, f func(n *work.Node)) {
		n, _ := s.Node(id)
		c := *n
		f(&c)
		s.nodes.rows.Put(id, &c)
	}
	// array breaks the job array of the story.
	array := func(s *State, f func(j *work.Job)) {
		for j := range s.jobs.rows.Rows() {
			if j.Array != nil {
				c := *j
				c.Array = j.Array.Clone()
				f(&c)
				s.jobs.rows.Put(c.ID, &c)
				return
			}
		}
		require.Fail(t, "the story has no array")
	}
	// hold breaks what is held for the gang of the story.
	hold := func(s *State, f func(c *claims.Claim)) {
		for c := range s.Claims() {
			if c.IsHold() {
				other := *c
				other.Tasks, other.Ranks = slices.Clone(c.Tasks), slices.Clone(c.Ranks)
				f(&other)
				claims.Put(&s.Book, &other)
				return
			}
		}
		require.Fail(t, "the story has no hold")
	}
	// result adds one that is like the first but for what f changes.
	result := func(s *State, f func(r *results.EvaluationResult)) {
		for r := range s.Results() {
			c := *r
			f(&c)
			results.Put(&s.Sheet, &c)
			return
		}
		require.Fail(t, "the story has no result")
	}
	tests := map[string]struct {
		breakIt func(s *State)
		says    string
	}{
		"a hold of what the job never had": {func(s *State) { hold(s, func(c *claims.Claim) { c.Tasks[0].Node = "n1" }) }, "I17"},
		"a hold for a rank that failed":    {func(s *State) { hold(s, func(c *claims.Claim) { c.Ranks[0] = 0 }) }, "I17"},
		"a hold of fewer GPUs":             {func(s *State) { hold(s, func(c *claims.Claim) { c.Tasks[0].GPUs = 1 }) }, "I17"},
		"a hold for an attempt of before":  {func(s *State) { hold(s, func(c *claims.Claim) { c.Attempt-- }) }, "I17"},
		"a hold with victims":              {func(s *State) { hold(s, func(c *claims.Claim) { c.Victims = []ident.Job{firstLive(s).ID} }) }, "I17"},
		"an element lost": {func(s *State) {
			array(s, func(j *work.Job) { j.Array.Waiting = j.Array.Waiting.Without(4) })
		}, "I13"},
		"an element that waits and is over": {func(s *State) {
			array(s, func(j *work.Job) { j.Array.Succeeded = j.Array.Succeeded.With(4) })
		}, "I13"},
		"an element that runs and waits": {func(s *State) {
			array(s, func(j *work.Job) { j.Array.Waiting = j.Array.Waiting.With(2) })
		}, "I13"},
		"more elements than may run": {func(s *State) { array(s, func(j *work.Job) { j.MaxParallel = 0; j.Array.Rows.Live++ }) }, "I13"},
		"an array that ended too early": {func(s *State) {
			array(s, func(j *work.Job) { j.State, j.FinishedAt = v1.JobState_FAILED, 1 })
		}, "I13"},
		"an array with an attempt of its own": {func(s *State) { array(s, func(j *work.Job) { j.Attempt, j.Token = 1, 9 }) }, "I13"},
		"elements without their array": {func(s *State) {
			for j := range s.jobs.rows.Rows() {
				if j.Array != nil {
					s.jobs.rows.Delete(j.ID)
					return
				}
			}
		}, "I13"},
		"an ended element that is not listed": {func(s *State) {
			for e := range s.jobs.ended.All() {
				s.jobs.ended.Delete(e)
				return
			}
		}, "whose row may go"},
		"a finished job whose spec would stay": {func(s *State) {
			j := &work.Job{ID: 4242, Tenant: "acme", Queue: work.DefaultQueue, State: v1.JobState_FAILED, FinishedAt: 1, Spec: []byte("x")}
			s.PutJob(nil, j)
			s.jobs.specs.Delete(finishedJob{1, j.ID})
		}, "whose spec is to go"},
		"a GPU leased twice": {func(s *State) {
			l := *firstLease(s)
			l.Job = 99
			s.leases.rows.Put(LeaseKey{l.Node, l.Job, l.Rank}, &l)
		}, "I1"},
		"an account that holds too much": {func(s *State) {
			for a := range s.Accounts() {
				if !a.Idle() {
					c := *a
					c.Holds.GPUMilli += 1000
					accounts.Put(&s.Bank, a, &c)
					return
				}
			}
		}, "and the jobs of its user"},
		"a user without an account": {func(s *State) {
			for a := range s.Accounts() {
				if !a.Idle() {
					accounts.Drop(&s.Bank, a)
					return
				}
			}
		}, "hold something and have no account"},
		"an account that no user holds": {func(s *State) {
			accounts.Put(&s.Bank, nil, &accounts.Account{Queue: "x", Holds: accounts.Amount{CPUs: 1}})
		}, "and the jobs of its user"},
		"an account of the future": {func(s *State) {
			accounts.Put(&s.Bank, nil, &accounts.Account{Queue: "x", At: 1 << 60})
		}, "the account of {x  } is of"},
		"a policy that is not valid": {func(s *State) { policy.Put(&s.Table, &policy.Policy{}) }, "the policy is not valid"},
		"a queue that is a part of itself": {func(s *State) {
			s.queues.rows.Put("loop", &work.Queue{Name: "loop", Parent: "loop"})
		}, "or below itself"},
		"a queue without its parent": {func(s *State) {
			s.queues.rows.Put("child", &work.Queue{Name: "child", Parent: "nobody"})
		}, `is a part of "nobody", which does not exist`},
		"a tree of queues counted wrong": {func(s *State) {
			figures.HoldInTree(&s.Sums, 1, s.Lineage("research"))
		}, `the figures of queue "research"`},
		"nodes added up wrong": {func(s *State) { s.nodes.total.CPUs++ }, "the nodes have"},
		"a GPU leased and shared": {func(s *State) {
			l := *firstLease(s)
			l.Job, l.FractionMilli = 99, 100
			s.leases.rows.Put(LeaseKey{l.Node, l.Job, l.Rank}, &l)
		}, "I1"},
		"a GPU shared beyond the whole": {func(s *State) {
			for i := range 3 {
				l := &work.Lease{Node: "n1", Job: ident.Job(90 + i), FractionMilli: 500, GPUs: 1 << 7}
				s.leases.rows.Put(LeaseKey{l.Node, l.Job, l.Rank}, l)
			}
		}, "I1: n1: GPU 7"},
		"a lease without a task": {func(s *State) {
			s.leases.rows.Put(LeaseKey{"n1", 99, 0}, &work.Lease{Job: 99, Node: "n1"})
		}, "I2"},
		"half a gang": {func(s *State) {
			l := firstLease(s)
			s.leases.rows.Delete(LeaseKey{l.Node, l.Job, l.Rank})
		}, "I2"},
		"a lease under another token": {func(s *State) {
			l := *firstLease(s)
			l.Token++
			s.leases.rows.Put(LeaseKey{l.Node, l.Job, l.Rank}, &l)
		}, "I2"},
		"leases of a finished job": {func(s *State) { edit(s, func(j *work.Job) { j.State, j.FinishedAt = v1.JobState_FAILED, 1 }) }, "I2"},
		"a token of the past":      {func(s *State) { edit(s, func(j *work.Job) { j.Token = 1 }) }, "I3"},
		"a token of the future":    {func(s *State) { edit(s, func(j *work.Job) { j.Token = 1 << 40 }) }, "I3"},
		"a past attempt out of turn": {func(s *State) {
			edit(s, func(j *work.Job) { j.Past = []work.PastAttempt{{Attempt: 1, Token: 1 << 40}} })
		}, "I3"},
		"a key for no job": {func(s *State) {
			k := *firstKey(s)
			keys.Drop(&s.Ring, firstKey(s))
			k.Job = 99
			keys.Put(&s.Ring, &k)
		}, "I4"},
		"a key twice": {func(s *State) {
			k := *firstKey(s)
			k.ExpiresAt++
			keys.Put(&s.Ring, &k)
		}, "I4"},
		"finished and not finished": {func(s *State) { edit(s, func(j *work.Job) { j.FinishedAt = 1 }) }, "I5"},
		"a row changed in place":    {func(s *State) { firstLive(s).Name = "changed" }, "I8"},
		"a durable checkpoint without a digest": {func(s *State) {
			editCheckpoint(s, func(c *checkpoints.Checkpoint) { c.State = v1.CheckpointState_DURABLE })
		}, "I9"},
		"a digest of contents that nobody stored": {func(s *State) {
			editCheckpoint(s, func(c *checkpoints.Checkpoint) { c.ContentDigest = "d" })
		}, "I9"},
		"a checkpoint that is removed although it is wanted": {func(s *State) {
			editCheckpoint(s, func(c *checkpoints.Checkpoint) { c.Left = checkpoints.LeftFiles })
		}, "I9"},
		"bytes in the archive that nobody removes": {func(s *State) {
			editCheckpoint(s, func(c *checkpoints.Checkpoint) { c.StoredBytes = 1 })
		}, "I9"},
		"an expired checkpoint without a reason": {func(s *State) {
			editCheckpoint(s, func(c *checkpoints.Checkpoint) { c.State, c.Left = v1.CheckpointState_EXPIRED, 0 })
		}, "I9"},
		"a checkpoint in no state": {func(s *State) {
			editCheckpoint(s, func(c *checkpoints.Checkpoint) { c.State = 9 })
		}, "I9"},
		"more uploaded than there is": {func(s *State) {
			editCheckpoint(s, func(c *checkpoints.Checkpoint) { c.UploadedBytes = c.SizeBytes + 1 })
		}, "bytes uploaded"},
		"a leftover beside its row": {func(s *State) {
			c := localCheckpoint(s)
			checkpoints.PutLeftover(&s.Tables, &checkpoints.Leftover{ID: c.ID, Node: c.Node, Key: c.ArchiveKey()})
		}, "I9"},
		"a leftover with a key of another": {func(s *State) {
			checkpoints.PutLeftover(&s.Tables, &checkpoints.Leftover{ID: 7, Node: "n1", Key: checkpoints.ArchiveKey("acme", 1, 8)})
		}, "I9"},
		"a last checkpoint that was given up": {func(s *State) {
			for c := range s.Checkpoints() {
				if j, ok := s.Job(c.Job); ok && j.LastCheckpoint == c.ID {
					changed := *c
					changed.State, changed.Reason, changed.ContentDigest = v1.CheckpointState_EXPIRED, "gone", ""
					checkpoints.Put(&s.Tables, &changed)
					return
				}
			}
		}, "I9"},
		"a need that is not listed": {func(s *State) {
			for j := range s.Jobs(false, 0) {
				if n := j.Needs(); n[1] != 0 {
					checkpoints.Need(&s.Tables, j.ID, n, [2]ident.Checkpoint{})
				}
			}
		}, "needs"},
		"a checkpoint of no job": {func(s *State) { checkpoints.Put(&s.Tables, &checkpoints.Checkpoint{ID: 9, Job: 99}) }, "I9"},
		"a checkpoint of no attempt": {func(s *State) {
			j := firstLive(s)
			checkpoints.Put(&s.Tables, &checkpoints.Checkpoint{ID: 9, Job: j.ID, Tenant: j.Tenant, Attempt: 7, Token: 7})
		}, "I9"},
		"a last checkpoint that is not there": {func(s *State) { edit(s, func(j *work.Job) { j.LastCheckpoint = 77 }) }, "I9"},
		"a checkpoint without a manifest": {func(s *State) {
			j := firstLive(s)
			checkpoints.Put(&s.Tables, &checkpoints.Checkpoint{ID: ident.Checkpoint(s.meta.Index << kernel.IDPositionBits), Job: j.ID, Tenant: j.Tenant, Attempt: j.Attempt, Token: j.Token})
		}, "has no manifest"},
		"a checkpoint of an attempt to come": {func(s *State) {
			j := firstLive(s)
			checkpoints.Put(&s.Tables, &checkpoints.Checkpoint{ID: 9, Job: j.ID, Tenant: j.Tenant, Attempt: j.Attempt, Token: j.Token + 1})
		}, "I9"},
		"lost by a minority": {func(s *State) {
			awaiting(s, func(j *work.Job) { j.Awaits[0].Loss.Votes = 1 })
		}, "I6"},
		"lost before its time": {func(s *State) {
			awaiting(s, func(j *work.Job) { j.Awaits[0].Loss.Silent = j.LostAfter - 1 })
		}, "I6"},
		"lost without grounds": {func(s *State) { awaiting(s, func(j *work.Job) { j.Awaits[0].Loss.How = work.LossReboot }) }, "on the grounds"},
		"a past attempt by a minority": {func(s *State) {
			awaiting(s, func(j *work.Job) {
				j.Past[0].Loss = &work.Loss{How: work.LossDeclared, Votes: 1, Voters: 2, Silent: 1e12}
			})
		}, "I6"},
		"an end by a minority": {func(s *State) {
			edit(s, func(j *work.Job) { j.Ending = &work.Ending{Loss: &work.Loss{How: work.LossDeclared}} })
		}, "I6"},
		"lost and ended by itself":       {func(s *State) { awaiting(s, func(j *work.Job) { j.Past[0].ErrorType = v1.ErrorType_OOM }) }, "I6"},
		"waiting for one task twice":     {func(s *State) { awaiting(s, func(j *work.Job) { j.Awaits = append(j.Awaits, j.Awaits[0]) }) }, "twice"},
		"waiting for nobody":             {func(s *State) { awaiting(s, func(j *work.Job) { j.Awaits[0].Node = "n9" }) }, "n9, which there is not"},
		"waiting for an attempt to come": {func(s *State) { awaiting(s, func(j *work.Job) { j.Awaits[0].Attempt = 9 }) }, "I3"},
		"waiting by an unknown roster":   {func(s *State) { awaiting(s, func(j *work.Job) { j.Awaits[0].Roster = 1 << 40 }) }, "had acknowledged a roster"},
		"waiting for a live task": {func(s *State) {
			awaiting(s, func(j *work.Job) { j.Awaits[0].Attempt, j.Awaits[0].Token = j.Attempt, j.Token })
		}, "is waited for as lost"},
		"waiting unlisted": {func(s *State) {
			for a := range s.jobs.awaits.All() {
				s.jobs.awaits.Delete(a)
				return
			}
		}, "not listed as waiting for n3"},
		"listed and not waiting":        {func(s *State) { s.jobs.awaits.Put(awaitingJob{"n1", 9}) }, "the index of awaited tasks"},
		"away and on the roster":        {func(s *State) { node(s, "n3", func(n *work.Node) { n.RosterSince = 1 }) }, "is on the roster"},
		"a roster to come":              {func(s *State) { node(s, "n1", func(n *work.Node) { n.RosterSince = 1 << 40 }) }, "the newest is"},
		"a roster unheard of":           {func(s *State) { node(s, "n1", func(n *work.Node) { n.RosterAcked = 1 << 40 }) }, "has acknowledged"},
		"a roster of tomorrow":          {func(s *State) { s.meta.RosterVersion = 1 << 40 }, "the roster is of index"},
		"enabled tomorrow":              {func(s *State) { node(s, "n1", func(n *work.Node) { n.EnabledAt = 1 << 40 }) }, "was enabled"},
		"lost and there":                {func(s *State) { node(s, "n1", func(n *work.Node) { n.LostSince = 1 }) }, "I6: n1 is lost"},
		"lost and not counted":          {func(s *State) { s.meta.NodesLost = 0 }, "were declared lost"},
		"a job unlisted for its tenant": {func(s *State) { edit(s, func(j *work.Job) { j.Tenant = "x" }) }, "I11"},
		"wrong counts":                  {func(s *State) { s.jobs.counts[1]++ }, "counts are"},
		"wrong figures of a queue":      {func(s *State) { figures.Count(&s.Sums, firstLive(s), 1) }, "the figures of queue"},
		"wrong figures of a tenant":     {func(s *State) { figures.Count(&s.Sums, firstLive(s), 1) }, "I11: the figures of tenant"},
		"wrong use of a node":           {func(s *State) { *inuse.Change(&s.leases.use, "n1") = work.NodeUse{} }, "the use of n1"},
		"a waiting job that is listed nowhere": {func(s *State) {
			for j := range s.jobs.rows.Rows() {
				if j.Waiting() && j.Array == nil {
					s.unlist(j)
					return
				}
			}
		}, "the index of waiting has"},
		"a job active unlisted":           {func(s *State) { s.jobs.active.Delete(firstLive(s).ID) }, "not listed as active"},
		"a timer too many":                {func(s *State) { s.jobs.timers.Put(jobTimer{5, 5}) }, "the index of timers"},
		"a job in no queue":               {func(s *State) { edit(s, func(j *work.Job) { j.Queue = "x" }) }, "which does not exist"},
		"a task out of rank":              {func(s *State) { edit(s, func(j *work.Job) { j.Tasks = []work.Task{{Rank: 1}} }) }, "has rank 1"},
		"a reason that nobody could word": {func(s *State) { edit(s, func(j *work.Job) { j.Reason = reason.New(reason.NodeAway, 7) }) }, "NodeAway has 2 parameters, not 1"},
		"a state that is none":            {func(s *State) { edit(s, func(j *work.Job) { j.State = 12 }) }, "has the state 12"},
		"a node in a wrong state": {func(s *State) {
			n, _ := s.Node("n1")
			c := *n
			c.State = v1.NodeState_LOST
			s.nodes.rows.Put("n1", &c)
		}, "n1 is LOST and should be READY"},
		"a result of no job":         {func(s *State) { result(s, func(r *results.EvaluationResult) { r.Job = 99 }) }, "I11: a result"},
		"a result of another tenant": {func(s *State) { result(s, func(r *results.EvaluationResult) { r.Tenant = "x" }) }, "I11: a result"},
		"a result of a job that is no evaluation": {func(s *State) {
			result(s, func(r *results.EvaluationResult) {
				j, _ := s.Job(r.Job)
				c := *j
				c.Labels = nil
				s.jobs.rows.Put(c.ID, &c)
			})
		}, "I11: a result"},
		"a result of no attempt":         {func(s *State) { result(s, func(r *results.EvaluationResult) { r.Attempt = 7 }) }, "I11: the result"},
		"a result of an attempt to come": {func(s *State) { result(s, func(r *results.EvaluationResult) { r.Token++ }) }, "I11: the result"},
		"a result out of bounds": {func(s *State) {
			result(s, func(r *results.EvaluationResult) { r.Error = reason.Text(strings.Repeat("x", 2000)) })
		}, "out of bounds"},
		"two results in one place": {func(s *State) { result(s, func(r *results.EvaluationResult) { r.Benchmark = "other" }) }, "the place 1"},
		"results without end": {func(s *State) {
			for i := range results.MaxPerJob {
				result(s, func(r *results.EvaluationResult) {
					r.Benchmark, r.Place = strings.Repeat("x", 1+i%100)+strings.Repeat("y", i/100), uint64(5+i)
				})
			}
		}, "results of more than"},
		"a node away unlisted": {func(s *State) { s.nodes.away.Put("x") }, "nodes away"},
		"a pause without an end": {func(s *State) {
			for j := range s.jobs.rows.Rows() {
				if j.Held&work.HoldBackoff != 0 {
					c := *j
					c.Streak.After = 0
					s.jobs.rows.Put(c.ID, &c)
				}
			}
		}, "pauses without an end"},
		"attempts in vain without end": {func(s *State) { edit(s, func(j *work.Job) { j.Streak.Fruitless = work.MaxFruitless }) }, "brought nothing new"},
		"a hold of a recovery that ends never": {func(s *State) {
			for j := range s.jobs.rows.Rows() {
				if j.Waiting() {
					c := *j
					c.Held = work.HoldRecovery
					s.jobs.rows.Put(c.ID, &c)
				}
			}
		}, "settles at 0"},
		"a node that is unheard without a recovery": {func(s *State) { node(s, "n1", func(n *work.Node) { n.Unheard = true }) }, "has not been heard of"},
		"an unheard node unlisted":                  {func(s *State) { s.nodes.unheard.Put("x") }, "were not heard of"},
		"a job placed before all nodes were heard": {func(s *State) {
			j := firstLive(s)
			s.meta.Recovered, s.meta.RecoveredAt = j.Token-1, 1
			s.nodes.unheard.Put("n1")
		}, "was given attempt"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			m, tables := story(t)
			require.Empty(t, kernel.Check(m.View()))
			// The rows that are changed in place are shared with the view: only this test does that.
			c.breakIt(tables)
			m.StoreConfiguration(m.View().Index(), m.View().Voters()) // publishes it
			found := strings.Join(kernel.Check(m.View()), "\n")
			require.Contains(t, found, c.says)
		})
	}
}

// The verbs cannot be imported here: they are above. Their actions are in the audit log of the story.
func init() {
	for _, n := range []uint8{1, 2, 3, 4, 5, 6, 24, 25, 88, 91} {
		access.DefineAction(n, fmt.Sprint("about a job ", n), access.AboutJobs)
	}
	for _, n := range []uint8{7, 8, 9, 10, 11, 14, 15, 21, 22, 26, 60, 61, 62, 63, 64, 65, 66} {
		access.DefineAction(n, fmt.Sprint("an operation ", n), access.AboutOperation)
	}
}

// story restores a state in which everything is that there can be, and returns its tables to be worked on. The snapshot is
// that of the story that package fsm tells: TestStory_isWhatTheChecksAreTriedOn there holds the two equal.
func story(t *testing.T) (*kernel.Machine[kernel.View, event.Event], *State) {
	var tables *State
	registry := kernel.Register(
		kernel.Domain{
			Name: "work", Meta: &kernel.MetaDef{New: func() kernel.MetaRow { return &work.Meta{} }}, Records: Records(), Check: Check,
			Open: func(s *kernel.State) kernel.Part {
				part := Open(s)
				tables = part.(*State)
				return part
			},
		},
		coordinators.Domain(), access.Tokens(), access.Sessions(), access.Audit(), catalog.Domain(),
		schedules.Domain(nil, func(s *kernel.State) schedules.Jobs { return Of(s) }),
		once.Domain(), cores.Domain(nil), flows.Domain(nil), executions.Domain(nil, nil, func(s *kernel.State, id ident.Job) executions.Standing {
			j, ok := Of(s).Find(id)
			return executions.Standing{Lives: ok && !j.Terminal(), Stops: ok}
		}),
	)
	m := kernel.New(kernel.Config[kernel.View, event.Event]{
		Registry: registry,
		View:     func(v *kernel.View) *kernel.View { return v },
		Restored: func(uint64) event.Event { return event.Event{Topic: event.TopicState} },
	})
	f, err := os.Open("testdata/story.snapshot")
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, m.Restore(f))
	return m, tables
}

// localCheckpoint is one that is on its node alone.
func localCheckpoint(s *State) *checkpoints.Checkpoint {
	for c := range s.Checkpoints() {
		if c.State == v1.CheckpointState_LOCAL {
			return c
		}
	}
	panic("the story has none")
}

func editCheckpoint(s *State, change func(*checkpoints.Checkpoint)) {
	c := *localCheckpoint(s)
	change(&c)
	checkpoints.Put(&s.Tables, &c)
}
