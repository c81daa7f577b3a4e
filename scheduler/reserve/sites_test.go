package reserve

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/promises"
	"github.com/mindcoordinator/mind/scheduler/picture"
)

// plainEarliest is a simple implementation of earliest: it calls choose at each time at which something changes.
func plainEarliest(s *site, j *work.Job, from int64, above int) int64 {
	if j.Avoids(s.ID) || !s.CouldHold(j.Shape) {
		return 0
	}
	times := []int64{from}
	for _, l := range s.Leases {
		if l.At > from {
			times = append(times, l.At)
		}
	}
	for _, p := range s.reserved {
		if p.Until > from {
			times = append(times, p.Until)
		}
	}
	slices.Sort(times)
	for _, at := range times {
		use := s.When(at)
		s.reserve(&use, at, promises.EndOf(j, at), above)
		if _, ok := picture.Choose(s.Node.Node, &use, j.Shape); ok {
			return at
		}
	}
	return 0
}

// randomSites draws nodes with leases that end and with reserved starts.
func randomSites(r *rapid.T, now int64) *sites {
	t := &sites{byName: map[string]*site{}, usable: map[work.Shape][]usable{}}
	for i := range rapid.IntRange(1, 4).Draw(r, "nodes") {
		n := &work.Node{ID: fmt.Sprint("n", i), State: v1.NodeState_READY, CPUs: 16, MemMB: 1000}
		for g := range uint8(4) {
			gpu := work.GPU{Index: g, Type: rapid.SampledFrom([]string{"A", "A", "B"}).Draw(r, "type"), Health: v1.GpuHealth_HEALTHY, NUMA: int8(g / 2)}
			if rapid.IntRange(0, 9).Draw(r, "ill") == 0 {
				gpu.Health = v1.GpuHealth_QUARANTINED
			}
			for _, other := range []uint8{0, 1, 2, 3} {
				if other != g && other/2 == g/2 {
					gpu.NVLink |= 1 << other
				}
			}
			n.GPUs = append(n.GPUs, gpu)
		}
		if rapid.IntRange(0, 9).Draw(r, "drained") == 0 {
			n.Drain = &work.Drain{}
		}
		s := &site{Later: &picture.Later{Node: &picture.Node{Node: n, Use: &work.NodeUse{}}}}
		for range rapid.IntRange(0, 4).Draw(r, "leases") {
			shape := randomShape(r)
			if gpus, ok := picture.Choose(&work.Node{ID: n.ID, State: n.State, GPUs: n.GPUs, CPUs: n.CPUs, MemMB: n.MemMB}, s.Use, shape); ok {
				l := &work.Lease{GPUs: gpus, FractionMilli: shape.FractionMilli, CPUs: shape.CPUDemand(), MemMB: shape.MemMB}
				s.Use.Add(l)
				s.Leases = append(s.Leases, picture.Leaving{Lease: l, At: rapid.SampledFrom([]int64{0, now + 1, now + 50e9, now + 100e9, now + 500e9}).Draw(r, "leaves")})
			}
		}
		slices.SortStableFunc(s.Leases, func(a, b picture.Leaving) int { return cmp.Compare(uint64(a.At-1), uint64(b.At-1)) })
		if rapid.IntRange(0, 5).Draw(r, "claimed") == 0 {
			s.Use.Claim(work.Claimed{GPUs: 1, CPUs: 1})
		}
		t.all = append(t.all, s)
		t.byName[n.ID] = s
	}
	for i := range rapid.IntRange(0, 4).Draw(r, "promises") {
		on := rapid.SampledFrom(t.all).Draw(r, "on")
		start := now + rapid.Int64Range(0, 300e9).Draw(r, "start")
		p := &reservedStart{above: rapid.IntRange(0, 2).Draw(r, "above"), passing: rapid.Bool().Draw(r, "passing"), Promise: promises.Promise{
			Job: ident.Job(i + 1), StartAt: start, Until: rapid.SampledFrom([]int64{0, start + 60e9, start + 200e9}).Draw(r, "until"),
			Tasks: []work.TaskPlacement{{Node: on.ID, GPUs: rapid.Uint64Range(0, 15).Draw(r, "gpus")}}, CPUs: 1, MemMB: 100,
		}}
		on.reserved = append(on.reserved, p)
	}
	return t
}

func randomShape(r *rapid.T) work.Shape {
	s := work.Shape{
		Nodes: 1, GPUs: uint16(rapid.IntRange(0, 4).Draw(r, "wants")), CPUs: uint32(rapid.IntRange(0, 8).Draw(r, "cpus")),
		MemMB: uint32(rapid.IntRange(0, 600).Draw(r, "memory")), GPUType: rapid.SampledFrom([]string{"", "", "A", "B"}).Draw(r, "of"),
	}
	switch rapid.IntRange(0, 3).Draw(r, "kind") {
	case 0:
		s.GPUs, s.FractionMilli = 0, uint16(rapid.SampledFrom([]int{250, 500, 999}).Draw(r, "fraction"))
	case 1:
		s.Topology = work.TopologyNVLink
	}
	return s
}

// TestSites_earliestIsThePlainOne checks that the values cached within a search and between searches do not change the
// result.
func TestSites_earliestIsThePlainOne(t *testing.T) {
	found := 0
	rapid.Check(t, func(r *rapid.T) {
		now := int64(1e12)
		all := randomSites(r, now)
		for range 5 {
			j := &work.Job{ID: 99, Shape: randomShape(r), MaxRuntime: rapid.SampledFrom([]int64{0, 10e9, 100e9}).Draw(r, "limit")}
			from, above := now+rapid.SampledFrom([]int64{0, 1, 60e9, 200e9}).Draw(r, "from"), rapid.IntRange(0, 3).Draw(r, "from above")
			before := rapid.SampledFrom([]int64{never, never, now + 40e9, now + 101e9}).Draw(r, "before")
			usable := all.usableBy(j.Shape)
			for i, s := range all.all {
				want := plainEarliest(s, j, from, above)
				if want >= before {
					want = 0
				}
				require.Equal(r, want, s.earliest(j, &usable[i], from, before, above))
				if want > from {
					found++
				}
			}
		}
	})
	require.Positive(t, found, "some have to wait")
}

// TestSites_findBeforeIsFindOrNothing checks that a search with an end finds the same start as one without, if that is
// before the end.
func TestSites_findBeforeIsFindOrNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		now := int64(1e12)
		all := randomSites(r, now)
		j := &work.Job{ID: 99, Shape: randomShape(r), MaxRuntime: 100e9}
		j.Shape.Nodes = uint16(rapid.IntRange(1, 3).Draw(r, "gang"))
		before := now + rapid.SampledFrom([]int64{1, 60e9, 101e9, 400e9}).Draw(r, "before")
		want := all.find(j, now, never, 1)
		if want != nil && want.At >= before {
			want = nil
		}
		require.Equal(r, want, all.find(j, now, before, 1))
		if want != nil {
			for _, task := range want.Tasks {
				require.Equal(r, int(j.Shape.GPUs), bits.OnesCount64(task.GPUs)-min(1, int(j.Shape.FractionMilli)))
			}
		}
	})
}
