package coordinator

import (
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/raftnode"
	"github.com/mindcoordinator/mind/raftnode/hostlog"
	"github.com/mindcoordinator/mind/raftnode/replay"
)

// explainAt asks a coordinator for the explanation of a job after an entry.
func (c *cluster) explainAt(at, id string, index uint64) (*v1.ExplainJobResponse, error) {
	return c.jobs(at).ExplainJob(c.ctx("t1", ""), &v1.ExplainJobRequest{JobId: id, AtIndex: index})
}

// index returns the index of the newest entry that a coordinator has applied.
func (c *cluster) index(at string) uint64 {
	c.t.Helper()
	resp, err := c.operators(at).GetStateHash(c.ctx("", ""), &v1.GetStateHashRequest{})
	require.NoError(c.t, err)
	return resp.GetIndex()
}

func (c *cluster) setQuota(at string, gpus int32) {
	c.t.Helper()
	_, err := c.quotas(at).PutQuota(c.ctx("t1", "", status.KeyUser, "root"), &v1.PutQuotaRequest{Quota: &v1.Quota{MaxGpus: proto.Int32(gpus)}})
	require.NoError(c.t, err)
}

// moments has the index and the time of each event of a story.
type moments struct {
	running, waiting  string
	before, submitted uint64 // the submit of waiting is between them
	blocked, barred   uint64
	blockedAt         time.Time
	placed            uint64
}

// tell lets one job wait for another one's GPUs, then for a quota, and then run.
func (c *cluster) tell() (m moments) {
	at := c.follower()
	a := c.agent("n1", 2)
	m.running = c.submit(at, limited("a", "n1", 10))
	c.awaitStatus(at, m.running, v1.JobStatus_TRAINING)
	m.before = c.index(at)
	m.waiting = c.submit(at, limited("b", "n1", 5))
	c.get(at, m.waiting)
	m.submitted = c.index(at)
	c.eventually("it is never considered", func() bool { return c.get(at, m.waiting).GetStatus() == v1.JobStatus_QUEUED })
	time.Sleep(time.Minute)
	m.blocked, m.blockedAt = c.index(at), time.Now()
	time.Sleep(time.Minute)
	c.setQuota(at, 2)
	time.Sleep(time.Minute)
	m.barred = c.index(at)
	a.end(m.running, 0)
	j := c.awaitStatus(at, m.waiting, v1.JobStatus_TRAINING)
	require.Equal(c.t, []string{"n1"}, j.GetNodes())
	m.placed = c.index(at)
	return m
}

