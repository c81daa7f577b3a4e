package inputs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/datacache/sources"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// reachable implements Peers for one agent.
type reachable struct {
	agents map[string]*Inputs // by node
	// has are the checkpoints that this node can fetch from other nodes.
	has map[string]bool
}

func (r *reachable) Checkpoint(point *v1.ResumePoint) *sources.Remote {
	return &sources.Remote{Files: func(context.Context) ([]sources.RemoteFile, error) {
		if !r.has[point.GetCheckpointId()] {
			return nil, sources.Refused("node %s does not give it", point.GetNodeId())
		}
		text := "of " + point.GetCheckpointId()
		return []sources.RemoteFile{{Name: "weights", Size: int64(len(text)), Version: "1", Open: func(_ context.Context, offset int64) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(text[offset:])), nil
		}}}, nil
	}}
}

func (r *reachable) Agree(ctx context.Context, with *v1.TaskPeer, req *v1.AgreeOnResumeRequest) (*v1.AgreeOnResumeResponse, error) {
	return r.agents[with.GetNodeId()].Agree(ctx, req)
}

// point returns a checkpoint that a rank saved at a step, on a node on which no task of the test runs.
func point(step int64, rank int32) *v1.ResumePoint {
	name := fmt.Sprintf("step-%d-rank-%d", step, rank)
	return &v1.ResumePoint{
		Path: "/nowhere/" + name, CheckpointId: name, ManifestDigest: "d", NodeId: "n9", NodeAddr: "n9:1", Step: step, Rank: rank, Attempt: 1,
	}
}

// gang holds the tasks of the second attempt of a job, each on its own node.
type gang struct {
	dirs   []string
	inputs []*Inputs
	spec   *v1.TaskSpec
}

// newGang makes a task for each set of checkpoints: those that its node can fetch.
func newGang(t *testing.T, points []*v1.ResumePoint, has ...map[string]bool) *gang {
	g := &gang{spec: &v1.TaskSpec{TenantId: "acme", Job: &v1.SubmitJobRequest{CommandConfig: &v1.CommandConfig{}}, ResumePoints: points}}
	agents := map[string]*Inputs{}
	for rank, of := range has {
		node := fmt.Sprintf("n%d", rank)
		dir := t.TempDir()
		in := opened(t, dir, func(c *Config) { c.Peers = &reachable{agents, of} })
		in.node = node
		agents[node] = in
		g.dirs, g.inputs = append(g.dirs, dir), append(g.inputs, in)
		g.spec.Peers = append(g.spec.Peers, &v1.TaskPeer{NodeId: node, GrpcAddr: node + ":1"})
	}
	return g
}

func (g *gang) id(rank int) taskid.ID {
	return taskid.ID{Job: "job_1", Attempt: 2, Rank: int32(rank), Token: 7}
}

// fetch returns, for each task, the contents of the checkpoint that it resumes from; "" for the beginning.
func (g *gang) fetch(t *testing.T) []string {
	t.Helper()
	got, faults := make([]string, len(g.inputs)), make([]error, len(g.inputs))
	var all sync.WaitGroup
	for rank, in := range g.inputs {
		all.Go(func() {
			require.True(t, in.Needed(g.id(rank), g.spec))
			data, err := in.Fetch(t.Context(), g.id(rank), g.spec, quiet)
			if faults[rank] = err; err == nil && data.resume.found != nil {
				text, err := os.ReadFile(filepath.Join(data.resume.found.Dir, "weights"))
				got[rank], faults[rank] = string(text), err
			}
		})
	}
	all.Wait()
	for _, err := range faults {
		require.NoError(t, err)
	}
	return got
}

func these(names ...string) map[string]bool {
	has := map[string]bool{}
	for _, n := range names {
		has[n] = true
	}
	return has
}

func TestAgree_onTheNewestThatAllCanGet(t *testing.T) {
	saved := []*v1.ResumePoint{point(30, 0), point(20, 0), point(10, 0)}
	first, second, third := "step-30-rank-0", "step-20-rank-0", "step-10-rank-0"
	for name, c := range map[string]struct {
		has  []map[string]bool
		want string
	}{
		"all have the newest":       {[]map[string]bool{these(first, second), these(first), these(first, third)}, "of " + first},
		"rank 0 has not the newest": {[]map[string]bool{these(second, third), these(first, second), these(first, second)}, "of " + second},
		"another has not":           {[]map[string]bool{these(first, second), these(first, second), these(second)}, "of " + second},
		"each lacks another":        {[]map[string]bool{these(first, third), these(second, third), these(first, second, third)}, "of " + third},
		"there is none for all":     {[]map[string]bool{these(first), these(second), these(third)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, []string{c.want, c.want, c.want}, newGang(t, saved, c.has...).fetch(t))
		})
	}
}

