package gateway

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/checkpoints"
	"github.com/mindcoordinator/mind/gateway/downloads"
)

// textFile is a file of a checkpoint in memory.
type textFile struct{ *strings.Reader }

func (textFile) Close() error { return nil }

// archived puts a checkpoint of two files into an archive, and returns the archive's URL and the checkpoint as the
// coordinators return it.
func archived(t *testing.T) (url string, c *v1.Checkpoint) {
	t.Helper()
	url = "file://" + t.TempDir()
	store, err := archive.Open(url, archive.Access{})
	require.NoError(t, err)
	files := map[string]string{"model.safetensors": strings.Repeat("w", 100_000), "state/rng": "seven"}
	saved, err := checkpoints.Save(context.Background(), store, "checkpoints/acme/job_1/ckpt_1", checkpoints.Source{
		Registered: "r",
		List: func(context.Context) (list []checkpoints.File, err error) {
			for _, name := range []string{"model.safetensors", "state/rng"} {
				list = append(list, checkpoints.File{Path: name, Size: int64(len(files[name])), Mode: 0o644})
			}
			return list, nil
		},
		Open: func(path string) (checkpoints.Opened, error) { return textFile{strings.NewReader(files[path])}, nil },
	})
	require.NoError(t, err)
	return url, &v1.Checkpoint{
		CheckpointId: "ckpt_1", JobId: "job_1", NodeId: "n1", Path: "/c/checkpoint-1", State: v1.CheckpointState_DURABLE,
		ArchiveKey: "checkpoints/acme/job_1/ckpt_1", ContentDigest: saved.Digest(),
	}
}

func TestDownload(t *testing.T) {
	url, c := archived(t)
	coordinator := newScripted(t)
	coordinator.on("GetCheckpoint", func(context.Context, any) (any, error) { return &v1.GetCheckpointResponse{Checkpoint: c}, nil })
	config := testConfig(coordinator)
	config.CheckpointArchive.URL = url
	g := newGate(t, config)
	const path = prefix + "/checkpoints/ckpt_1/download"

	a := g.do("GET", path, "")
	require.Equal(t, http.StatusOK, a.code, a.body)
	require.Equal(t, "application/x-tar", a.header.Get("Content-Type"))
	require.Equal(t, c.GetContentDigest(), a.header.Get(downloads.HeaderDigest))
	digest, err := checkpoints.Digest(bytes.NewReader([]byte(a.body)))
	require.NoError(t, err)
	require.Equal(t, c.GetContentDigest(), digest, "what was sent is what was saved")

	a = g.do("GET", path, "", "Authorization", "Bearer "+tokenNone)
	require.Equal(t, http.StatusForbidden, a.code)

	for state, says := range map[v1.CheckpointState_Value]string{
		v1.CheckpointState_LOCAL:     "not in the archive",
		v1.CheckpointState_UPLOADING: "being uploaded",
		v1.CheckpointState_EXPIRED:   "given up",
	} {
		c.State = state
		a = g.do("GET", path, "")
		require.Equal(t, http.StatusConflict, a.code)
		require.Contains(t, a.Error.Message, says)
	}
	c.State, c.ContentDigest = v1.CheckpointState_DURABLE, "sha256:another"
	require.Equal(t, http.StatusServiceUnavailable, g.do("GET", path, "").code, "another checkpoint is never sent in its place")
	c.ArchiveKey = "checkpoints/acme/job_1/ckpt_2"
	a = g.do("GET", path, "")
	require.Equal(t, http.StatusConflict, a.code)
	require.Contains(t, a.Error.Message, "does not have the checkpoint")
}

func TestDownload_withoutAnArchive(t *testing.T) {
	_, c := archived(t)
	coordinator := newScripted(t)
	coordinator.on("GetCheckpoint", func(context.Context, any) (any, error) { return &v1.GetCheckpointResponse{Checkpoint: c}, nil })
	a := newGate(t, testConfig(coordinator)).do("GET", prefix+"/checkpoints/ckpt_1/download", "")
	require.Equal(t, http.StatusConflict, a.code)
	require.Contains(t, a.Error.Message, "checkpoint_archive")
}

// A download ends with the session that began it, even if its caller reads slowly, and looks incomplete.
func TestDownload_endsWithItsSession(t *testing.T) {
	url, c := archived(t)
	synctest.Test(t, func(t *testing.T) {
		coordinator := newScripted(t)
		kept := keepSessions(coordinator)
		coordinator.on("GetCheckpoint", func(context.Context, any) (any, error) { return &v1.GetCheckpointResponse{Checkpoint: c}, nil })
		config := testConfig(coordinator)
		config.CheckpointArchive.URL = url
		running := runOnLoopback(t, config)
		signsIn := newGate(t, testConfig(coordinator))
		going, _ := signsIn.signIn(tokenAll)
		gone, id := signsIn.signIn(tokenAll)
		begin := func(cookie string) io.ReadCloser {
			r, err := http.NewRequestWithContext(t.Context(), "GET", "http://localhost"+prefix+"/checkpoints/ckpt_1/download", nil)
			require.NoError(t, err)
			r.Header.Set("Cookie", cookie)
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			resp, err := running.caller.Do(r)
			require.NoError(t, err)
			require.Equal(t, 200, resp.StatusCode)
			t.Cleanup(func() { _ = resp.Body.Close() })
			_, err = io.ReadFull(resp.Body, make([]byte, 1000))
			require.NoError(t, err)
			return resp.Body
		}
		goes, ends := begin(going), begin(gone)
		time.Sleep(time.Minute)
		kept.revoke(id)
		time.Sleep(time.Second)
		rest, err := io.ReadAll(ends)
		require.Error(t, err)
		require.Less(t, len(rest), 100_000)
		rest, err = io.ReadAll(goes)
		require.NoError(t, err)
		require.Greater(t, len(rest), 100_000)
	})
}