func (c *cluster) holdToStory(at string, m moments) {
	t := c.t
	t.Helper()
	got, err := c.explainAt(at, m.waiting, m.blocked)
	require.NoError(t, err)
	require.Equal(t, v1.JobState_QUEUED, got.GetState())
	require.EqualValues(t, 1, got.GetQueuePosition())
	require.Len(t, got.GetObstacles(), 1)
	require.Equal(t, v1.ObstacleKind_NODES, got.GetObstacles()[0].GetKind())
	require.Equal(t, m.running, got.GetStartsAfter())
	started := c.get(at, m.running).GetStartedAt().AsTime()
	require.Equal(t, started.Add(10*time.Hour), got.GetEstimatedStartAt().AsTime(), "as it was told then")
	require.Contains(t, suppositions(got.GetRemedies()), "cancel="+m.running, "the other one ran then")
	require.Equal(t, m.blocked, got.GetAt().GetIndex())
	require.False(t, got.GetAt().GetTime().AsTime().After(m.blockedAt))
	require.Equal(t, v1.JobState_QUEUED, got.GetAt().GetLastChange().GetTo())
	require.Equal(t, "it was submitted", got.GetAt().GetLastChange().GetMessage())
	require.Greater(t, got.GetAt().GetLastChange().GetIndex(), m.before)
	require.LessOrEqual(t, got.GetAt().GetLastChange().GetIndex(), m.submitted)

	byTime, err := c.jobs(at).ExplainJob(c.ctx("t1", ""), &v1.ExplainJobRequest{JobId: m.waiting, AtTime: timestamppb.New(m.blockedAt)})
	require.NoError(t, err)
	require.Equal(t, m.blockedAt.UTC(), byTime.GetAt().GetTime().AsTime())
	require.GreaterOrEqual(t, byTime.GetAt().GetIndex(), m.blocked, "entries may have come that the test did not see")
	require.Equal(t, v1.ObstacleKind_NODES, byTime.GetObstacles()[0].GetKind())
	require.Contains(t, byTime.GetDetails(), "starts in about 10 h at the earliest, when "+m.running+" ends (an estimate from the jobs of its tenant alone)")

	got, err = c.explainAt(at, m.waiting, m.barred)
	require.NoError(t, err)
	require.Equal(t, v1.ObstacleKind_QUOTA, got.GetObstacles()[0].GetKind())
	require.EqualValues(t, 2, got.GetObstacles()[0].GetUsed(), "what was in use then")
	whatIf, err := c.jobs(at).ExplainJob(c.ctx("t1", ""), &v1.ExplainJobRequest{JobId: m.waiting, AtIndex: m.barred, WhatIf: []string{"cancel=" + m.running}})
	require.NoError(t, err)
	require.True(t, whatIf.GetWhatIf().GetStartsNow())

	got, err = c.explainAt(at, m.waiting, m.placed)
	require.NoError(t, err)
	require.Equal(t, v1.JobState_RUNNING, got.GetState())
	require.EqualValues(t, 1, got.GetAt().GetAttempt())
	require.Equal(t, []string{"n1"}, got.GetAt().GetNodeIds())

	// The entry that placed the job shows the placement.
	found := false
	for index := m.barred + 1; index <= m.placed && !found; index++ {
		got, err = c.explainAt(at, m.waiting, index)
		require.NoError(t, err)
		if got.GetState() != v1.JobState_ALLOCATED {
			continue
		}
		found = true
		require.Equal(t, index, got.GetAt().GetLastChange().GetIndex())
		require.Equal(t, "attempt 1 got its places on n1", got.GetAt().GetLastChange().GetMessage())
		require.Equal(t, []string{"n1"}, got.GetAt().GetLastChange().GetNodeIds())
	}
	require.True(t, found)
}

func TestExplainPast_onEveryReplicaAndAfterALeaderChange(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, promptly)
		m := c.tell()
		for _, id := range c.ids {
			c.holdToStory(id, m)
		}
		first := c.leader()
		c.kill(first)
		c.holdToStory(c.leader(), m)
		c.start(first)
		c.lead(first)
		c.holdToStory(first, m)
	})
}

func TestExplainPast_whatCannotBeAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, func(config *Config) {
			config.RaftTuning = func(r *raftnode.Config) {
				r.SnapshotThreshold, r.SnapshotInterval, r.TrailingLogs = 16, 50*time.Millisecond, 4
			}
		})
		before := c.index("c1")
		id := c.submit("c1", patient(sleeper(2, 0)))
		c.get("c1", id)
		created := c.index("c1")
		_, err := c.explainAt("c1", id, before)
		requireCode(t, codes.InvalidArgument, err)
		require.ErrorContains(t, err, id+" did not exist yet at entry")
		require.ErrorContains(t, err, "it was submitted at entry")
		_, err = c.explainAt("c1", id, created+1000)
		requireCode(t, codes.InvalidArgument, err)
		require.ErrorContains(t, err, "is not written yet: the last one is")
		ask := func(req *v1.ExplainJobRequest) error {
			req.JobId = id
			_, err := c.jobs("c1").ExplainJob(c.ctx("t1", ""), req)
			return err
		}
		requireCode(t, codes.InvalidArgument, ask(&v1.ExplainJobRequest{AtTime: timestamppb.New(time.Now().Add(time.Hour))}))
		requireCode(t, codes.InvalidArgument, ask(&v1.ExplainJobRequest{AtIndex: 1, AtTime: timestamppb.Now()}))
		requireCode(t, codes.InvalidArgument, ask(&v1.ExplainJobRequest{AtTime: &timestamppb.Timestamp{Nanos: -1}}))
		err = ask(&v1.ExplainJobRequest{AtTime: timestamppb.New(time.Unix(1, 0))})
		require.ErrorContains(t, err, "did not exist yet at entry")

		_, err = c.jobs("c1").ExplainJob(c.ctx("t2", ""), &v1.ExplainJobRequest{JobId: id, AtIndex: created})
		requireCode(t, codes.NotFound, err)

		early := time.Now()
		time.Sleep(time.Minute)
		for range 60 {
			c.write("c1")
		}
		c.eventually("the log is never shortened", func() bool {
			_, err := c.explainAt("c1", id, created)
			return err != nil
		})
		for _, req := range []*v1.ExplainJobRequest{{AtIndex: created}, {AtTime: timestamppb.New(early)}} {
			err = ask(req)
			requireCode(t, codes.FailedPrecondition, err)
			require.ErrorContains(t, err, "c1 keeps its log from entry ")
			require.ErrorContains(t, err, "ask for that or for a later moment")
		}
		got, err := c.explainAt("c1", id, c.index("c1"))
		require.NoError(t, err, "the newest is always there")
		require.Nil(t, got.GetAt().GetLastChange(), "it happened before what is kept")
	})
}

