package uploads_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
	taken "github.com/mindcoordinator/mind/gateway/uploads"
)

// A gateway asks for the uploads of all jobs, page by page, and removes the others when they are old.
func TestUploads_areCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		config := gatewaytest.Config(c)
		dir := t.TempDir()
		config.CheckpointArchive.URL = "file://" + dir
		g := gatewaytest.NewGate(t, config)
		put := func(name, content string) string {
			body := offerOf(t, fileOf(name, content))
			offer(g, body)
			require.Equal(t, 200, g.Do("POST", rest.Prefix+"/uploads/packs", packOf(t, content)).Code)
			return offer(g, body).Upload
		}
		kept, gone := put("a", "kept"), put("b", "gone")
		tree := func(id string) error {
			found, err := filepath.Glob(filepath.Join(dir, "uploads/*/trees", id[len("sha256:"):]))
			if err == nil && len(found) == 0 {
				err = os.ErrNotExist
			}
			return err
		}
		var up atomic.Bool
		var pages atomic.Int32
		c.On("ListUploads", func(_ context.Context, r any) (any, error) {
			switch token := r.(*v1.ListUploadsRequest).GetPageToken(); {
			case !up.Load():
				return nil, errors.New("no leader")
			case token == "":
				return &v1.ListUploadsResponse{NextPageToken: "job_1"}, nil
			default:
				pages.Add(1)
				return &v1.ListUploadsResponse{Uploads: []*v1.UploadUse{{TenantId: "acme", Upload: kept}}}, nil
			}
		})
		collecting, err := taken.New(gatewaytest.Dial(t, c), taken.Config{URL: config.CheckpointArchive.URL, Log: config.Logger})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			collecting.Collect(ctx)
		}()
		// The files have the times of this machine, which are long after the clock of the test.
		old := time.Now().Add(-48 * time.Hour)
		require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			return errors.Join(err, os.Chtimes(path, old, old))
		}))
		time.Sleep(2 * time.Hour)
		require.NoError(t, tree(gone), "without an answer nothing is removed")
		up.Store(true)
		time.Sleep(90 * time.Minute)
		require.Positive(t, pages.Load())
		require.NoError(t, tree(kept))
		require.ErrorIs(t, tree(gone), os.ErrNotExist)
		cancel()
		<-ended
	})
}
