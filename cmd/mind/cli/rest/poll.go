package rest

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mindcoordinator/mind/api/wait"
)

// The pause between two reads grows from pollPause to pollPauseMax.
const (
	pollPause    = 50 * time.Millisecond
	pollPauseMax = time.Second
)

// Poll reads a path repeatedly until done reports true, and returns the last answer. A failed read is repeated for up to
// reopenFor; a refusal that would not change ends the poll.
func Poll[T any](ctx context.Context, c *Client, path string, done func(*T) (bool, error)) (*T, json.RawMessage, error) {
	answered := time.Now()
	for pause := pollPause; ; pause = min(pause*5/4, pollPauseMax) {
		var got T
		data, err := c.Get(ctx, path, nil, &got)
		switch {
		case err == nil:
			if over, err := done(&got); over || err != nil {
				return &got, data, err
			}
			answered = time.Now()
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case Final(err) || time.Since(answered) > reopenFor:
			return nil, nil, err
		}
		wait.For(ctx, pause)
	}
}
