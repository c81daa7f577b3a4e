package rest

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/mindcoordinator/mind/api/wait"
)

// The pause between two reads grows from pollPause to pollPauseMax, or to toldPauseMax while the cluster tells of changes.
const (
	pollPause    = 50 * time.Millisecond
	pollPauseMax = time.Second
	toldPauseMax = 5 * time.Second
	// toldPause is the pause before a read that follows a change, so that many changes cost few reads.
	toldPause = 300 * time.Millisecond
)

// Poll reads a path repeatedly until done reports true, and returns the last answer. A failed read is repeated for up to
// reopenFor; a refusal that would not change ends the poll.
func Poll[T any](ctx context.Context, c *Client, path string, done func(*T) (bool, error)) (*T, json.RawMessage, error) {
	return poll(ctx, c, path, changes{}, done)
}

// Follow is Poll for a path about something that events name: it reads when there is one, and seldom meanwhile. For a caller
// without the permission for events it polls.
func Follow[T any](ctx context.Context, c *Client, path, topic, name string, done func(*T) (bool, error)) (*T, json.RawMessage, error) {
	listening, cancel := context.WithCancel(ctx)
	told := changes{some: make(chan struct{}, 1), ended: make(chan struct{})}
	go func() {
		defer close(told.ended)
		_ = c.Stream(listening, "/events", url.Values{"topic": {topic}}, func(e Event) error { // If it ends, the poll goes on without it.
			var about struct {
				Name string `json:"name"`
			}
			if json.Unmarshal([]byte(e.Data), &about) == nil && about.Name == name {
				select {
				case told.some <- struct{}{}:
				default:
				}
			}
			return nil
		})
	}()
	defer func() {
		cancel()
		<-told.ended
	}()
	return poll(ctx, c, path, told, done)
}

// changes says that there is something to read. Its zero value never does.
type changes struct{ some, ended chan struct{} }

// await waits for a pause, or for a change and toldPause. It returns the next pause.
func (c changes) await(ctx context.Context, pause time.Duration) time.Duration {
	most := toldPauseMax
	select {
	case <-c.ended:
		most = pollPauseMax
	default:
		if c.ended == nil {
			most = pollPauseMax
		}
	}
	timer := time.NewTimer(min(pause, most))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.some:
		wait.For(ctx, toldPause)
	case <-ctx.Done():
	}
	return min(pause*5/4, most)
}

func poll[T any](ctx context.Context, c *Client, path string, told changes, done func(*T) (bool, error)) (*T, json.RawMessage, error) {
	answered := time.Now()
	for pause := pollPause; ; {
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
		pause = told.await(ctx, pause)
	}
}
