package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
	"github.com/mindcoordinator/mind/scheduler"
)

// of returns a job of a user of a tenant in a queue.
func (s *state) of(queue, tenant, user string, shape work.Shape) jobverbs.NewJob {
	j := s.job(shape, 5)
	j.Queue, j.Tenant, j.User = queue, tenant, user
	return j
}

func (s *state) submits(jobs ...jobverbs.NewJob) []ident.Job {
	s.t.Helper()
	var ids []ident.Job
	for _, r := range s.apply(jobverbs.SubmitJobs{Jobs: jobs})[0].(jobverbs.SubmitJobsResult).Results {
		require.Nil(s.t, r.Refusal)
		ids = append(ids, r.Job)
	}
	return ids
}

func (s *state) queue(name, parent string, weight uint32) {
	s.t.Helper()
	require.Nil(s.t, s.apply(queueverbs.PutQueue{Queue: work.Queue{Name: name, Parent: parent, Weight: weight}})[0].(queueverbs.QueueResult).Refusal)
}

// running counts the running jobs by the key that a function returns for each.
func (s *state) running(by func(j *work.Job) string) map[string]int {
	out := map[string]int{}
	for j := range s.machine.View().ActiveJobs() {
		out[by(j)]++
	}
	return out
}

func byTenant(j *work.Job) string { return j.Tenant }
func byUser(j *work.Job) string   { return j.Tenant + "/" + j.User }
func byQueue(j *work.Job) string  { return j.Queue }

func TestFair_aBurstIsShared(t *testing.T) {
	s := newState(t)
	s.node("n1", gpus("n1", "H100", 8, 8), nil)
	one := work.Shape{GPUs: 1}
	var burst []jobverbs.NewJob
	for range 20 {
		burst = append(burst, s.of("default", "t1", "ann", one))
	}
	for range 10 {
		burst = append(burst, s.of("default", "t2", "bob", one), s.of("default", "t2", "cid", work.Shape{GPUs: 1, CPUs: 1}))
	}
	s.submits(burst...)
	s.run()
	require.Equal(t, map[string]int{"t1/ann": 4, "t2/bob": 2, "t2/cid": 2}, s.running(byUser))
	for _, c := range scheduler.Plan(s.machine.View(), scheduler.Options{}).Commands {
		require.Empty(t, c.Placements)
	}
}

func TestFair_priorityComesFirst(t *testing.T) {
	s := newState(t)
	s.node("n1", gpus("n1", "H100", 4, 4), nil)
	var jobs []jobverbs.NewJob
	for range 4 {
		jobs = append(jobs, s.of("default", "t1", "ann", work.Shape{GPUs: 1}), s.of("default", "t2", "bob", work.Shape{GPUs: 1}))
		jobs[len(jobs)-1].Priority = 6
	}
	s.submits(jobs...)
	s.run()
	require.Equal(t, map[string]int{"t2": 4}, s.running(byTenant))
}

func TestFair_queuesByWeightInATree(t *testing.T) {
	s := newState(t)
	s.node("n1", gpus("n1", "H100", 24, 8), nil)
	s.queue("research", "", 2)
	s.queue("vision", "research", 3)
	s.queue("text", "research", 1)
	s.queue("product", "", 1)
	var jobs []jobverbs.NewJob
	for range 24 {
		for _, queue := range []string{"vision", "text", "product"} {
			jobs = append(jobs, s.of(queue, "t", "u", work.Shape{GPUs: 1}))
		}
	}
	s.submits(jobs...)
	s.run()
	require.Equal(t, map[string]int{"vision": 12, "text": 4, "product": 8}, s.running(byQueue))

	// The own jobs of a queue with queues below compete with these, at weight 1.
	s = newState(t)
	s.node("n1", gpus("n1", "H100", 8, 8), nil)
	s.queue("research", "", 1)
	s.queue("vision", "research", 3)
	jobs = nil
	for range 8 {
		jobs = append(jobs, s.of("research", "t", "u", work.Shape{GPUs: 1}), s.of("vision", "t", "u", work.Shape{GPUs: 1}))
	}
	s.submits(jobs...)
	s.run()
	require.Equal(t, map[string]int{"vision": 6, "research": 2}, s.running(byQueue))
}

