package replay

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/raftnode/replay"
)

// BenchmarkSee replays 16,384 entries in which jobs are submitted, placed and ended: the number of entries that are
// kept behind a snapshot.
func BenchmarkSee(b *testing.B) {
	const entries = 16_384
	m, log, index := fsm.New(), raft.NewInmemStore(), uint64(0)
	apply := func(c kernel.Command) any {
		data, err := kernel.Encode(level.Newest, c)
		require.NoError(b, err)
		index++
		entry := kernel.Pack(level.Newest, time.Unix(1_700_000_000, int64(index)*1e6), [][]byte{data})
		require.NoError(b, log.StoreLog(&raft.Log{Index: index, Term: 1, Type: raft.LogCommand, Data: entry}))
		return m.Apply(index, entry)[0]
	}
	apply(nodeverbs.RegisterNode{Node: work.Node{ID: "n1", BootID: "b", CPUs: 8, MemMB: 1000, GPUs: []work.GPU{
		{UUID: "g0", Type: "H100", Model: "H100", Health: v1.GpuHealth_HEALTHY},
	}}})
	zero := int32(0)
	for index < entries {
		id := apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{{
			Tenant: "t1", User: "ann", Name: "job", Queue: work.DefaultQueue, Spec: make([]byte, 300), Shape: work.Shape{Nodes: 1, GPUs: 1},
		}}}).(jobverbs.SubmitJobsResult).Results[0].Job
		placed := apply(jobverbs.PlaceJobs{BasedOn: index, Placements: []work.Placement{{Job: id, Attempt: 1, Tasks: []work.TaskPlacement{{Node: "n1", GPUs: 1}}}}}).(jobverbs.PlaceResult)
		require.Len(b, placed.Placed, 1)
		for _, kind := range []jobverbs.ReportKind{jobverbs.ReportStarting, jobverbs.ReportRunning, jobverbs.ReportEnded} {
			r := jobverbs.TaskReport{Job: id, Attempt: 1, Token: placed.Placed[0].Token, Kind: kind}
			if kind == jobverbs.ReportEnded {
				r.ExitCode = &zero
			}
			apply(jobverbs.ReportTasks{Node: "n1", Reports: []jobverbs.TaskReport{r}})
		}
	}
	snapshots := raft.NewInmemSnapshotStore()
	r := New("c1", func() replay.Source { return replay.Source{Log: log, Snapshots: snapshots, Applied: index} })
	for b.Loop() {
		require.NoError(b, r.See(b.Context(), Moment{Index: entries}, 1, func(*Past) error { return nil }))
	}
	b.ReportMetric(entries*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}
