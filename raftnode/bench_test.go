package raftnode

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"github.com/stretchr/testify/require"
)

// nothing is a state machine that does nothing.
type nothing struct{}

func (nothing) Apply(_ uint64, entry []byte) []any {
	var results []any
	for len(entry) > 0 {
		size, n := binary.Uvarint(entry)
		entry = entry[n+int(size):]
		results = append(results, nil)
	}
	return results
}
func (nothing) Snapshot() (Snapshot, error)         { return &chainSnapshot{}, nil }
func (nothing) Restore(io.Reader) error             { return nil }
func (nothing) StoreConfiguration(uint64, []string) {}

// rawFSM is a state machine for plain hashicorp/raft that does nothing.
type rawFSM struct{}

func (rawFSM) Apply(*raft.Log) any                 { return nil }
func (rawFSM) Snapshot() (raft.FSMSnapshot, error) { return nil, raft.ErrNothingNewToSnapshot }
func (rawFSM) Restore(io.ReadCloser) error         { return nil }

// load distributes b.N calls of write among proposers and reports the rate.
func load(b *testing.B, proposers int, write func() error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	began := time.Now()
	for range proposers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := write(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "ops/s")
}

// rawCluster starts hashicorp/raft with its defaults, on loopback TCP with boltdb and fsync, for comparison, and
// returns the replica that leads.
func rawCluster(b *testing.B) *raft.Raft {
	b.Helper()
	quiet := hclog.NewNullLogger()
	var servers []raft.Server
	var transports []*raft.NetworkTransport
	for i := range 3 {
		t, err := raft.NewTCPTransportWithLogger("127.0.0.1:0", nil, 3, 10*time.Second, quiet)
		require.NoError(b, err)
		transports = append(transports, t)
		servers = append(servers, raft.Server{ID: raft.ServerID(fmt.Sprint("c", i)), Address: t.LocalAddr()})
	}
	var nodes []*raft.Raft
	for i, t := range transports {
		store, err := raftboltdb.NewBoltStore(filepath.Join(b.TempDir(), "raft.db"))
		require.NoError(b, err)
		conf := raft.DefaultConfig()
		conf.LocalID, conf.Logger = servers[i].ID, quiet
		snapshots := raft.NewDiscardSnapshotStore()
		require.NoError(b, raft.BootstrapCluster(conf, store, store, snapshots, t, raft.Configuration{Servers: servers}))
		r, err := raft.NewRaft(conf, rawFSM{}, store, store, snapshots, t)
		require.NoError(b, err)
		nodes = append(nodes, r)
		b.Cleanup(func() {
			require.NoError(b, r.Shutdown().Error())
			require.NoError(b, store.Close())
		})
	}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		for _, r := range nodes {
			if r.State() == raft.Leader && r.Barrier(0).Error() == nil {
				return r
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	require.Fail(b, "no leader")
	return nil
}

// tcpCluster opens three nodes on loopback TCP and returns them with the leader first.
func tcpCluster(tb testing.TB, tune func(id string, c *Config)) []*Node {
	tb.Helper()
	var configs []Config
	var members []Server
	for i := range 3 {
		id := fmt.Sprint("c", i+1)
		cfg := Config{ID: id, Dir: filepath.Join(tb.TempDir(), id), BindAddr: "127.0.0.1:0", Pack: packChain}
		if tune != nil {
			tune(id, &cfg)
		}
		// The ports must be known before the nodes are opened, because they are in the list of members.
		s, err := listen(cfg.withDefaults())
		require.NoError(tb, err)
		cfg.Stream = s
		configs = append(configs, cfg)
		members = append(members, Server{ID: id, Addr: s.Addr().String()})
	}
	var nodes []*Node
	for _, cfg := range configs {
		cfg.Bootstrap = members
		n, err := Open(cfg, nothing{})
		require.NoError(tb, err)
		tb.Cleanup(func() { require.NoError(tb, n.Shutdown(context.Background())) })
		nodes = append(nodes, n)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	leads := make(chan int, len(nodes))
	var watching sync.WaitGroup
	for i, n := range nodes {
		watching.Go(func() { n.Lead(ctx, func(context.Context, uint64) { leads <- i }) })
	}
	select {
	case i := <-leads:
		nodes[0], nodes[i] = nodes[i], nodes[0]
	case <-ctx.Done():
		require.Fail(tb, "no leader")
	}
	cancel()
	watching.Wait()
	return nodes
}

func BenchmarkApply(b *testing.B) {
	command := make([]byte, 256)
	for _, proposers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("raw/%d", proposers), func(b *testing.B) {
			r := rawCluster(b)
			load(b, proposers, func() error { return r.Apply(command, 0).Error() })
		})
	}
	for name, tune := range map[string]func(string, *Config){
		"boltdb": func(_ string, c *Config) { c.LogStore = StoreBolt },
		"wal":    nil,
	} {
		for _, proposers := range []int{1, 64, 256} {
			b.Run(fmt.Sprintf("propose-%s/%d", name, proposers), func(b *testing.B) {
				leader := tcpCluster(b, tune)[0]
				load(b, proposers, func() error {
					_, err := leader.Propose(context.Background(), command)
					return err
				})
				b.ReportMetric(float64(b.N)/float64(leader.AppliedIndex()), "commands/entry")
			})
		}
	}
}

func BenchmarkReadIndex(b *testing.B) {
	for _, readers := range []int{1, 64} {
		b.Run(fmt.Sprint(readers), func(b *testing.B) {
			leader := tcpCluster(b, nil)[0]
			load(b, readers, func() error {
				_, _, err := leader.ReadIndex(context.Background())
				return err
			})
		})
	}
}

// BenchmarkFollowerApply measures the time from the answer to a write until a follower has applied it, on an otherwise
// idle cluster. It depends on CommitTimeout.
func BenchmarkFollowerApply(b *testing.B) {
	for _, timeout := range []time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond} {
		b.Run(timeout.String(), func(b *testing.B) {
			nodes := tcpCluster(b, func(_ string, c *Config) { c.CommitTimeout = timeout })
			for b.Loop() {
				a, err := nodes[0].Propose(context.Background(), []byte("x"))
				if err == nil {
					err = nodes[1].WaitApplied(context.Background(), a.Index)
				}
				require.NoError(b, err)
			}
		})
	}
}
