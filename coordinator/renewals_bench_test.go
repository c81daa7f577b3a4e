package coordinator

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
)

// BenchmarkRenewals_1000Sessions is one round in which every session waits; the proof of leadership is free here.
func BenchmarkRenewals_1000Sessions(b *testing.B) {
	var table sessionTable
	table.open(b.Context(), 1)
	var all []*session
	for i := range 1000 {
		s, _, err := table.enter(b.Context(), fmt.Sprintf("n%04d", i))
		require.NoError(b, err)
		all = append(all, s)
	}
	r := &renewer{sessions: &table, verify: func(context.Context) error { return nil }, log: slog.New(slog.DiscardHandler), counted: func(int, int) {}}
	b.ReportAllocs()
	for seq := uint64(1); b.Loop(); seq++ {
		for _, s := range all {
			s.heartbeat.Store(seq)
		}
		require.NoError(b, r.once(b.Context()))
	}
}

// BenchmarkRoster_1000Members makes and encodes one version of the roster, as is done once for all sessions.
func BenchmarkRoster_1000Members(b *testing.B) {
	m := fsm.New()
	for i := range 1000 {
		data, err := fsm.Encode(fsm.RegisterNode{Node: fsm.Node{ID: fmt.Sprintf("gpu-node-%04d", i), BootID: "b", GRPCAddr: "10.20.30.40:7101"}})
		require.NoError(b, err)
		m.Apply(uint64(i+1), fsm.Pack(time.Unix(1_700_000_000, 0), [][]byte{data}))
	}
	var size int
	b.ReportAllocs()
	for b.Loop() {
		raw, err := proto.Marshal(newRoster(m.View()).message)
		require.NoError(b, err)
		size = len(raw)
	}
	b.ReportMetric(float64(size), "bytes")
	require.Len(b, newRoster(m.View()).message.GetBody().(*v1.SessionResponse_Roster).Roster.GetMembers(), 1000)
}