// recorded has the state of a coordinator after each entry.
type recorded struct {
	mu     sync.Mutex
	hashes map[uint64]uint64
	log    raftnode.Store
}

func (r *recorded) observe(v *fsm.View, _ []event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hashes[v.Index()] = v.Hash()
}

// replayed is a state machine of the test.
type replayed struct{ replica.Hosted }

func (r *replayed) Now() time.Time                { return time.Unix(0, r.View().Now()) }
func (r *replayed) TimeOf(entry []byte) time.Time { return time.Unix(0, kernel.TimeOf(entry)) }

// The replayed state at an index equals the state that the running state machine had there, also from snapshots and a
// truncated log.
func TestExplainPast_theStateIsTheOneThatWas(t *testing.T) {
	for _, store := range []string{"wal", "boltdb"} {
		t.Run(store, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				told := map[string]*recorded{}
				c := startClusterOnFiles(t, 3, func(config *Config) {
					r := &recorded{hashes: map[uint64]uint64{}}
					told[config.ID] = r
					config.Observe, config.LogStore = r.observe, store
					config.RaftTuning = func(rc *raftnode.Config) {
						rc.SnapshotThreshold, rc.SnapshotInterval, rc.TrailingLogs = 16, 50*time.Millisecond, 28
						rc.WrapStore = func(s raftnode.Store) raftnode.Store { r.log = s; return s }
					}
				})
				m := c.tell()
				for i := range 60 {
					if c.write(c.follower()); i%5 == 0 {
						time.Sleep(time.Second) // for a snapshot
					}
				}
				for _, id := range c.ids {
					c.get(id, m.waiting)
					r := told[id]
					files, err := raft.NewFileSnapshotStoreWithLogger(filepath.Join(c.members[id].config.DataDir, "raft", "snapshots"), 2, hostlog.New(slog.New(slog.DiscardHandler)))
					require.NoError(t, err)
					r.mu.Lock()
					from := replay.Source{Log: r.log, Snapshots: files, Applied: 0}
					for index := range r.hashes {
						from.Applied = max(from.Applied, index)
					}
					snapshots, err := files.List()
					require.NoError(t, err)
					before, tooOld := 0, 0
					for index := uint64(1); index <= from.Applied; index += 3 {
						want, ok := r.hashes[index]
						if !ok {
							continue
						}
						s, _, err := replay.To(t.Context(), from, replay.Moment{Index: index}, func() *replayed { return &replayed{replica.Hosted{Machine: fsm.New()}} })
						if old := (*replay.TooOldError)(nil); errors.As(err, &old) {
							require.Greater(t, old.Oldest.Index, index)
							tooOld++
							continue
						}
						require.NoError(t, err)
						require.Equal(t, want, s.View().Hash(), "%s at entry %d", id, index)
						if index < snapshots[0].Index {
							before++
						}
					}
					r.mu.Unlock()
					require.Positive(t, before, "there was more than what came since the newest snapshot")
					require.Positive(t, tooOld)
				}
			})
		})
	}
}
