package coordinator

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/api/client"
	"github.com/mindcoordinator/mind/raftnode/store"
)

// BenchmarkSubmit_64Clients submits over gRPC to three replicas with their logs on disk, all in this process.
func BenchmarkSubmit_64Clients(b *testing.B) { benchmarkSubmit(b, 64) }

// BenchmarkSubmit_1Client measures one submit while nothing else happens.
func BenchmarkSubmit_1Client(b *testing.B) { benchmarkSubmit(b, 1) }

func benchmarkSubmit(b *testing.B, clients int) {
	for _, kind := range []string{store.WAL, store.Bolt} {
		b.Run(kind, func(b *testing.B) { benchmarkSubmitTo(b, clients, kind) })
	}
}

func benchmarkSubmitTo(b *testing.B, clients int, kind string) {
	c := newClusterOnTCP(b)
	c.found(3, func(config *Config) { config.LogStore = kind })
	var addrs []string
	for _, id := range c.ids {
		addrs = append(addrs, c.members[id].config.GRPCAddr)
	}
	conn, err := client.Dial(client.Config{Addrs: addrs, Secret: "secret", Conns: min(clients, 4)})
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	submit := func() error {
		_, err := conn.Jobs().SubmitJob(client.WithCall(context.Background(), client.Call{Tenant: "t1", User: "u"}), sleeper(1, 0))
		return err
	}
	require.NoError(b, submit())
	b.ReportAllocs()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	took := make([]time.Duration, b.N)
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for i := left.Add(-1); i >= 0; i = left.Add(-1) {
				began := time.Now()
				if err := submit(); err != nil {
					b.Error(err)
					return
				}
				took[i] = time.Since(began)
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "submits/s")
}