// TestFair_byTheDominantResource is the example of the paper on dominant resource fairness (Ghodsi et al., NSDI 2011, 4.1).
func TestFair_byTheDominantResource(t *testing.T) {
	s := newState(t)
	require.Nil(t, s.apply(nodeverbs.RegisterNode{Node: work.Node{ID: "n1", Hostname: "n1", BootID: "b", GRPCAddr: "n1:1", CPUs: 9, MemMB: 18 << 10}})[0].(nodeverbs.NodeResult).Refusal)
	var jobs []jobverbs.NewJob
	for range 9 {
		jobs = append(jobs, s.of("default", "a", "u", work.Shape{CPUs: 1, MemMB: 4 << 10}), s.of("default", "b", "u", work.Shape{CPUs: 3, MemMB: 1 << 10}))
	}
	s.submits(jobs...)
	s.run()
	require.Equal(t, map[string]int{"a": 3, "b": 2}, s.running(byTenant))
}

func TestFair_limitsOfAParentHold(t *testing.T) {
	s := newState(t)
	s.node("n1", gpus("n1", "H100", 8, 8), nil)
	require.Nil(t, s.apply(queueverbs.PutQueue{Queue: work.Queue{Name: "org", MaxGPUs: 5}})[0].(queueverbs.QueueResult).Refusal)
	s.queue("a", "org", 1)
	s.queue("b", "org", 1)
	var jobs []jobverbs.NewJob
	for range 4 {
		jobs = append(jobs, s.of("a", "t", "u", work.Shape{GPUs: 1}), s.of("b", "t", "u", work.Shape{GPUs: 1}))
	}
	s.submits(jobs...)
	s.run()
	require.Equal(t, map[string]int{"a": 3, "b": 2}, s.running(byQueue))
	require.Contains(t, s.reason(s.waiting()), `the jobs of queue "org" may have 5 GPUs together`)
}

// waiting returns some waiting job.
func (s *state) waiting() ident.Job {
	for j := range s.machine.View().Jobs(false, 0) {
		if j.Waiting() {
			return j.ID
		}
	}
	return 0
}

// party is a user that always has work, up to a number of jobs.
type party struct {
	queue, tenant, user string
	gpus                uint16
	hours               int
	// from is the hour in which its work begins.
	from int
}

// contest lets parties compete through the real state and planner, hour by hour, and returns the GPU hours of each
// party by hour.
func contest(t testing.TB, s *state, hours int, parties ...party) [][]int {
	if testing.Short() {
		t.Skip("weeks of a cluster on one goroutine")
	}
	type run struct {
		id  ident.Job
		end int
	}
	var live []run
	used, queued := make([][]int, hours), make([]int, len(parties))
	owner := map[ident.Job]int{}
	for hour := range hours {
		s.now = s.now.Add(time.Hour).Truncate(time.Hour)
		kept := live[:0]
		for _, r := range live {
			if r.end > hour {
				kept = append(kept, r)
				continue
			}
			s.end(r.id)
		}
		live = kept
		for i, p := range parties {
			for hour >= p.from && queued[i] < 12 {
				owner[s.submits(s.of(p.queue, p.tenant, p.user, work.Shape{GPUs: p.gpus}))[0]] = i
				queued[i]++
			}
		}
		plan := s.run()
		used[hour] = make([]int, len(parties))
		for _, c := range plan.Commands {
			for _, placed := range c.Placements {
				i := owner[placed.Job]
				queued[i]--
				live = append(live, run{placed.Job, hour + parties[i].hours + int(placed.Job>>16)%3})
			}
		}
		for _, r := range live {
			used[hour][owner[r.id]] += int(parties[owner[r.id]].gpus)
		}
	}
	return used
}

