package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/checkpoints"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/openapi"
)

const (
	// headerContentDigest has the digest of a downloaded checkpoint, as its field content_digest.
	headerContentDigest = "X-Mind-Content-Digest"
	// maxDownloads is how many checkpoints a gateway sends at a time.
	maxDownloads = 16
	// slowest is how long a caller may take for some bytes of a checkpoint.
	slowest = 2 * time.Minute
)

// CheckpointArchive is where checkpoints are downloaded from.
type CheckpointArchive struct {
	// URL as of the agents; empty: no checkpoint can be downloaded.
	URL    string
	Access archive.Access
}

// downloads sends checkpoints out of the archive.
type downloads struct {
	store archive.Store // nil: there is none
	slots chan struct{}
}

func openDownloads(from CheckpointArchive) (*downloads, error) {
	d := &downloads{slots: make(chan struct{}, maxDownloads)}
	if from.URL == "" {
		return d, nil
	}
	var err error
	if d.store, err = archive.Open(from.URL, from.Access); err != nil {
		return nil, fmt.Errorf("checkpoint_archive: %w", err)
	}
	return d, nil
}

// downloadEndpoint is the route of downloads. It is none of an RPC: the gateway reads the archive itself.
func downloadEndpoint() endpoint {
	return endpoint{
		own:         get(prefix+"/checkpoints/{id}/download", "Download a checkpoint as a tar archive", true),
		permissions: []string{auth.PermissionView},
		serve:       downloadCheckpoint,
		doc:         openapi.Operation{Media: "application/x-tar", Conflict: true, Query: read},
	}
}

func downloadCheckpoint(x *exchange) error {
	c, err := x.downloadable()
	if err != nil {
		return err
	}
	d := x.server.downloads
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	default:
		return &problem{
			http: http.StatusTooManyRequests, code: "RATE_LIMITED", retryAfter: 10,
			message: fmt.Sprintf("this gateway already sends %d checkpoints: try again later", maxDownloads),
		}
	}
	saved, err := d.open(x.r.Context(), c)
	if err != nil {
		return x.unreadable(c, err)
	}
	h := x.w.Header()
	h.Set("Content-Type", "application/x-tar")
	h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", c.GetCheckpointId()+".tar"))
	h.Set(headerContentDigest, saved.Digest())
	x.mark(h)
	x.code = http.StatusOK
	x.w.WriteHeader(http.StatusOK)
	if x.r.Method == http.MethodHead {
		return nil
	}
	to := &patient{w: x.w, control: http.NewResponseController(x.w)}
	if err := saved.Tar(x.r.Context(), to, c.GetCreatedAt().AsTime()); err != nil {
		if x.r.Context().Err() == nil {
			x.server.log.LogAttrs(x.r.Context(), slog.LevelWarn, "a download was cut", slog.String("checkpoint", c.GetCheckpointId()), slog.Any("error", err))
		}
		// An answer that ends in order would look complete.
		_ = to.control.SetWriteDeadline(time.Unix(1, 0))
	}
	return nil
}

// downloadable asks for a checkpoint, as the caller may see it.
func (x *exchange) downloadable() (*v1.Checkpoint, error) {
	ctx, cancel, err := x.call()
	if err != nil {
		return nil, err
	}
	defer cancel()
	reply, err := x.server.jobs.GetCheckpoint(ctx, &v1.GetCheckpointRequest{CheckpointId: id(x)})
	if err != nil {
		return nil, err
	}
	c := reply.GetCheckpoint()
	switch {
	case c.GetState() == v1.CheckpointState_EXPIRED:
		return nil, conflict("the checkpoint was given up, and its files are removed: choose another checkpoint of the job")
	case c.GetState() == v1.CheckpointState_UPLOADING:
		return nil, conflict(fmt.Sprintf("the checkpoint is being uploaded to the archive (%d of %d bytes): try again when its state is DURABLE", c.GetUploadedBytes(), c.GetSizeBytes()))
	case c.GetState() != v1.CheckpointState_DURABLE:
		return nil, conflict("the checkpoint is on the node that wrote it, and not in the archive: wait until its state is DURABLE; for checkpoints to be archived, the agents and the gateway need checkpoint_archive")
	case x.server.downloads.store == nil:
		return nil, conflict("this gateway has no checkpoint_archive: set it to that of the agents")
	}
	return c, nil
}

func conflict(message string) error {
	return &problem{http: http.StatusConflict, code: "FAILED_PRECONDITION", message: message}
}

// open finds a checkpoint in the archive.
func (d *downloads) open(ctx context.Context, c *v1.Checkpoint) (*checkpoints.Saved, error) {
	saved, err := checkpoints.Open(ctx, d.store, c.GetArchiveKey())
	if err == nil && saved.Digest() != c.GetContentDigest() {
		err = errors.New("the archive has another checkpoint in its place")
	}
	return saved, err
}

// unreadable is the answer when the archive does not give a checkpoint out.
func (x *exchange) unreadable(c *v1.Checkpoint, err error) error {
	x.server.log.LogAttrs(x.r.Context(), slog.LevelError, "cannot read a checkpoint from the archive", slog.String("checkpoint", c.GetCheckpointId()), slog.Any("error", err))
	if errors.Is(err, archive.ErrNotFound) {
		return conflict("the archive of this gateway does not have the checkpoint: the gateway and the agents may have different archives in checkpoint_archive")
	}
	return &problem{http: http.StatusServiceUnavailable, code: "UNAVAILABLE", message: "the archive of checkpoints cannot be read; try again", retryAfter: 5}
}

// patient writes as long as the caller takes some bytes now and then.
type patient struct {
	w       io.Writer
	control *http.ResponseController
}

// Write implements io.Writer.
func (p *patient) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(slowest))
	return p.w.Write(b)
}
