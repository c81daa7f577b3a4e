package mix_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/mix"
)

func TestIndex_countsByTenantAndShape(t *testing.T) {
	x := mix.New()
	one, two := work.Shape{Nodes: 1, GPUs: 1}, work.Shape{Nodes: 1, GPUs: 2}
	a, b, c := &work.Job{Tenant: "a", Shape: one}, &work.Job{Tenant: "b", Shape: one}, &work.Job{Tenant: "b", Shape: two}
	for _, j := range []*work.Job{a, b, c, c} {
		x.Count(j, 1)
	}
	x.Flush()
	before := x.Freeze()
	require.Equal(t, map[work.Shape]int{one: 1, two: 2}, maps.Collect(before.Of("b")))
	x.Count(b, -1)
	x.Count(c, -1)
	x.Flush()
	after := x.Freeze()
	require.Equal(t, map[work.Shape]int{two: 1}, maps.Collect(after.Of("b")))
	require.Equal(t, map[work.Shape]int{one: 1, two: 1}, maps.Collect(after.All()))
	require.Equal(t, map[work.Shape]int{one: 1, two: 2}, maps.Collect(before.Of("b")), "a frozen copy never changes")
	require.Empty(t, maps.Collect(after.Of("c")))

	x.Change(c, &work.Job{Tenant: "b", Shape: two})
	x.Change(c, &work.Job{Tenant: "b", Shape: one})
	x.Flush()
	changed := x.Freeze()
	require.Equal(t, map[work.Shape]int{one: 1}, maps.Collect(changed.Of("b")))

	wrong := 0
	after.Check(slices.Values([]*work.Job{a, c}), func(string, ...any) { wrong++ })
	require.Zero(t, wrong)
	after.Check(slices.Values([]*work.Job{a, b, b}), func(string, ...any) { wrong++ })
	require.Equal(t, 2, wrong, "a count that is wrong, and shapes that are missing")
}
