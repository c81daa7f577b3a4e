package coordinator

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/api/client"
)

// BenchmarkSubmit_64Clients submits over gRPC to three replicas with their logs on disk, all in this process.
func BenchmarkSubmit_64Clients(b *testing.B) { benchmarkSubmit(b, 64) }

// BenchmarkSubmit_1Client shows what one submit takes when nothing else happens.
func BenchmarkSubmit_1Client(b *testing.B) { benchmarkSubmit(b, 1) }

func benchmarkSubmit(b *testing.B, clients int) {
	c := newClusterOnTCP(b)
	c.found(3, nil)
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
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				if err := submit(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "submits/s")
}
