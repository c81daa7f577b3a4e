package downloads_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/checkpoints"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/downloads"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
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
	coordinator := gatewaytest.NewCoordinator(t)
	coordinator.On("GetCheckpoint", func(context.Context, any) (any, error) { return &v1.GetCheckpointResponse{Checkpoint: c}, nil })
	config := gatewaytest.Config(coordinator)
	config.CheckpointArchive.URL = url
	g := gatewaytest.NewGate(t, config)
	const path = rest.Prefix + "/checkpoints/ckpt_1/download"

	a := g.Do("GET", path, "")
	require.Equal(t, http.StatusOK, a.Code, a.Body)
	require.Equal(t, "application/x-tar", a.Header.Get("Content-Type"))
	require.Equal(t, c.GetContentDigest(), a.Header.Get(downloads.HeaderDigest))
	digest, err := checkpoints.Digest(bytes.NewReader([]byte(a.Body)))
	require.NoError(t, err)
	require.Equal(t, c.GetContentDigest(), digest, "what was sent is what was saved")

	a = g.Do("GET", path, "", "Authorization", "Bearer "+gatewaytest.TokenNone)
	require.Equal(t, http.StatusForbidden, a.Code)

	for state, says := range map[v1.CheckpointState_Value]string{
		v1.CheckpointState_LOCAL:     "not in the archive",
		v1.CheckpointState_UPLOADING: "being uploaded",
		v1.CheckpointState_EXPIRED:   "given up",
	} {
		c.State = state
		a = g.Do("GET", path, "")
		require.Equal(t, http.StatusConflict, a.Code)
		require.Contains(t, a.Error.Message, says)
	}
	c.State, c.ContentDigest = v1.CheckpointState_DURABLE, "sha256:another"
	require.Equal(t, http.StatusServiceUnavailable, g.Do("GET", path, "").Code, "another checkpoint is never sent in its place")
	c.ArchiveKey = "checkpoints/acme/job_1/ckpt_2"
	a = g.Do("GET", path, "")
	require.Equal(t, http.StatusConflict, a.Code)
	require.Contains(t, a.Error.Message, "does not have the checkpoint")
}

func TestDownload_withoutAnArchive(t *testing.T) {
	_, c := archived(t)
	coordinator := gatewaytest.NewCoordinator(t)
	coordinator.On("GetCheckpoint", func(context.Context, any) (any, error) { return &v1.GetCheckpointResponse{Checkpoint: c}, nil })
	a := gatewaytest.NewGate(t, gatewaytest.Config(coordinator)).Do("GET", rest.Prefix+"/checkpoints/ckpt_1/download", "")
	require.Equal(t, http.StatusConflict, a.Code)
	require.Contains(t, a.Error.Message, "checkpoint_archive")
}

// Slow readers of one tenant leave room for the downloads of the others.
func TestDownload_aTenantHasAShare(t *testing.T) {
	url, c := archived(t)
	s, err := downloads.Open(downloads.Archive{URL: url})
	require.NoError(t, err)
	var held []*downloads.Download
	hold := func(tenant string) error {
		d, err := s.Find(t.Context(), tenant, c)
		if err == nil {
			held = append(held, d)
		}
		return err
	}
	tenants := []string{"acme", "b", "c", "d"}
	for _, tenant := range tenants {
		for range downloads.MostOfTenant {
			require.NoError(t, hold(tenant))
		}
		require.ErrorIs(t, hold(tenant), downloads.ErrBusy)
	}
	require.Len(t, held, downloads.Most)
	require.ErrorIs(t, hold("another"), downloads.ErrBusy, "all slots are taken")
	held[0].Close()
	require.ErrorIs(t, hold("b"), downloads.ErrBusy, "the free slot is not for a tenant with its share")
	require.NoError(t, hold("another"))
	for _, d := range held[1:] {
		d.Close()
	}
	held = nil

	// A checkpoint that cannot be opened takes nothing of the share.
	good := c.GetContentDigest()
	c.ContentDigest = "sha256:another"
	for range downloads.Most + 1 {
		err := hold("acme")
		require.Error(t, err)
		require.NotErrorIs(t, err, downloads.ErrBusy)
	}
	c.ContentDigest = good
	for range downloads.MostOfTenant {
		require.NoError(t, hold("acme"))
	}
}

