package raftnode

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/pki"
)

func withTLS(tb testing.TB, ca *pki.CA, role string) func(string, *Config) {
	return func(id string, c *Config) {
		files, err := ca.Issue(filepath.Join(tb.TempDir(), "certs"), id, role)
		require.NoError(tb, err)
		c.ServerTLS, err = files.ServerTLS()
		require.NoError(tb, err)
		c.ClientTLS, err = files.ClientTLS()
		require.NoError(tb, err)
	}
}

func TestTransport_replicasSpeakMutualTLS(t *testing.T) {
	ca, err := pki.CreateCA(t.TempDir())
	require.NoError(t, err)
	nodes := tcpCluster(t, withTLS(t, ca, pki.RoleCoordinator))
	var a Applied
	said := map[string]error{}
	taken := func() bool {
		for _, n := range nodes {
			if a, err = n.Propose(t.Context(), []byte("secret")); err == nil {
				return true
			}
			said[n.cfg.ID] = err
		}
		return false
	}
	for end := time.Now().Add(time.Minute); !taken(); time.Sleep(20 * time.Millisecond) { // until a replica leads
		require.True(t, time.Now().Before(end), "nobody takes a write: %v", said)
	}
	for _, n := range nodes {
		require.NoError(t, n.WaitApplied(t.Context(), a.Index))
	}

	addr := nodes[0].transport.LocalAddr()
	for name, c := range map[string]*tls.Config{
		"an agent of the same authority": clientAs(t, ca, pki.RoleAgent),
		"no certificate":                 {InsecureSkipVerify: true},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := net.Dial("tcp", string(addr))
			require.NoError(t, err)
			defer raw.Close()
			require.NoError(t, raw.SetDeadline(time.Now().Add(30*time.Second)))
			c.ServerName = "localhost"
			conn := tls.Client(raw, c)
			// With TLS 1.3 a client learns of a refusal only after its own handshake.
			if err = conn.Handshake(); err == nil {
				_, err = conn.Read(make([]byte, 1))
			}
			var refused *net.OpError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, "remote error", refused.Op, "%v", err)
		})
	}
	t.Run("a caller refuses an agent that answers", func(t *testing.T) {
		var agent, coordinator Config
		withTLS(t, ca, pki.RoleAgent)("n1", &agent)
		withTLS(t, ca, pki.RoleCoordinator)("c9", &coordinator)
		listener, err := tls.Listen("tcp", "127.0.0.1:0", agent.ServerTLS)
		require.NoError(t, err)
		defer listener.Close()
		go func() {
			if c, err := listener.Accept(); err == nil {
				_, _ = c.Read(make([]byte, 1))
				_ = c.Close()
			}
		}()
		coordinator.BindAddr = "127.0.0.1:0"
		s, err := listen(coordinator.withDefaults())
		require.NoError(t, err)
		defer s.Close()
		_, err = s.Dial(raft.ServerAddress(listener.Addr().String()), 30*time.Second)
		require.ErrorContains(t, err, "no coordinator")
	})
}

func clientAs(t *testing.T, ca *pki.CA, role string) *tls.Config {
	var c Config
	withTLS(t, ca, role)("x", &c)
	return c.ClientTLS
}

func TestStream_needsAnAddressThatOthersCanReach(t *testing.T) {
	_, err := listen(Config{BindAddr: ":0"})
	require.ErrorContains(t, err, "AdvertiseAddr")
	s, err := listen(Config{BindAddr: ":0", AdvertiseAddr: "node-1.example:7000"})
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, "node-1.example:7000", s.Addr().String())
}

