package archive_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/agent"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/checkpoints"
)

// keeping makes a machine that uploads its checkpoints.
func (s *site) keeping(id, archiveURL string, rate int64) *machine {
	return s.machine(id, func(c *agent.Config) {
		c.LogArchive = agent.LogArchive{}
		c.CheckpointArchive = agent.CheckpointArchive{URL: archiveURL, Rate: rate}
	})
}

func (s *site) checkpoints(job string) []*v1.Checkpoint {
	s.t.Helper()
	resp, err := s.jobs().ListCheckpoints(s.ctx(), &v1.ListCheckpointsRequest{JobId: job})
	require.NoError(s.t, err)
	return resp.GetCheckpoints()
}

// restorable extracts a checkpoint from the archive, and compares it with the files on the node, if they still exist.
func (s *site) restorable(store archive.Store, c *v1.Checkpoint) error {
	saved, err := checkpoints.Open(s.ctx(), store, c.GetArchiveKey())
	if err != nil {
		return err
	}
	read, write := io.Pipe()
	go func() { _ = write.CloseWithError(saved.Tar(s.ctx(), write, time.Time{})) }()
	at := filepath.Join(s.t.TempDir(), c.GetCheckpointId())
	if err := checkpoints.Extract(read, at, c.GetContentDigest()); err != nil {
		return err
	}
	for _, name := range []string{"weights", "rank/0"} {
		was, err := os.ReadFile(filepath.Join(c.GetPath(), name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		is, restored := os.ReadFile(filepath.Join(at, name))
		if err := errors.Join(err, restored); err != nil {
			return err
		}
		if string(was) != string(is) {
			return fmt.Errorf("%s is not what it was", name)
		}
	}
	return nil
}

// An agent is killed repeatedly during uploads. Every DURABLE checkpoint must be in the archive, and the archive must
// have no objects without a checkpoint.
func TestSurvive_checkpointsOfAnAgentThatIsKilled(t *testing.T) {
	t.Parallel()
	s := startSite(t, "")
	where := t.TempDir()
	store, err := archive.Open("file://"+where, archive.Access{})
	require.NoError(t, err)
	n1 := s.keeping("n1", "file://"+where, 300_000)
	gate := filepath.Join(t.TempDir(), "gate")
	id := s.submit(`
		for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
			mkdir -p $MIND_CHECKPOINT_DIR/.new/rank
			head -c 250000 /dev/urandom > $MIND_CHECKPOINT_DIR/.new/weights
			head -c 50000 /dev/urandom > $MIND_CHECKPOINT_DIR/.new/rank/0
			mv $MIND_CHECKPOINT_DIR/.new $MIND_CHECKPOINT_DIR/checkpoint-$i
			sleep 0.5
		done
		while ! [ -e `+gate+` ]; do sleep 0.05; done`, func(req *v1.SubmitJobRequest) {
		req.OutputConfig = &v1.OutputConfig{KeepCheckpoints: 4}
	})
	durable := func() (n int) {
		for _, c := range s.checkpoints(id) {
			if c.GetState() == v1.CheckpointState_DURABLE {
				n++
			}
		}
		return n
	}
	tested := 0
	for round := range 20 {
		if round%5 == 2 { // in some rounds the agent lives until a checkpoint has become durable
			s.eventually("a checkpoint in the archive", func() error {
				if durable() == 0 {
					return errors.New("none says DURABLE")
				}
				return nil
			})
		}
		time.Sleep(time.Duration(rand.IntN(600)) * time.Millisecond) // the agent dies at a random time
		n1.killAgent()
		for _, c := range s.checkpoints(id) {
			if c.GetState() == v1.CheckpointState_DURABLE {
				require.NoError(t, s.restorable(store, c), "%v", c)
				tested++
			}
		}
		n1.boot()
	}
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	s.awaitJob(id, over)
	var kept []*v1.Checkpoint
	s.eventually("a job whose checkpoints are in the archive or given up", func() error {
		kept = kept[:0]
		expired := 0
		for _, c := range s.checkpoints(id) {
			switch c.GetState() {
			case v1.CheckpointState_DURABLE:
				kept = append(kept, c)
			case v1.CheckpointState_EXPIRED:
				expired++
				if _, err := os.Lstat(c.GetPath()); err == nil {
					return fmt.Errorf("%s is still on the node", c.GetPath())
				}
			default:
				return fmt.Errorf("it is %v", c)
			}
		}
		objects, err := store.List(s.ctx(), "")
		if err != nil {
			return err
		}
		var there, said int64
		for _, o := range objects {
			there += o.Size
		}
		for _, c := range kept {
			saved, err := checkpoints.Open(s.ctx(), store, c.GetArchiveKey())
			if err != nil {
				return err
			}
			said += saved.Stored()
		}
		if there != said || len(kept) != 4 || len(kept)+expired < 5 {
			return fmt.Errorf("%d bytes are in the archive, %d of them of %d kept checkpoints; %d are given up", there, said, len(kept), expired)
		}
		return nil
	})
	for _, c := range kept {
		require.NoError(t, s.restorable(store, c))
	}
	require.NoError(t, filepath.WalkDir(where, func(path string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(e.Name(), ".new-") {
			err = fmt.Errorf("a killed agent left %s", path)
		}
		return err
	}))
	require.Positive(t, tested, "checkpoints were restored between two deaths")
	t.Logf("%d times a checkpoint was restored between two deaths", tested)
}

// A node is lost for good. Its job resumes elsewhere, from the checkpoint in the archive.
func TestSurvive_aJobResumesFromTheArchive(t *testing.T) {
	for name, element := range map[string]string{"job": "", "element of an array": "[3]"} {
		t.Run(name, func(t *testing.T) { aJobResumes(t, element) })
	}
}

func aJobResumes(t *testing.T, element string) {
	t.Parallel()
	s := startSite(t, "")
	where := "file://" + t.TempDir()
	n1 := s.keeping("n1", where, 0)
	told := filepath.Join(t.TempDir(), "told")
	id := s.submit(`
		if [ -n "$MIND_RESUME_FROM" ]; then
			echo $MIND_RESUME_FROM > `+told+`
			cat $MIND_RESUME_FROM/weights $MIND_RESUME_FROM/latest/0 | sha256sum >> `+told+`
			exit 0
		fi
		mkdir -p $MIND_CHECKPOINT_DIR/.new/rank
		head -c 300000 /dev/urandom > $MIND_CHECKPOINT_DIR/.new/weights
		echo optimizer > $MIND_CHECKPOINT_DIR/.new/rank/0
		ln -s rank $MIND_CHECKPOINT_DIR/.new/latest
		mv $MIND_CHECKPOINT_DIR/.new $MIND_CHECKPOINT_DIR/checkpoint-7
		sleep 1000`, func(req *v1.SubmitJobRequest) {
		req.SchedulingConfig.MaxRetries = proto.Int32(1)
		asElement(element)(req)
	}) + element
	var c *v1.Checkpoint
	s.eventually("a checkpoint in the archive", func() error {
		for _, c = range s.checkpoints(id) {
			if c.GetState() == v1.CheckpointState_DURABLE {
				return nil
			}
		}
		return fmt.Errorf("there is %v", c)
	})
	weights, err := os.ReadFile(filepath.Join(c.GetPath(), "weights"))
	require.NoError(t, err)
	want := fmt.Sprintf("%x", sha256.Sum256(append(weights, "optimizer\n"...)))
	n2 := s.keeping("n2", where, 0)
	n1.perish()
	n1.forget()
	s.awaitJob(id, over)
	text, err := os.ReadFile(told)
	require.NoError(t, err)
	path, sum, _ := strings.Cut(string(text), "\n")
	require.Contains(t, sum, want)
	require.Equal(t, "checkpoint-7", filepath.Base(path))
	require.Contains(t, path, n2.cfg.DataDir)
	require.Len(t, s.checkpoints(id), 1, "what was fetched is no checkpoint of the second attempt")
}
