package rest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/mindcoordinator/mind/api/wait"
)

const (
	// largeTimeout limits the sending of megabytes over a slow line.
	largeTimeout = 5 * time.Minute
	// largeTries limits how often a large body is sent: a gateway may have its hands full, or be replaced.
	largeTries = 30
)

// PostLarge is Post for a body of megabytes whose repetition changes nothing.
func (c *Client) PostLarge(ctx context.Context, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return c.large(ctx, path, text, "application/json", into)
}

// PostBytes is PostLarge for a body that is no JSON.
func (c *Client) PostBytes(ctx context.Context, path string, body []byte) error {
	return c.large(ctx, path, body, "application/octet-stream", nil)
}

func (c *Client) large(ctx context.Context, path string, body []byte, kind string, into any) error {
	pauses := wait.Backoff{First: tryPause, Longest: 5 * time.Second}
	for try := 1; ; try++ {
		data, err := c.onceLarge(ctx, path, body, kind)
		if err == nil && into != nil {
			if err := json.Unmarshal(data, into); err != nil {
				return notUnderstood(err)
			}
		}
		var r *refusal
		busy := errors.As(err, &r) && (r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil, !busy && !broke(err), try == largeTries:
			return c.advised(err)
		}
		wait.For(ctx, pauses.Next())
	}
}

func (c *Client) onceLarge(ctx context.Context, path string, body []byte, kind string) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, largeTimeout)
	defer cancel()
	req, err := c.request(ctx, http.MethodPost, path, nil, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", kind)
	return c.answer(req, path)
}
