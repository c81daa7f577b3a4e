package uploads

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
)

const (
	// collectEvery is how often uploads are collected, and collectWithin how long that may take.
	collectEvery  = time.Hour
	collectWithin = 30 * time.Minute
	// collectAsk limits one question to the coordinators.
	collectAsk = 30 * time.Second
)

// Collect removes the uploads that no job needs, again and again, until ctx ends. All gateways do this, at different times.
func (h *Handlers) Collect(ctx context.Context) {
	if h.keeper == nil {
		return
	}
	for wait.For(ctx, wait.Spread(collectEvery)); ctx.Err() == nil; wait.For(ctx, collectEvery) {
		within, cancel := context.WithTimeout(ctx, collectWithin)
		done, err := h.keeper.Collect(within, h)
		cancel()
		switch {
		case ctx.Err() != nil, grpcstatus.Code(err) == codes.Unimplemented: // the coordinators are of an earlier version
		case err != nil:
			h.log.LogAttrs(ctx, slog.LevelWarn, "uploads that no job needs cannot be removed", slog.Any("error", err))
		case done.Trees > 0 || done.Packs > 0:
			h.log.LogAttrs(ctx, slog.LevelInfo, "uploads that no job needs were removed", slog.Int("uploads", done.Trees),
				slog.Int("packs", done.Packs), slog.Int64("bytes", done.Bytes), slog.Int("kept", done.Kept))
		}
	}
}

// EachUpload implements uploads.Jobs: it asks the coordinators, page by page.
func (h *Handlers) EachUpload(ctx context.Context, need func(tenant, id string)) error {
	for token := ""; ; {
		asking, cancel := context.WithTimeout(ctx, collectAsk)
		page, err := h.jobs.ListUploads(client.WithCall(asking, client.Call{RetryFor: collectAsk}), &v1.ListUploadsRequest{PageToken: token})
		cancel()
		if err != nil {
			return err
		}
		for _, u := range page.GetUploads() {
			need(u.GetTenantId(), u.GetUpload())
		}
		if token = page.GetNextPageToken(); token == "" {
			return nil
		}
	}
}