// part returns a party's part of the GPU hours within [from, until).
func part(used [][]int, from, until, of int) float64 {
	mine, all := 0, 0
	for _, hour := range used[from:until] {
		mine += hour[of]
		for _, n := range hour {
			all += n
		}
	}
	return float64(mine) / float64(all)
}

func threeNodes(t testing.TB) *state {
	s := newState(t)
	for i := range 3 {
		id := fmt.Sprint("n", i)
		s.node(id, gpus(id, "H100", 8, 8), nil)
	}
	return s
}

func TestFair_equalSharesOverDays(t *testing.T) {
	s := threeNodes(t)
	used := contest(t, s, 14*24,
		party{"default", "a", "u", 1, 5, 0}, party{"default", "b", "u", 4, 9, 0}, party{"default", "b", "v", 2, 3, 0})
	require.InDelta(t, 0.5, part(used, 24, 14*24, 0), 0.02)
	require.InDelta(t, 0.25, part(used, 24, 14*24, 1), 0.03, "the users of a tenant share its half")
	require.InDelta(t, 0.25, part(used, 24, 14*24, 2), 0.03)
}

func TestFair_sharesByWeightOverDays(t *testing.T) {
	s := threeNodes(t)
	s.queue("three", "", 3)
	s.queue("one", "", 1)
	used := contest(t, s, 10*24, party{"three", "a", "u", 1, 6, 0}, party{"one", "b", "u", 1, 4, 0})
	require.InDelta(t, 0.75, part(used, 24, 10*24, 0), 0.02)
}

// TestFair_whoWasIdleCatchesUp lets one tenant use the whole cluster for two half-lives before a second one comes. The
// second one catches up, the first still gets its turn, and in the end both have the same.
func TestFair_whoWasIdleCatchesUp(t *testing.T) {
	s := threeNodes(t)
	p := s.machine.View().Policy()
	p.HalfLife, p.AgingStep = int64(48*time.Hour), 0
	require.Nil(t, s.apply(queueverbs.PutPolicy{Policy: p})[0].(queueverbs.PolicyResult).Refusal)
	used := contest(t, s, 400, party{"default", "a", "u", 1, 3, 0}, party{"default", "b", "u", 1, 3, 100})
	require.Equal(t, 1.0, part(used, 0, 100, 0))
	// The two differ by the recent usage of the first (76 % of the cluster). The difference shrinks with a time
	// constant of half the span, 35 h: so the first has 29 % in this half-life.
	require.InDelta(t, 0.29, part(used, 104, 152, 0), 0.05)
	require.Greater(t, part(used, 130, 160, 0), 0.2, "nobody is without for long")
	require.InDelta(t, 0.5, part(used, 320, 400, 0), 0.03)
}

// TestFair_nobodyStarves draws parties with jobs of different sizes and durations, and checks that each gets its part.
// It does so with a tolerance, because a job of four GPUs needs a whole node, and small jobs take free GPUs until then.
func TestFair_nobodyStarves(t *testing.T) {
	for seed := range uint64(20) {
		draw := rand.New(rand.NewPCG(seed, 0))
		s := threeNodes(t)
		p := s.machine.View().Policy()
		p.AgingStep = 0 // Aging comes before fair share: with more work than GPUs, jobs would in the end run in order of age.
		require.Nil(t, s.apply(queueverbs.PutPolicy{Policy: p})[0].(queueverbs.PolicyResult).Refusal)
		parties := make([]party, 2+draw.IntN(4))
		for i := range parties {
			parties[i] = party{"default", fmt.Sprint("t", i), "u", []uint16{1, 1, 2, 4}[draw.IntN(4)], 1 + draw.IntN(12), 0}
		}
		used := contest(t, s, 6*24, parties...)
		for i := range parties {
			require.InDelta(t, 1/float64(len(parties)), part(used, 48, 6*24, i), 0.12, "seed %d: %v of %v", seed, parties[i], parties)
		}
	}
}
