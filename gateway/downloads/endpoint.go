package downloads

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"google.golang.org/grpc"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/openapi"
	"github.com/mindcoordinator/mind/gateway/param"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// Handlers serve the download of checkpoints.
type Handlers struct {
	sender *Sender
	jobs   v1.JobServiceClient
}

// New returns handlers that send checkpoints as far as coordinators show them to the caller.
func New(coordinators grpc.ClientConnInterface, sender *Sender) *Handlers {
	return &Handlers{sender: sender, jobs: v1.NewJobServiceClient(coordinators)}
}

// Endpoints are those of downloads. They have no RPC: the gateway reads the archive itself.
func (h *Handlers) Endpoints() []rest.Endpoint {
	return []rest.Endpoint{{
		Own:         rest.Get(rest.Prefix+"/checkpoints/{id}/download", "Download a checkpoint as a tar archive", true),
		Permissions: []string{auth.PermissionView},
		Serve:       h.download,
		Doc:         openapi.Operation{Media: "application/x-tar", Conflict: true, Query: param.Read},
	}}
}

func (h *Handlers) download(x *rest.Request) error {
	c, err := h.checkpoint(x)
	if err != nil {
		return err
	}
	d, err := h.sender.Find(x.R.Context(), x.Caller.Tenant, c)
	if err != nil {
		return notDownloadable(x, c, err)
	}
	defer d.Close()
	d.Head(x.W.Header())
	x.Mark(x.W.Header())
	x.Code = http.StatusOK
	x.W.WriteHeader(http.StatusOK)
	if x.R.Method == http.MethodHead {
		return nil
	}
	ctx, stop := x.WhileAllowed()
	defer stop()
	err = d.Send(ctx, x.W)
	if denied := (*rest.Problem)(nil); errors.As(context.Cause(ctx), &denied) {
		x.NoteDenial(denied)
	} else if err != nil && x.R.Context().Err() == nil {
		x.Server.Log.LogAttrs(x.R.Context(), slog.LevelWarn, "a download was cut", slog.String("checkpoint", c.GetCheckpointId()), slog.Any("error", err))
	}
	return nil
}

// checkpoint gets a checkpoint from the coordinators, as far as the caller may see it.
func (h *Handlers) checkpoint(x *rest.Request) (*v1.Checkpoint, error) {
	ctx, cancel, err := x.Call()
	if err != nil {
		return nil, err
	}
	defer cancel()
	reply, err := h.jobs.GetCheckpoint(ctx, &v1.GetCheckpointRequest{CheckpointId: x.ID()})
	return reply.GetCheckpoint(), err
}

// notDownloadable returns the error for a checkpoint that cannot be sent.
func notDownloadable(x *rest.Request, c *v1.Checkpoint, err error) error {
	if unfit := Unfit(""); errors.As(err, &unfit) {
		return rest.Conflict(string(unfit))
	}
	if errors.Is(err, ErrBusy) {
		return &rest.Problem{
			HTTP: http.StatusTooManyRequests, Code: "RATE_LIMITED", RetryAfter: 10,
			Message: fmt.Sprintf("this gateway already sends %d checkpoints, or %d of this tenant: try again later", Most, MostOfTenant),
		}
	}
	x.Server.Log.LogAttrs(x.R.Context(), slog.LevelError, "cannot read a checkpoint from the archive", slog.String("checkpoint", c.GetCheckpointId()), slog.Any("error", err))
	if errors.Is(err, archive.ErrNotFound) {
		return rest.Conflict("the archive of this gateway does not have the checkpoint: the gateway and the agents may have different archives in checkpoint_archive")
	}
	return &rest.Problem{HTTP: http.StatusServiceUnavailable, Code: "UNAVAILABLE", Message: "the archive of checkpoints cannot be read; try again", RetryAfter: 5}
}
