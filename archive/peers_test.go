package archive_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/agent"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/devcluster/ports/porttest"
)

// alone makes a machine without an archive that shares no file system with earlier ones.
func (s *site) alone(id string, change func(*agent.Config)) *machine {
	s.t.Helper()
	if exec.Command("unshare", "--map-root-user", "--mount", "true").Run() != nil {
		s.t.Skip("no machine with a file system of its own: unshare cannot make a mount namespace here")
	}
	m := s.machine(id, func(c *agent.Config) {
		c.LogArchive = agent.LogArchive{}
		if change != nil {
			change(c)
		}
	})
	s.apart = append(s.apart, m)
	return m
}

// saves is a script that makes checkpoints. When it resumes, it writes the path and a digest of the checkpoint to the
// file told.
const saves = `
	told=%s
	if [ -n "$MIND_RESUME_FROM" ]; then
		echo "$MIND_NODE_RANK $MIND_RESUME_FROM $(cat $MIND_RESUME_FROM/weights $MIND_RESUME_FROM/latest/0 | sha256sum)" >> $told
		exit 0
	fi
	if [ $MIND_ATTEMPT != 1 ]; then
		echo "$MIND_NODE_RANK from the beginning" >> $told
		exit 0
	fi
	if [ $MIND_NODE_RANK = 0 ]; then
		for step in %s; do
			mkdir -p $MIND_CHECKPOINT_DIR/.new/rank
			head -c %d /dev/urandom > $MIND_CHECKPOINT_DIR/.new/weights
			echo optimizer > $MIND_CHECKPOINT_DIR/.new/rank/0
			ln -s rank $MIND_CHECKPOINT_DIR/.new/latest
			mv $MIND_CHECKPOINT_DIR/.new $MIND_CHECKPOINT_DIR/checkpoint-$step
			sleep 0.1
		done
	fi
	sleep 1000`

// saved waits for the checkpoints of a job, and returns the digest of the newest.
func (s *site) saved(job string, count int) (newest *v1.Checkpoint, sum string) {
	s.t.Helper()
	var all []*v1.Checkpoint
	s.eventually("checkpoints", func() error {
		if all = s.checkpoints(job); len(all) < count {
			return fmt.Errorf("there are %d", len(all))
		}
		return nil
	})
	newest = all[0]
	for _, c := range all {
		require.Equal(s.t, v1.CheckpointState_LOCAL, c.GetState(), "there is no archive")
		if c.GetStep() > newest.GetStep() {
			newest = c
		}
	}
	return newest, digestOf(s.t, newest.GetPath())
}

func digestOf(t *testing.T, checkpoint string) string {
	weights, err := os.ReadFile(filepath.Join(checkpoint, "weights"))
	require.NoError(t, err)
	return fmt.Sprintf("%x", sha256.Sum256(append(weights, "optimizer\n"...)))
}

func (s *site) drain(node string) {
	_, err := s.cluster().DrainNode(s.ctx(), &v1.DrainNodeRequest{NodeId: node, Force: true})
	require.NoError(s.t, err)
}

