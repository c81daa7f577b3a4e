package archive_test

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/agent"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/s3server"
	"github.com/mindcoordinator/mind/devcluster/ports/porttest"
)

// Checkpoints are uploaded to a bucket, those that retention gives up are removed, the others can be extracted, and the
// job resumes from one when its node is gone.
func TestSurvive_checkpointsInABucket(t *testing.T) {
	t.Parallel()
	s := startSite(t, "")
	server := s3server.Start(t, porttest.Claim(t), "", "", "")
	address := "s3://" + s3server.Bucket + "/checkpoints-1?region=us-east-1&path_style=true&endpoint=" + url.QueryEscape(server.URL)
	access := archive.Access{KeyID: s3server.KeyID, Secret: s3server.Secret}
	store, err := archive.Open(address, access)
	require.NoError(t, err)
	keeping := func(id string) *machine {
		return s.machine(id, func(c *agent.Config) {
			c.LogArchive = agent.LogArchive{}
			c.CheckpointArchive = agent.CheckpointArchive{URL: address, Access: access}
		})
	}
	n1 := keeping("n1")
	told := filepath.Join(t.TempDir(), "told")
	id := s.submit(fmt.Sprintf(saves, told, "1 2 3 4 5", 300_000), func(req *v1.SubmitJobRequest) {
		req.SchedulingConfig.MaxRetries = proto.Int32(1)
		req.OutputConfig = &v1.OutputConfig{KeepCheckpoints: 2}
	})
	var kept []*v1.Checkpoint
	s.eventually("two checkpoints in the bucket, and nothing else", func() error {
		kept = nil
		all := s.checkpoints(id)
		for _, c := range all {
			switch c.GetState() {
			case v1.CheckpointState_DURABLE:
				kept = append(kept, c)
			case v1.CheckpointState_EXPIRED:
			default:
				return fmt.Errorf("it is %v", c)
			}
		}
		objects, err := store.List(s.ctx(), "")
		if err != nil {
			return err
		}
		for _, o := range objects {
			if len(kept) != 2 || !strings.HasPrefix(o.Key, kept[0].GetArchiveKey()+"/") && !strings.HasPrefix(o.Key, kept[1].GetArchiveKey()+"/") {
				return fmt.Errorf("%s is there, and %d checkpoints are kept", o.Key, len(kept))
			}
		}
		if len(kept) != 2 || len(all) != 5 || len(objects) == 0 {
			return fmt.Errorf("%d of %d are kept, in %d objects", len(kept), len(all), len(objects))
		}
		return nil
	})
	newest := kept[0]
	for _, c := range kept {
		require.NoError(t, s.restorable(store, c))
		if c.GetStep() > newest.GetStep() {
			newest = c
		}
	}
	require.EqualValues(t, 5, newest.GetStep())
	weights, err := os.ReadFile(filepath.Join(newest.GetPath(), "weights"))
	require.NoError(t, err)
	want := fmt.Sprintf("%x", sha256.Sum256(append(weights, "optimizer\n"...)))

	n2 := keeping("n2")
	n1.perish()
	n1.forget()
	got := s.lines(id, told)
	require.Len(t, got, 1)
	require.Contains(t, got[0], want)
	require.Contains(t, got[0], n2.cfg.DataDir)
}
