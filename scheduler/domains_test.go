package scheduler_test

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/domains"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/worth"
)

const leaf = "mind.io/leaf"

// leaves registers nodes of 8 GPUs: leaves(3, 2, 0) makes three in leaf-0, two in leaf-1 and none in leaf-2. The leaves
// get their nodes in turn, so that the order of the names is not that of the leaves.
func (s *state) leaves(sizes ...int) {
	for i, n := 0, 0; ; i++ {
		more := false
		for l, size := range sizes {
			if i < size {
				id := fmt.Sprintf("n%03d", n)
				s.node(id, gpus(id, "H100", 8, 8), map[string]string{leaf: fmt.Sprintf("leaf-%d", l)})
				n++
				more = true
			}
		}
		if !more {
			return
		}
	}
}

// in returns the leaves of a job's nodes by rank.
func (s *state) in(id ident.Job) string {
	var in []string
	for _, t := range s.get(id).Tasks {
		n, _ := s.machine.View().Node(t.Node)
		in = append(in, strings.TrimPrefix(n.Labels[leaf], "leaf-"))
	}
	return strings.Join(in, " ")
}

func same(nodes, segment uint16) work.Shape {
	return work.Shape{Nodes: nodes, GPUs: 8, Between: domains.Same, Level: leaf, Segment: segment}
}

func TestPlan_placesGangsInDomains(t *testing.T) {
	with := func(b domains.Between, nodes uint16) work.Shape {
		return work.Shape{Nodes: nodes, GPUs: 8, Between: b, Level: leaf}
	}
	for name, c := range map[string]struct {
		leaves []int
		shape  work.Shape
		want   string
	}{
		"the tightest that holds it":            {[]int{5, 3, 4}, same(3, 0), "1 1 1"},
		"none holds it":                         {[]int{5, 3, 4}, same(6, 0), ""},
		"segments in one, if one holds all":     {[]int{4, 9, 6}, same(6, 2), "2 2 2 2 2 2"},
		"segments in the fewest":                {[]int{3, 5, 4, 2}, same(6, 2), "2 2 2 2 3 3"},
		"segments that span":                    {[]int{3, 3, 3}, same(6, 2), "0 0 1 1 2 2"},
		"segments for which remainders are not": {[]int{3, 3, 1}, same(6, 2), ""},
		"prefer is one domain":                  {[]int{5, 3, 4}, with(domains.Prefer, 4), "2 2 2 2"},
		"prefer takes several":                  {[]int{2, 3, 2}, with(domains.Prefer, 5), "0 0 1 1 1"},
		"spread":                                {[]int{4, 3, 5}, with(domains.Spread, 3), "0 1 2"},
		"spread wider than there are":           {[]int{4, 1, 5}, with(domains.Spread, 5), "0 0 1 2 2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(t)
			s.leaves(c.leaves...)
			id := s.submit(c.shape, 5)
			s.run()
			require.Equal(t, c.want, s.in(id))
			require.Empty(t, fsm.Check(s.machine.View()))
		})
	}
}

func TestPlan_saysWhyADomainIsNotFree(t *testing.T) {
	s := newState(t)
	s.leaves(3, 2)
	id := s.submit(same(4, 0), 5)
	s.run()
	require.Equal(t, "needs 8 GPUs on each of 4 nodes, all in one leaf; the most that are free in one are 3 (leaf-0)", s.reason(id))

	id = s.submit(same(4, 4), 5)
	s.run()
	require.Contains(t, s.reason(id), ", all in one leaf; the most", "one segment is the whole gang")

	s = newState(t)
	s.leaves(3, 3)
	id = s.submit(same(6, 2), 5)
	s.run()
	require.Equal(t, "needs 8 GPUs on each of 6 nodes, every 2 nodes in one leaf; 2 of 3 such segments are free", s.reason(id))

	s = newState(t)
	s.node("n1", gpus("n1", "H100", 8, 8), nil)
	s.node("n2", gpus("n2", "H100", 8, 8), nil)
	id = s.submit(same(2, 0), 5)
	s.run()
	require.Equal(t, "needs 8 GPUs on each of 2 nodes, all in one leaf; no ready node has the label mind.io/leaf", s.reason(id))
}

func TestPlan_leavesOutNodes(t *testing.T) {
	s := newState(t)
	s.leaves(2, 2)
	id := s.submit(work.Shape{Nodes: 2, GPUs: 8, Exclude: "n000,n003"}, 5)
	s.run()
	require.Equal(t, "1 0", s.in(id))
	id = s.submit(work.Shape{GPUs: 8, Exclude: "n000,n00[3]"}, 5)
	s.run()
	require.Equal(t, "needs 8 GPUs on one node; most free on a node is 0; it excludes 2 nodes", s.reason(id))
}

func TestPlan_spreadsOverNodes(t *testing.T) {
	s := newState(t)
	s.leaves(3)
	on := map[string]int{}
	for range 3 {
		id := s.submit(work.Shape{GPUs: 2, Loose: true}, 5)
		s.run()
		on[s.get(id).Tasks[0].Node]++
	}
	require.Len(t, on, 3)
}

func TestPlan_avoidsNoNodeThatTheDomainNeeds(t *testing.T) {
	s := newState(t)
	s.leaves(2, 1)
	j := s.job(same(2, 0), 5)
	j.Retry = work.RetryPolicy{Max: 9, On: work.RetryInfrastructure}
	id := s.apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{j}})[0].(jobverbs.SubmitJobsResult).Results[0].Job
	s.run()
	require.Equal(t, "0 0", s.in(id))
	s.fail(id, 0)
	s.run()
	require.Equal(t, "0 0", s.in(id), "there is no other leaf for it")
}