// lines returns the lines that the tasks of a job wrote to the file told, once the job is over.
func (s *site) lines(job, told string) []string {
	s.t.Helper()
	ended := s.awaitJob(job, over)
	text, err := os.ReadFile(told)
	require.NoError(s.t, err, "%v", ended)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// A node is drained. Its job resumes elsewhere, from a checkpoint that only the drained node has.
func TestPeers_aJobResumesFromTheNodeThatHasTheCheckpoint(t *testing.T) {
	t.Parallel()
	s := startSite(t, "")
	s.alone("n1", nil)
	told := filepath.Join(t.TempDir(), "told")
	id := s.submit(fmt.Sprintf(saves, told, "7", 3_000_000), func(req *v1.SubmitJobRequest) { req.SchedulingConfig.MaxRetries = proto.Int32(1) })
	_, sum := s.saved(id, 1)
	n2 := s.alone("n2", nil)
	s.drain("n1")
	got := s.lines(id, told)
	require.Len(t, got, 1)
	require.Contains(t, got[0], sum)
	require.Contains(t, got[0], n2.cfg.DataDir, "it was fetched")
	require.Contains(t, got[0], "/checkpoint-7 ")
	require.Len(t, s.checkpoints(id), 1, "what was fetched is no checkpoint of the second attempt")
}

// The agent that has the checkpoint dies during the fetch, and comes back: the fetch continues where it stopped.
func TestPeers_aFetchGoesOnWhenTheAgentIsBack(t *testing.T) {
	t.Parallel()
	s := startSite(t, "")
	address := porttest.Claim(t)
	n1 := s.alone("n1", func(c *agent.Config) { c.GRPCAddr, c.CheckpointServeRate = address, 2_000_000 })
	told := filepath.Join(t.TempDir(), "told")
	id := s.submit(fmt.Sprintf(saves, told, "7", 6_000_000), func(req *v1.SubmitJobRequest) { req.SchedulingConfig.MaxRetries = proto.Int32(1) })
	_, sum := s.saved(id, 1)
	n2 := s.alone("n2", nil)
	s.drain("n1")
	s.midway(n2)
	n1.killAgent()
	n1.start() // the node stays drained
	got := s.lines(id, told)
	require.Len(t, got, 1)
	require.Contains(t, got[0], sum)
	require.Contains(t, got[0], n2.cfg.DataDir)
}

// midway waits until a machine has fetched a part of a checkpoint.
func (s *site) midway(m *machine) {
	s.t.Helper()
	s.eventually("a part of a checkpoint", func() error {
		parts, err := filepath.Glob(filepath.Join(m.cfg.DataDir, "datacache", "*", "parts", "*", "*.part"))
		for _, part := range parts {
			if info, err := os.Stat(part); err == nil && info.Size() > 500_000 {
				return nil
			}
		}
		return fmt.Errorf("there are %v: %w", parts, err)
	})
}

// The node that has the newest checkpoint dies during the fetch. The job starts from the beginning, and not from half a
// checkpoint.
func TestPeers_halfACheckpointIsNone(t *testing.T) {
	t.Parallel()
	s := startSite(t, "")
	n1 := s.alone("n1", func(c *agent.Config) { c.CheckpointServeRate = 1_000_000 })
	told := filepath.Join(t.TempDir(), "told")
	id := s.submit(fmt.Sprintf(saves, told, "7", 30_000_000), func(req *v1.SubmitJobRequest) { req.SchedulingConfig.MaxRetries = proto.Int32(1) })
	s.saved(id, 1)
	n2 := s.alone("n2", nil)
	s.drain("n1")
	s.midway(n2)
	n1.perish()
	require.Equal(t, []string{"0 from the beginning"}, s.lines(id, told))
}

// Two ranks resume from a checkpoint that neither of their nodes has.
func TestPeers_allRanksResumeFromTheSameStep(t *testing.T) {
	t.Parallel()
	s := startSite(t, "")
	s.alone("n1", nil)
	s.alone("n2", nil)
	told := filepath.Join(t.TempDir(), "told")
	id := s.submit(fmt.Sprintf(saves, told, "5 6 7", 100_000), func(req *v1.SubmitJobRequest) {
		req.SchedulingConfig.MaxRetries = proto.Int32(1)
		req.ResourceConfig = &v1.ResourceConfig{CpuCount: 1, NodeCount: 2}
	})
	newest, sum := s.saved(id, 3)
	require.EqualValues(t, 7, newest.GetStep())
	s.alone("n3", nil)
	s.alone("n4", nil)
	s.drain("n1")
	s.drain("n2")
	got := s.lines(id, told)
	require.Len(t, got, 2)
	for _, line := range got {
		require.Contains(t, line, "/checkpoint-7 ")
		require.Contains(t, line, sum)
	}
}
