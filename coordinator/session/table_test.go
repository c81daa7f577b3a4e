package session

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/liveness"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

func newTable() *Table {
	return NewTable(7, liveness.NewTerm(5*time.Second, time.Now()), fsm.New().View())
}

func TestTable_theNewerSessionEndsTheOlder(t *testing.T) {
	table := newTable()
	first, err := table.enter(t.Context(), "n1")
	require.NoError(t, err)
	second, err := table.enter(t.Context(), "n1")
	require.NoError(t, err)
	require.ErrorIs(t, context.Cause(first.ctx), errReplaced)
	table.leave(first)
	table.Wake([]string{"n1", "n2"})
	require.Len(t, second.wake, 1, "the end of the older one does not touch the newer")
	require.True(t, second.dirty.Load())
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		table.Close()
	}()
	<-second.ctx.Done()
	require.ErrorIs(t, context.Cause(second.ctx), errNotLeading)
	table.leave(second)
	<-closed
	_, err = table.enter(t.Context(), "n1")
	require.ErrorIs(t, err, errNotLeading, "a term that is over has no sessions")
}

// Old samples are not shown for ever.
func TestSampled_isForgotten(t *testing.T) {
	sample := []*v1.GpuSample{{UtilizationPercent: proto.Int32(1)}}
	synctest.Test(t, func(t *testing.T) {
		var s sampled
		require.Empty(t, s.get())
		s.put(sample)
		require.Len(t, s.get(), 1)
		time.Sleep(samplesFor - time.Second)
		s.put(nil) // a heartbeat without samples changes nothing
		require.Len(t, s.get(), 1)
		time.Sleep(2 * time.Second)
		require.Empty(t, s.get())
		s.put(make([]*v1.GpuSample, 65))
		require.Empty(t, s.get(), "no node has so many")
	})
}

// BenchmarkRoster_1000Members builds and encodes one version of the roster, which happens once for all sessions.
func BenchmarkRoster_1000Members(b *testing.B) {
	m := fsm.New()
	for i := range 1000 {
		data, err := kernel.Encode(level.Newest, nodeverbs.RegisterNode{Node: work.Node{ID: fmt.Sprintf("gpu-node-%04d", i), BootID: "b", GRPCAddr: "10.20.30.40:7101"}})
		require.NoError(b, err)
		m.Apply(uint64(i+1), kernel.Pack(level.Newest, time.Unix(1_700_000_000, 0), [][]byte{data}))
	}
	var size int
	b.ReportAllocs()
	for b.Loop() {
		raw, err := proto.Marshal(newRoster(m.View()).message)
		require.NoError(b, err)
		size = len(raw)
	}
	b.ReportMetric(float64(size), "bytes")
	require.Len(b, newRoster(m.View()).members(), 1000)
}

func TestModelPath_ofACheckpointThatIsGone(t *testing.T) {
	v := fsm.New().View()
	set := func(e *v1.EvaluationConfig) *v1.TaskSpec {
		spec := &v1.TaskSpec{}
		setModel(spec, v, &work.Job{Tenant: "t1"}, e)
		return spec
	}
	gone := set(&v1.EvaluationConfig{CheckpointId: "ckpt_zz"})
	require.Empty(t, gone.GetModelPath(), "the agent says what is missing")
	require.Nil(t, gone.GetModelCheckpoint())
	require.Equal(t, "/models/m", set(&v1.EvaluationConfig{ModelUri: "file:///models/m"}).GetModelPath())
}