func TestPlan_completesAHoldInItsDomain(t *testing.T) {
	for name, c := range map[string]struct {
		leaves []int
		shape  work.Shape
		want   string
	}{
		"the same leaf":           {[]int{4, 5}, same(3, 0), "0 0 0"},
		"the leaf of the segment": {[]int{3, 3, 1}, same(4, 2), "0 0 1 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(t)
			s.leaves(c.leaves...)
			id := s.submitRetried(c.shape)
			s.run()
			s.start(id)
			broken := s.order(id)[0]
			s.falls(broken, "H100")
			s.breakDown(id, 0)
			require.True(t, s.claimOf(id))
			s.run()
			require.Empty(t, fsm.Check(s.machine.View()))
			require.NotContains(t, s.order(id), broken)
			require.Equal(t, c.want, s.in(id))
		})
	}
}

// For random clusters, the state refuses no plan for jobs that ask for domains and exclude nodes, no plan breaks a
// constraint, and a plan finds places whenever an exhaustive search finds some.
func TestPlan_domainProperties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := newState(t)
		for i := range rapid.IntRange(1, 7).Draw(r, "nodes") {
			id := fmt.Sprintf("n%d", i)
			var labels map[string]string
			if l := rapid.IntRange(0, 3).Draw(r, "leaf"); l > 0 {
				labels = map[string]string{leaf: fmt.Sprint("leaf-", l)}
			}
			s.node(id, gpus(id, rapid.SampledFrom([]string{"H100", "H100", "A100"}).Draw(r, "type"), 2, 2), labels)
		}
		var planner scheduler.Planner
		for range rapid.IntRange(1, 3).Draw(r, "rounds") {
			for range rapid.IntRange(0, 6).Draw(r, "jobs") {
				shape := work.Shape{
					Nodes: uint16(rapid.IntRange(1, 4).Draw(r, "size")), GPUs: uint16(rapid.IntRange(0, 2).Draw(r, "each")),
					Between: domains.Between(rapid.IntRange(0, 3).Draw(r, "between")), Exclude: rapid.SampledFrom([]string{"", "", "n0", "n[0-2]"}).Draw(r, "exclude"),
					Loose: rapid.Bool().Draw(r, "loose"),
				}
				if shape.GPUs == 0 {
					shape.CPUs = 40
				}
				if shape.Between != domains.Anywhere {
					shape.Level = leaf
				}
				if half := shape.Nodes / 2; shape.Between == domains.Same && shape.Nodes%2 == 0 && rapid.Bool().Draw(r, "segments") {
					shape.Segment = half
				}
				s.submit(shape, 5)
			}
			v := s.machine.View()
			prices := worth.Learn(v.Mix(), v.Nodes())
			opts := scheduler.Options{Prices: func() *worth.Prices { return prices }}
			plan := planner.Plan(v, opts)
			requireSame(r, scheduler.Plan(v, opts), plan)
			for _, c := range plan.Commands {
				require.Empty(r, s.apply(c)[0].(jobverbs.PlaceResult).Refused)
			}
			require.Empty(r, fsm.Check(s.machine.View()))
			v = s.machine.View()
			for j := range v.ActiveJobs() {
				checkLie(r, v, j)
			}
			for key := range v.Classes() {
				require.Nil(r, search(v, key.Shape, nil), "%+v would fit", key.Shape)
			}
			for j := range v.ActiveJobs() {
				if rapid.Bool().Draw(r, "ends") {
					s.end(j.ID)
				}
			}
		}
	})
}

// checkLie checks that the nodes of a job meet its constraints.
func checkLie(r *rapid.T, v *fsm.View, j *work.Job) {
	s, in := j.Shape, make([]string, len(j.Tasks))
	for i := range j.Tasks {
		n, _ := v.Node(j.Tasks[i].Node)
		in[i] = n.Labels[leaf]
		require.False(r, domains.Excludes(s.Exclude, n.ID))
	}
	if s.Between == domains.Same && s.Nodes > 1 {
		segment := int(s.Segment)
		if segment == 0 {
			segment = len(in)
		}
		for part := range slices.Chunk(in, segment) {
			require.NotEmpty(r, part[0])
			require.Len(r, slices.Compact(slices.Clone(part)), 1)
		}
	}
	if s.Between != domains.Anywhere && s.Nodes > 1 {
		seen := slices.Compact(slices.Clone(in))
		all := slices.Clone(in)
		slices.Sort(all)
		require.Len(r, slices.Compact(all), len(seen), "ranks of one domain are beside each other")
	}
}

// search tries all orders of the nodes for a gang.
func search(v *fsm.View, s work.Shape, got []*work.Node) []*work.Node {
	if len(got) == int(s.Nodes) {
		if work.CheckDomains(&s, func(rank int) *work.Node { return got[rank] }) != nil {
			return nil
		}
		return got
	}
	for n := range v.Nodes() {
		if slices.Contains(got, n) || s.GPUs > 0 && len(got) > 0 && got[0].GPUs[0].Type != n.GPUs[0].Type {
			continue
		}
		use := v.Use(n.ID)
		free, some := work.Eligible(n, &use, s), uint64(0)
		if bits.OnesCount64(free) < int(s.GPUs) {
			continue
		}
		for range s.GPUs {
			some |= free & -free
			free &= free - 1
		}
		if work.CheckTask(n, &use, s, some) != nil {
			continue
		}
		if found := search(v, s, append(slices.Clip(got), n)); found != nil {
			return found
		}
	}
	return nil
}
