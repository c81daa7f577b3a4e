package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/downloads"
	"github.com/mindcoordinator/mind/gateway/openapi"
)

// downloadEndpoint returns the endpoint of downloads. It has no RPC: the gateway reads the archive itself.
func downloadEndpoint() endpoint {
	return endpoint{
		own:         get(prefix+"/checkpoints/{id}/download", "Download a checkpoint as a tar archive", true),
		permissions: []string{auth.PermissionView},
		serve:       downloadCheckpoint,
		doc:         openapi.Operation{Media: "application/x-tar", Conflict: true, Query: read},
	}
}

func downloadCheckpoint(x *httpRequest) error {
	c, err := x.checkpoint()
	if err != nil {
		return err
	}
	d, err := x.server.downloads.Find(x.r.Context(), c)
	if err != nil {
		return x.notDownloadable(c, err)
	}
	defer d.Close()
	d.Head(x.w.Header())
	x.mark(x.w.Header())
	x.code = http.StatusOK
	x.w.WriteHeader(http.StatusOK)
	if x.r.Method == http.MethodHead {
		return nil
	}
	ctx, stop := x.whileAllowed()
	defer stop()
	err = d.Send(ctx, x.w)
	if denied := (*problem)(nil); errors.As(context.Cause(ctx), &denied) {
		x.noteDenial(denied)
	} else if err != nil && x.r.Context().Err() == nil {
		x.server.log.LogAttrs(x.r.Context(), slog.LevelWarn, "a download was cut", slog.String("checkpoint", c.GetCheckpointId()), slog.Any("error", err))
	}
	return nil
}

// whileAllowed returns a context that ends, with the reason as its cause, when the caller may not continue to read. The function ends
// the checks.
func (x *httpRequest) whileAllowed() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(x.r.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		every := time.NewTicker(x.recheckEvery())
		defer every.Stop()
		for {
			select {
			case <-every.C:
			case <-ctx.Done():
				return
			}
			if err := (&reader{x: x}).MayGoOn(ctx); err != nil {
				cancel(err)
				return
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-ended
	}
}

// checkpoint gets a checkpoint from the coordinators, as far as the caller may see it.
func (x *httpRequest) checkpoint() (*v1.Checkpoint, error) {
	ctx, cancel, err := x.call()
	if err != nil {
		return nil, err
	}
	defer cancel()
	reply, err := x.server.jobs.GetCheckpoint(ctx, &v1.GetCheckpointRequest{CheckpointId: id(x)})
	return reply.GetCheckpoint(), err
}

// notDownloadable returns the error for a checkpoint that cannot be sent.
func (x *httpRequest) notDownloadable(c *v1.Checkpoint, err error) error {
	if unfit := downloads.Unfit(""); errors.As(err, &unfit) {
		return conflict(string(unfit))
	}
	if errors.Is(err, downloads.ErrBusy) {
		return &problem{
			http: http.StatusTooManyRequests, code: "RATE_LIMITED", retryAfter: 10,
			message: fmt.Sprintf("this gateway already sends %d checkpoints: try again later", downloads.Most),
		}
	}
	x.server.log.LogAttrs(x.r.Context(), slog.LevelError, "cannot read a checkpoint from the archive", slog.String("checkpoint", c.GetCheckpointId()), slog.Any("error", err))
	if errors.Is(err, archive.ErrNotFound) {
		return conflict("the archive of this gateway does not have the checkpoint: the gateway and the agents may have different archives in checkpoint_archive")
	}
	return &problem{http: http.StatusServiceUnavailable, code: "UNAVAILABLE", message: "the archive of checkpoints cannot be read; try again", retryAfter: 5}
}

func conflict(message string) error {
	return &problem{http: http.StatusConflict, code: "FAILED_PRECONDITION", message: message}
}