// A download over its tenant's share is answered 429, and those of another tenant go on.
func TestDownload_overTheShare(t *testing.T) {
	url, c := archived(t)
	synctest.Test(t, func(t *testing.T) {
		coordinator := gatewaytest.NewCoordinator(t)
		coordinator.On("GetCheckpoint", func(context.Context, any) (any, error) { return &v1.GetCheckpointResponse{Checkpoint: c}, nil })
		config := gatewaytest.Config(coordinator)
		config.CheckpointArchive.URL = url
		config.Tokens = append(config.Tokens, auth.StaticToken{Token: "other", Tenant: "other", User: "bob", Permissions: auth.AllPermissions})
		running := gatewaytest.Run(t, config)
		begin := func(token string) *http.Response {
			resp, err := running.Request(t.Context(), "GET", rest.Prefix+"/checkpoints/ckpt_1/download", "", "Authorization", "Bearer "+token)
			require.NoError(t, err)
			t.Cleanup(func() { _ = resp.Body.Close() })
			return resp
		}
		for range downloads.MostOfTenant {
			require.Equal(t, http.StatusOK, begin(gatewaytest.TokenAll).StatusCode)
		}
		resp := begin(gatewaytest.TokenViewer)
		require.Equal(t, http.StatusTooManyRequests, resp.StatusCode, "another user of the same tenant")
		require.Equal(t, "10", resp.Header.Get("Retry-After"))
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Contains(t, string(text), "16 checkpoints, or 4 of this tenant")
		require.Equal(t, http.StatusOK, begin("other").StatusCode)
	})
}

// revocable accepts tokens until they are revoked.
type revocable struct{ sync.Map }

func (r *revocable) Authenticate(_ context.Context, token string) (*auth.Caller, error) {
	if _, revoked := r.Load(token); revoked {
		return nil, auth.ErrInvalidToken
	}
	return &auth.Caller{Tenant: "acme", User: "ann", Permissions: auth.AllPermissions}, nil
}

// A download ends with the token that began it, even if its caller reads slowly, and looks incomplete.
func TestDownload_endsWithItsToken(t *testing.T) {
	url, c := archived(t)
	synctest.Test(t, func(t *testing.T) {
		coordinator := gatewaytest.NewCoordinator(t)
		coordinator.On("GetCheckpoint", func(context.Context, any) (any, error) { return &v1.GetCheckpointResponse{Checkpoint: c}, nil })
		config := gatewaytest.Config(coordinator)
		config.CheckpointArchive.URL = url
		tokens := &revocable{}
		config.Tokens, config.Authenticator = nil, tokens
		running := gatewaytest.Run(t, config)
		begin := func(token string) io.ReadCloser {
			resp, err := running.Request(t.Context(), "GET", rest.Prefix+"/checkpoints/ckpt_1/download", "", "Authorization", "Bearer "+token)
			require.NoError(t, err)
			require.Equal(t, 200, resp.StatusCode)
			t.Cleanup(func() { _ = resp.Body.Close() })
			_, err = io.ReadFull(resp.Body, make([]byte, 1000))
			require.NoError(t, err)
			return resp.Body
		}
		goes, ends := begin("going"), begin("gone")
		time.Sleep(40 * time.Second)
		tokens.Store("gone", true)
		time.Sleep(40 * time.Second)
		read, err := io.ReadAll(ends)
		require.Error(t, err)
		require.Less(t, len(read), 100_000)
		read, err = io.ReadAll(goes)
		require.NoError(t, err)
		require.Greater(t, len(read), 100_000)
	})
}
