package coordinator

import (
	"fmt"
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

// tampering lets a test change the entries that one replica applies: from then on its log time differs a little,
// permanently.
type tampering struct{ on sync.Map }

func (x *tampering) change(config *Config) {
	armed := new(atomic.Bool)
	x.on.Store(config.ID, armed)
	config.Timers.SelfCheck = 100 * time.Millisecond
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
	_, body := c.page(id, "/metrics")
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(body)
	require.NotNil(c.t, found, "%s has no %s", id, name)
	value, err := strconv.ParseFloat(found[1], 64)
	require.NoError(c.t, err)
	return value
}

const (
	mismatches  = "mind_state_hash_mismatch_total"
	comparisons = "mind_state_hash_comparisons_total"
)

// write submits a job.
func (c *cluster) write(at string) {
	c.t.Helper()
	c.submit(at, sleeper(1, 0))
}

// awaitWrite submits jobs until one is accepted, while another leader is elected.
func (c *cluster) awaitWrite(at string) {
	c.t.Helper()
	c.succeeds("no write is taken at "+at, func() error {
		_, err := c.jobs(at).SubmitJob(c.ctx("t1", ""), sleeper(1, 0))
		return err
	})
}

// awaitRetired waits until a coordinator refuses calls because its state differs, and checks its behaviour from then
// on.
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
	code, body := c.page(id, "/health/ready")
	require.Equal(c.t, http.StatusServiceUnavailable, code)
	require.Contains(c.t, body, "out of service")
	require.Positive(c.t, c.metric(id, mismatches))
}

func TestSelfcheck_aReplicaThatDivergesTakesItselfOut(t *testing.T) {
	for _, leading := range []bool{false, true} {
		t.Run(fmt.Sprintf("leading=%v", leading), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var x tampering
				var log lockedLog
				c := startCluster(t, 3, func(config *Config) {
					x.change(config)
					config.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
				})
				c.agent("n1", 1)
				id := c.submit(c.ids[0], sleeper(1, 0))
				c.awaitStatus(c.ids[0], id, v1.JobStatus_TRAINING)
				victim := c.leader()
				if !leading {
					victim = c.follower()
				}
				sound := slices.DeleteFunc(slices.Clone(c.ids), func(id string) bool { return id == victim })
				x.spoil(victim)
				c.awaitWrite(sound[0]) // a victim that leads may be out of service before it answers
				c.awaitRetired(victim)
				c.eventually("the log does not tell", func() bool { return strings.Contains(log.String(), "this replica takes itself out of service") })

				// The others continue, and none of them retires.
				for _, other := range sound {
					c.awaitWrite(other)
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
				// It stops without an error, and its data is unchanged: after a restart without the fault its state is
				// right again.
				c.kill(victim)
				c.members[victim].config.Tamper = nil
				c.start(victim)
				c.succeeds("it does not serve again", func() error {
					_, err := c.nodes(victim).ListNodes(c.ctx("t1", ""), &v1.ListNodesRequest{})
					return err
				})
				c.awaitComparisons(victim)
				require.Zero(t, c.metric(victim, mismatches))
			})
		})
	}
}

// awaitComparisons waits until coordinators have compared their states a few more times.
func (c *cluster) awaitComparisons(ids ...string) {
	c.t.Helper()
	for _, id := range ids {
		from := c.metric(id, comparisons)
		c.eventually(id+" compares nothing", func() bool { return c.metric(id, comparisons) >= from+6 })
	}
}

func TestSelfcheck_withoutAMajorityAllSoundTheAlarmAndServe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
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
		// The third replica makes a majority.
		c.start(gone)
		c.awaitRetired(left[0])
		c.awaitWrite(gone)
	})
}

func TestSelfcheck_noFalseAlarms(t *testing.T) {
	inBubble(t, func(t *testing.T) {
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
		for range 60 { // far more than the log keeps, so it comes back by a snapshot
			c.write(c.running()[0])
		}
		c.start(lags)
		c.leader()
		c.awaitComparisons(c.ids...)
		for _, id := range c.ids { // each restarts from its own snapshot and log
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
	})
}

func TestGetStateHash_ofAnIndex(t *testing.T) {
	inBubble(t, func(t *testing.T) {
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
			c.succeeds(id+" does not come so far", func() error {
				then, err = c.operators(id).GetStateHash(c.ctx("", ""), &v1.GetStateHashRequest{Index: now.GetIndex()})
				return err
			})
			require.Equal(t, now.GetIndex(), then.GetIndex())
			require.Equal(t, now.GetHash(), then.GetHash())
			require.Equal(t, id, then.GetCoordinatorId())
			_, err = c.operators(id).GetStateHash(c.ctx("", ""), &v1.GetStateHashRequest{Index: 1 << 40})
			requireCode(t, codes.NotFound, err)
		}
	})
}

// lockedLog is a log that can be read while it is written.
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