func TestStream_silentCallerHoldsNobodyUp(t *testing.T) {
	ca, err := pki.CreateCA(t.TempDir())
	require.NoError(t, err)
	cfg := Config{BindAddr: "127.0.0.1:0", LinkTimeout: 50 * time.Millisecond}
	withTLS(t, ca, pki.RoleCoordinator)("c1", &cfg)
	s, err := listen(cfg.withDefaults())
	require.NoError(t, err)
	defer s.Close()
	silent, err := net.Dial("tcp", s.Addr().String())
	require.NoError(t, err)
	defer silent.Close()
	conn, err := s.Accept() // returns although the caller has sent nothing
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// Followers that wait for their disks do not answer heartbeats. The leader must not step down because of that.
func TestNode_slowDisksCauseNoElections(t *testing.T) {
	const slow = 250 * time.Millisecond
	var mu sync.Mutex
	stall := false
	tune := func(_ string, cfg *Config) {
		cfg.WrapStore = func(s Store) Store {
			return &slowDisk{Store: s, wait: func() {
				mu.Lock()
				wait := stall
				mu.Unlock()
				if wait {
					time.Sleep(slow)
				}
			}}
		}
	}
	runCluster(t, 3, tune, func(t *testing.T, c *cluster) {
		leader := c.leader()
		c.propose(leader, "x")
		term := leader.Stats().Term
		mu.Lock()
		stall = true
		mu.Unlock()
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for j := range 20 {
					if _, err := leader.Propose(t.Context(), fmt.Appendf(nil, "%d-%d", i, j)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		require.Equal(t, term, leader.Stats().Term)
		mu.Lock()
		stall = false
		mu.Unlock()
	})
}

type slowDisk struct {
	Store
	wait func()
}

func (d *slowDisk) StoreLogs(l []*raft.Log) error {
	d.wait()
	return d.Store.StoreLogs(l)
}

func TestMetrics_tellWhatTheNodeDoes(t *testing.T) {
	registries := map[string]*prometheus.Registry{}
	runCluster(t, 3, func(id string, cfg *Config) {
		registries[id] = prometheus.NewRegistry()
		cfg.Metrics = registries[id]
	}, func(t *testing.T, c *cluster) {
		leader := c.leader()
		c.agree(c.propose(leader, "x").Index)
		leaders := 0.0
		for id, r := range registries {
			got := map[string]float64{}
			families, err := r.Gather()
			require.NoError(t, err)
			for _, f := range families {
				if h := f.GetMetric()[0].GetHistogram(); h != nil {
					got[f.GetName()] = float64(h.GetSampleCount())
				} else {
					got[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
				}
			}
			require.Len(t, got, 6)
			require.Equal(t, c.nodes[id].Timeout().Seconds(), got["mind_raft_timeout_seconds"])
			leaders += got["mind_raft_leader"]
			require.Equal(t, float64(c.nodes[id].AppliedIndex()), got["mind_raft_applied_index"])
			if id == leader.cfg.ID {
				require.Equal(t, 1.0, got["mind_raft_commit_seconds"])
				require.Equal(t, 1.0, got["mind_raft_entry_commands"])
			}
		}
		require.Equal(t, 1.0, leaders)
		// A replica that starts again in the same process can register its metrics again.
		c.stop("c1")
		c.start("c1", c.ids)
		families, err := registries["c1"].Gather()
		require.NoError(t, err)
		require.Len(t, families, 6)
	})
}

func TestLinks_closeIsFinal(t *testing.T) {
	var cfg Config
	cfg.BindAddr = "127.0.0.1:0"
	cfg = cfg.withDefaults()
	tr, err := openTransport(cfg, newPacing(cfg, cfg.Logger), hclog.NewNullLogger())
	require.NoError(t, err)
	conn, err := net.Dial("tcp", string(tr.LocalAddr()))
	require.NoError(t, err)
	defer conn.Close()
	out, err := tr.links.Dial(tr.LocalAddr(), time.Minute)
	require.NoError(t, err)
	tr.sever()
	require.NoError(t, tr.Close(), "twice is no error")
	_, err = out.Write([]byte("x"))
	require.Error(t, err)
	_, err = tr.links.Dial(tr.LocalAddr(), time.Minute)
	require.True(t, errors.Is(err, errSevered))
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err, "an accepted connection is closed too")
}
