package forecast

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

// A submit is accepted before its estimate: it never waits for another caller's forecast, and rarely for one that takes
// long. Explicit requests do not wait for another caller's forecast either, while there is a recent one.
func TestForecast_hardlyAnybodyWaitsForIt(t *testing.T) {
	m := fsm.New()
	index := uint64(0)
	apply := func(c kernel.Command) any {
		data, err := kernel.Encode(level.Newest, c)
		require.NoError(t, err)
		index++
		return m.Apply(index, kernel.Pack(level.Newest, time.Unix(1_700_000_000, int64(index)), [][]byte{data}))[0]
	}
	apply(nodeverbs.RegisterNode{Node: work.Node{ID: "n1", BootID: "b", CPUs: 8, MemMB: 1000, GPUs: []work.GPU{
		{UUID: "g0", Index: 0, Type: "H100", Model: "H100", Health: v1.GpuHealth_HEALTHY},
		{UUID: "g1", Index: 1, Type: "H100", Model: "H100", Health: v1.GpuHealth_HEALTHY},
	}}})
	all := New(DefaultRest, func(time.Duration) {})
	submit := func(name string) ident.Job {
		return apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{{
			Tenant: "t1", User: "ann", Name: name, Queue: work.DefaultQueue, Priority: 5, Shape: work.Shape{Nodes: 1, GPUs: 2},
			MaxRuntime: int64(time.Hour), Retry: work.RetryPolicy{On: work.RetryAll},
		}}}).(jobverbs.SubmitJobsResult).Results[0].Job
	}
	waits := func(id ident.Job) *float64 { return all.Waits(t.Context(), m.View(), "t1")(id) }
	first, second := submit("a"), submit("b")
	require.NotNil(t, waits(second), "it comes after %s", first)

	kept, _ := all.of("t1")
	kept.turn <- struct{}{}
	third := submit("c")
	require.Nil(t, waits(third), "somebody makes a forecast, and does not come to an end")
	told := func(id ident.Job) bool {
		v := m.View()
		j, _ := v.Job(id)
		_, ok := StartOf(all.Tenant(t.Context(), v, "t1"), j)
		return ok
	}
	require.True(t, told(second), "the one before it says it")
	require.False(t, told(third))
	before := kept.newest.Load()
	require.NotNil(t, before)
	<-kept.turn
	kept.newest.Store(&madeForecast{Forecast: before.Forecast, made: time.Now().Add(-(DefaultRest + 1) * time.Minute), took: time.Minute})
	last := submit("d")
	require.Nil(t, waits(last), "the last one took long, and was made not long ago")
	require.True(t, told(last), "who asks for it gets it")
}
