package coordinator

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/raftnode"
)

func TestMarkRing(t *testing.T) {
	var r markRing
	require.Zero(t, r.last())
	_, ok := r.atMost(1 << 40)
	require.False(t, ok)
	for i := uint64(1); i <= 25; i++ {
		r.add(stateMark{2 * i, i}, 10)
		require.Equal(t, stateMark{2 * i, i}, r.last())
	}
	for i := uint64(0); i <= 60; i++ {
		m, ok := r.atMost(i)
		require.Equal(t, i >= 32, ok, i) // the last ten are 32, 34, ... 50
		if ok {
			want := min(i/2, 25)
			require.Equal(t, stateMark{2 * want, want}, m, i)
		}
	}
	r.add(stateMark{50, 99}, 10)
	require.Equal(t, stateMark{50, 99}, r.last(), "the same index is noted once")
	m, _ := r.atMost(49)
	require.Equal(t, uint64(48), m.index)
	r.clear()
	require.Zero(t, r.last())
}

func TestHistory_underLoadReplicasFarApartStillFindACommonIndex(t *testing.T) {
	var ahead, lags history
	note := func(h *history, index uint64) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.recent.add(stateMark{index, index * 7}, recentMarks)
		if index%sparseStep == 0 {
			h.sparse.add(stateMark{index, index * 7}, sparseMarks)
		}
	}
	for i := uint64(1); i <= 40_000; i++ {
		note(&ahead, i)
		if i <= 30_000 {
			note(&lags, i)
		}
	}
	m, ok := ahead.near(39_999)
	require.True(t, ok)
	require.Equal(t, uint64(39_999), m.index)
	m, ok = ahead.near(29_999)
	require.True(t, ok)
	require.Equal(t, stateMark{29_952, 29_952 * 7}, m)
	other, ok := lags.at(m.index)
	require.True(t, ok)
	require.Equal(t, m, other)
	_, ok = lags.at(39_999)
	require.False(t, ok)
	_, ok = ahead.at(30_001)
	require.False(t, ok, "too long ago, and no multiple")
}

func TestCompareHashes(t *testing.T) {
	is := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for _, p := range pairs {
			id, hash, _ := strings.Cut(p, "=")
			m[id] = hash
		}
		return m
	}
	tests := map[string]struct {
		own    string
		voters int
		hashes map[string]string
		want   verdict
	}{
		"alone":                     {"a", 1, is("c1=a"), verdict{majority: true}},
		"all the same":              {"a", 3, is("c1=a", "c2=a", "c3=a"), verdict{majority: true}},
		"nobody answers":            {"a", 3, is("c1=a"), verdict{}},
		"another one differs":       {"a", 3, is("c1=a", "c2=b", "c3=a"), verdict{[]string{"c2"}, true, false}},
		"this one differs":          {"a", 3, is("c1=a", "c2=b", "c3=b"), verdict{[]string{"c2", "c3"}, true, true}},
		"one to one of three":       {"a", 3, is("c1=a", "c2=b"), verdict{[]string{"c2"}, false, false}},
		"one to one of two":         {"a", 2, is("c1=a", "c2=b"), verdict{[]string{"c2"}, false, false}},
		"three ways":                {"a", 3, is("c1=a", "c2=b", "c3=c"), verdict{[]string{"c2", "c3"}, false, false}},
		"two to two of five":        {"a", 5, is("c1=a", "c2=a", "c3=b", "c4=b"), verdict{[]string{"c3", "c4"}, false, false}},
		"three to two of five":      {"a", 5, is("c1=a", "c2=a", "c3=b", "c4=b", "c5=b"), verdict{[]string{"c3", "c4", "c5"}, true, true}},
		"two others of five differ": {"a", 5, is("c1=a", "c2=b", "c3=b"), verdict{[]string{"c2", "c3"}, false, false}},
		"not a voter, and wrong":    {"a", 3, is("c2=b", "c3=b", "c4=b"), verdict{[]string{"c2", "c3", "c4"}, true, true}},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, compareHashes("c1", c.own, c.voters, c.hashes))
		})
	}
}

// tampering lets a test spoil what one replica applies: from then on its log time is off by a little, for good.
type tampering struct{ on sync.Map }