// If each rank saves its own part, each rank gets its own part, of the same step.
func TestAgree_eachRankTakesItsOwnPartOfAStep(t *testing.T) {
	saved := []*v1.ResumePoint{point(30, 1), point(30, 0), point(20, 1), point(20, 0)}
	all := these("step-30-rank-0", "step-30-rank-1", "step-20-rank-0", "step-20-rank-1")
	require.Equal(t, []string{"of step-30-rank-0", "of step-30-rank-1"}, newGang(t, saved, all, all).fetch(t))
	older := these("step-20-rank-0", "step-20-rank-1")
	require.Equal(t, []string{"of step-20-rank-0", "of step-20-rank-1"}, newGang(t, saved, all, older).fetch(t))
}

// The decision of rank 0 also counts for a task that asks later, even if the agent of rank 0 has died meanwhile.
func TestAgree_aDecisionOutlivesTheAgent(t *testing.T) {
	saved := []*v1.ResumePoint{point(30, 0), point(20, 0)}
	g := newGang(t, saved, these("step-30-rank-0", "step-20-rank-0"), these("step-20-rank-0"))
	require.Equal(t, []string{"of step-20-rank-0", "of step-20-rank-0"}, g.fetch(t))
	// Rank 1, which was launched already, does not ask the next agent of rank 0's node.
	again := opened(t, g.dirs[0], func(c *Config) { c.Peers = g.inputs[0].cfg.Peers })
	again.node = "n0"
	data, err := again.Fetch(t.Context(), g.id(0), g.spec, quiet)
	require.NoError(t, err)
	require.Equal(t, "step-20-rank-0", data.resume.name)
	again.Release(g.id(0))
	left, err := os.ReadDir(filepath.Join(g.dirs[0], decisionsFolder))
	require.NoError(t, err)
	require.Empty(t, left)
}

// A single task does not ask other nodes about an agreement. It resumes from the first checkpoint that it can get, from
// its own node if that has it.
func TestResume_onThisNodeFirst(t *testing.T) {
	here := point(30, 0)
	here.Path = filepath.Join(t.TempDir(), "here")
	require.NoError(t, os.Mkdir(here.GetPath(), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(here.GetPath(), "weights"), []byte("local"), 0o600))
	sum := sha256.Sum256([]byte("weights 5\n"))
	here.ManifestDigest = hex.EncodeToString(sum[:])
	g := newGang(t, []*v1.ResumePoint{here, point(20, 0)}, these("step-30-rank-0", "step-20-rank-0"))
	data, err := g.inputs[0].Fetch(t.Context(), g.id(0), g.spec, quiet)
	require.NoError(t, err)
	require.Nil(t, data.resume.found)
	require.Equal(t, here.GetPath(), data.resume.path)
	// The checkpoint on the node has changed: the registered one is elsewhere.
	require.NoError(t, os.WriteFile(filepath.Join(here.GetPath(), "more"), []byte("x"), 0o600))
	require.Equal(t, []string{"of step-30-rank-0"}, g.fetch(t))
}

// Rank 0 decides when all tasks have the proposed checkpoint. It does not wait for a rank whose agent is silent for a
// minute.
func TestAgree_rank0WaitsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := openAgreements(t.TempDir(), slog.New(slog.DiscardHandler))
		id := attempt{"job_1", 2, 7}
		g.lead(id, []*v1.TaskPeer{{NodeId: "n0"}, {NodeId: "n1"}, {NodeId: "n2"}})
		waiting := func() (done chan bool) {
			g.propose(id, point(30, 0))
			done = make(chan bool, 1)
			go func() {
				all, err := g.others(t.Context(), id, 3)
				done <- all && err == nil
			}()
			return done
		}
		answers := func(rank int32, answer v1.ResumeAnswer_Value) {
			g.mu.Lock()
			a := g.of(id)
			req := &v1.AgreeOnResumeRequest{NodeId: fmt.Sprintf("n%d", rank), Task: &v1.TaskRef{JobId: "job_1", Attempt: 2, Rank: rank, Token: 7}, Round: a.round, Proposal: a.proposal, Answer: answer}
			g.mu.Unlock()
			go func() { _, _ = g.ask(t.Context(), req) }()
			synctest.Wait()
		}
		done := waiting()
		answers(1, v1.ResumeAnswer_HAS_IT)
		answers(2, v1.ResumeAnswer_UNSPECIFIED)
		require.Empty(t, done, "rank 2 is still fetching")
		answers(2, v1.ResumeAnswer_HAS_IT)
		require.True(t, <-done)

		done = waiting()
		answers(1, v1.ResumeAnswer_HAS_IT)
		answers(2, v1.ResumeAnswer_CANNOT_GET_IT)
		require.False(t, <-done)

		done = waiting()
		answers(1, v1.ResumeAnswer_HAS_IT)
		began := time.Now()
		require.True(t, <-done, "the agent of rank 2 may be of an earlier version")
		require.Greater(t, time.Since(began), silence)
	})
}
