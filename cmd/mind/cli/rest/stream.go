package rest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/api/wait"
)

const (
	// streamSilence is how long a stream may be silent: the gateway sends a comment at least every 15 s.
	streamSilence = 50 * time.Second
	reopenPause   = 500 * time.Millisecond
	// reopenFor is how long reopening a stream is tried while no gateway answers.
	reopenFor = 5 * time.Minute
)

// Event is one event of a stream.
type Event struct {
	id, Name, Data string
}

// errEnded is the regular end of a stream: the gateway has sent everything.
var errEnded = errors.New("stream ended")

// Stream passes on the events of a path until the gateway ends the stream. When the connection breaks, it reopens the
// stream after the last event, so no event is missed and none comes twice.
func (c *Client) Stream(ctx context.Context, path string, query url.Values, take func(Event) error) error {
	last, since, heard := "", time.Now(), false
	for try := 1; ; try++ {
		err := c.streamOnce(ctx, path, query, last, func() { heard = true }, func(e Event) error {
			since = time.Now()
			if e.Name == "error" {
				return ending(e)
			}
			if e.Name == "" && e.Data == "" {
				// Where to resume if the stream breaks before its first event.
				last = e.id
				return nil
			}
			if err := take(e); err != nil {
				return err
			}
			if e.id != "" {
				last = e.id
			}
			return nil
		})
		var own *takeError
		var r *refusal
		switch {
		case errors.Is(err, errEnded):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &own):
			return own.err
		case errors.As(err, &r) && r.status != http.StatusServiceUnavailable && r.status != http.StatusGatewayTimeout && r.status != http.StatusTooManyRequests:
			return err
		case last == "" && time.Since(since) < reopenPause && !errors.As(err, &r) && err != nil && !broke(err):
			return c.advised(err) // the stream was never open
		case !heard && try == tries && broke(err) && err != nil:
			return c.advised(err) // the server is not a gateway
		case time.Since(since) > reopenFor:
			return fmt.Errorf("the stream broke and cannot be reopened: %w", c.advised(err))
		}
		if wait.For(ctx, reopenPause); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// takeError is an error returned by the consumer of a stream; it ends the stream.
type takeError struct{ err error }

func (e *takeError) Error() string { return e.err.Error() }

// ending reads an error event: the regular end, or an error.
func ending(e Event) error {
	var said struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	if json.Unmarshal([]byte(e.Data), &said) != nil || said.Code == "" {
		return errEnded
	}
	return &takeError{fmt.Errorf("the stream ended: %s", said.Message)}
}

func (c *Client) streamOnce(ctx context.Context, path string, query url.Values, last string, heard func(), take func(Event) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := c.request(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	silence := time.AfterFunc(streamSilence, cancel)
	defer silence.Stop()
	answer, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, err := io.ReadAll(answer.Body)
		return errors.Join(c.refused(http.MethodGet, path, answer.StatusCode, text), err)
	}
	heard()
	return readEvents(answer.Body, func() { silence.Reset(streamSilence) }, take)
}

// readEvents parses a stream, and calls alive for each line. It returns io.ErrUnexpectedEOF if the stream breaks.
func readEvents(r io.Reader, alive func(), take func(Event) error) error {
	lines := bufio.NewReaderSize(r, 64<<10)
	var e Event
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return io.ErrUnexpectedEOF // also for an incomplete event: it is sent again
		}
		alive()
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			if e.Data != "" || e.Name != "" || e.id != "" {
				e.Data = strings.TrimSuffix(e.Data, "\n")
				if err := take(e); err != nil {
					if errors.Is(err, errEnded) {
						return err
					}
					var own *takeError
					if errors.As(err, &own) {
						return err
					}
					return &takeError{err}
				}
			}
			e = Event{}
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			e.id = value
		case "event":
			e.Name = value
		case "data":
			e.Data += value + "\n"
		}
	}
}