func (x *tampering) change(config *Config) {
	armed := new(atomic.Bool)
	x.on.Store(config.ID, armed)
	config.Timers.Audit = 100 * time.Millisecond
	config.Tamper = func(_ uint64, entry []byte) []byte {
		if !armed.Load() {
			return entry
		}
		spoiled := append([]byte(nil), entry...)
		spoiled[9] ^= 1 // the last byte of the entry's time
		return spoiled
	}
}

func (x *tampering) spoil(id string) {
	armed, _ := x.on.Load(id)
	armed.(*atomic.Bool).Store(true)
}

// metric reads one figure of a coordinator.
func (c *cluster) metric(id, name string) float64 {
	c.t.Helper()
	resp, err := http.Get("http://" + c.members[id].config.HTTPAddr + "/metrics")
	require.NoError(c.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(c.t, err)
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(body)
	require.NotNil(c.t, found, "%s has no %s", id, name)
	value, err := strconv.ParseFloat(string(found[1]), 64)
	require.NoError(c.t, err)
	return value
}

func (c *cluster) eventually(why string, is func() bool) {
	c.t.Helper()
	for end := time.Now().Add(longstop); !is(); waitABit() {
		require.True(c.t, time.Now().Before(end), why)
	}
}

const (
	mismatches  = "mind_state_hash_mismatch_total"
	comparisons = "mind_state_hash_comparisons_total"
)

// write submits jobs until one is taken: a leader may be going.
func (c *cluster) write(at string) {
	c.t.Helper()
	c.eventually("no write is taken at "+at, func() bool {
		_, err := c.jobs(at).SubmitJob(c.ctx("t1", ""), sleeper(1, 0))
		return err == nil
	})
}

// awaitRetired waits until a coordinator refuses calls because of its state, and holds it to all it must do then.
func (c *cluster) awaitRetired(id string) {
	c.t.Helper()
	c.eventually(id+" does not notice that its state is wrong", func() bool {
		_, err := c.nodes(id).ListNodes(c.ctx("t1", ""), &v1.ListNodesRequest{})
		return grpcstatus.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "out of service")
	})
	_, err := c.jobs(id).SubmitJob(c.ctx("t1", ""), sleeper(1, 0))
	requireCode(c.t, codes.Unavailable, err)
	_, err = c.operators(id).GetStateHash(c.ctx("", ""), &v1.GetStateHashRequest{})
	requireCode(c.t, codes.Unavailable, err)
	require.ErrorContains(c.t, err, "is not that of a majority")
	stale := c.ctx("t1", "", "x-mind-consistency", "stale")
	_, err = c.nodes(id).ListNodes(stale, &v1.ListNodesRequest{})
	requireCode(c.t, codes.Unavailable, err)
	resp, err := http.Get("http://" + c.members[id].config.HTTPAddr + "/health/ready")
	require.NoError(c.t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(c.t, err)
	require.NoError(c.t, resp.Body.Close())
	require.Equal(c.t, http.StatusServiceUnavailable, resp.StatusCode)
	require.Contains(c.t, string(body), "out of service")
	require.Positive(c.t, c.metric(id, mismatches))
}

func TestAudit_aReplicaThatDivergesTakesItselfOut(t *testing.T) {
	for _, leading := range []bool{false, true} {
		t.Run(fmt.Sprintf("leading=%v", leading), func(t *testing.T) {
			var x tampering
			var log lockedLog
			c := startCluster(t, 3, func(config *Config) {
				x.change(config)
				config.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
			})
			a := c.agent("n1", 1)
			id := c.submit(c.ids[0], sleeper(1, 0))
			c.awaitStatus(c.ids[0], id, v1.JobStatus_TRAINING)
			victim := c.leader()
			if !leading {
				victim = c.follower()
			}
			sound := slices.DeleteFunc(slices.Clone(c.ids), func(id string) bool { return id == victim })
			x.spoil(victim)
			c.write(sound[0]) // the victim may be out of service before it could take one
			c.awaitRetired(victim)
			c.eventually("the log does not tell", func() bool { return strings.Contains(log.String(), "this replica takes itself out of service") })

			// The others go on, and none of them is the victim of its own alarm.
			for _, other := range sound {
				c.write(other)
				require.Equal(t, v1.JobStatus_TRAINING, c.get(other, id).GetStatus())
				c.eventually("nobody else leads", func() bool {
					resp, err := c.operators(other).ListPeers(c.ctx("", ""), &v1.ListPeersRequest{})
					require.NoError(t, err)
					leader := ""
					for _, p := range resp.GetPeers() {
						if p.GetLeader() {
							leader = p.GetId()
						}
					}
					return leader != "" && leader != victim
				})
			}
			_ = a
			// Stopped, it ends without an error, and its data is as it was: started anew, without the fault, it is sound again.
			c.kill(victim)
			c.members[victim].config.Tamper = nil
			c.start(victim)
			c.eventually("it does not serve again", func() bool {
				_, err := c.nodes(victim).ListNodes(c.ctx("t1", ""), &v1.ListNodesRequest{})
				return err == nil
			})
			c.awaitComparisons(victim)
			require.Zero(t, c.metric(victim, mismatches))
		})
	}
}

// awaitComparisons waits until a coordinator has compared its state some more times.
func (c *cluster) awaitComparisons(ids ...string) {
	c.t.Helper()
	for _, id := range ids {
		from := c.metric(id, comparisons)
		c.eventually(id+" compares nothing", func() bool { return c.metric(id, comparisons) >= from+6 })
	}
}

func TestAudit_withoutAMajorityAllSoundTheAlarmAndServe(t *testing.T) {
	var x tampering
	c := startCluster(t, 3, x.change)
	gone := c.follower()
	c.kill(gone)
	var left []string
	for _, id := range c.ids {
		if id != gone {
			left = append(left, id)
		}
	}
	x.spoil(left[0])
	c.write(left[0])
	for _, id := range left {
		c.eventually(id+" sounds no alarm", func() bool { return c.metric(id, mismatches) >= 3 })
	}
	for _, id := range left {
		c.write(id)
		_, err := c.nodes(id).ListNodes(c.ctx("t1", ""), &v1.ListNodesRequest{})
		require.NoError(t, err)
	}
	// The third brings the majority.
	c.start(gone)
	c.awaitRetired(left[0])
	c.write(gone)
}

func TestAudit_noFalseAlarms(t *testing.T) {
	var x tampering
	c := startCluster(t, 3, func(config *Config) {
		x.change(config)
		config.RaftTuning = func(r *raftnode.Config) {
			r.SnapshotThreshold, r.SnapshotInterval, r.TrailingLogs = 16, 50*time.Millisecond, 8
		}
	})
	c.agent("n1", 4)
	lags := c.follower()
	c.awaitComparisons(c.ids...)
	c.kill(lags)
	for range 60 { // far more than the log keeps: it comes back by a snapshot
		c.write(c.running()[0])
	}
	c.start(lags)
	c.leader()
	c.awaitComparisons(c.ids...)
	for _, id := range c.ids { // and every one once more, from its own snapshot and log
		c.kill(id)
		c.write(c.running()[0])
		c.start(id)
		c.leader()
	}
	c.lead(c.follower())
	c.awaitComparisons(c.ids...)
	for _, id := range c.ids {
		require.Zero(t, c.metric(id, mismatches), id)
		c.write(id)
	}
}

func TestGetStateHash_ofAnIndex(t *testing.T) {
	c := startCluster(t, 3, nil)
	c.write(c.ids[0])
	at := c.follower()
	now, err := c.operators(at).GetStateHash(c.ctx("", ""), &v1.GetStateHashRequest{})
	require.NoError(t, err)
	require.Equal(t, at, now.GetCoordinatorId())
	c.write(at)
	c.write(at)
	for _, id := range c.ids {
		var then *v1.GetStateHashResponse
		c.eventually(id+" does not come so far", func() bool {
			then, err = c.operators(id).GetStateHash(c.ctx("", ""), &v1.GetStateHashRequest{Index: now.GetIndex()})
			return err == nil
		})
		require.Equal(t, now.GetIndex(), then.GetIndex())
		require.Equal(t, now.GetHash(), then.GetHash())
		require.Equal(t, id, then.GetCoordinatorId())
		_, err = c.operators(id).GetStateHash(c.ctx("", ""), &v1.GetStateHashRequest{Index: 1 << 40})
		requireCode(t, codes.NotFound, err)
	}
}

// lockedLog is a log that is read while it is written.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
