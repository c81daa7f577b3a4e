package cores

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
)

const (
	eventsPath = target.CorePath + "/events"
	// eventPage is how many events a page has, and mark how many of the newest ones are remembered.
	eventPage = 100
	mark      = 50
)

// event is something that happened in an execution, or was sent to a Core.
type event struct {
	Type    string    `json:"type"`
	At      time.Time `json:"timestamp"`
	Payload struct {
		Execution string          `json:"execution_id"`
		Step      string          `json:"step"`
		Kind      string          `json:"block_kind"`
		Attempt   int             `json:"attempt"`
		Error     *stepError      `json:"error"`
		Value     json.RawMessage `json:"result_binding_value"`
		Input     json.RawMessage `json:"input"`
		Output    json.RawMessage `json:"output"`
		Data      json.RawMessage `json:"data"`
	} `json:"payload"`
	raw string
}

// follower reads the events of a Core or an execution, each once. The list has the newest ones first and no numbers: the place where it went
// on is found by the events that were read last. Events that look the same have the same time, so they come together.
type follower struct {
	c     *rest.Client
	query url.Values
	// seen are the newest events, as they came; began says that the list was read once.
	seen  []string
	began bool
}

// next returns the events since the last call, the oldest first. The first call returns at most so many.
func (f *follower) next(ctx context.Context, first int) ([]event, error) {
	var found []event
	query := url.Values{}
	for name, values := range f.query {
		query[name] = values
	}
	for {
		size := eventPage
		if !f.began {
			size = min(size, first-len(found))
		}
		query.Set("limit", strconv.Itoa(size))
		var page struct {
			Events []json.RawMessage `json:"events"`
			Next   string            `json:"next_cursor"`
		}
		if _, err := f.c.Get(ctx, eventsPath, query, &page); err != nil {
			return nil, err
		}
		for _, raw := range page.Events {
			e := event{raw: string(raw)}
			if err := json.Unmarshal(raw, &e); err != nil {
				return nil, fmt.Errorf("reading events: %w", err)
			}
			found = append(found, e)
		}
		last := page.Next == "" || page.Next == query.Get("cursor") || !f.began && len(found) >= first
		if n, ok := f.known(found, last); ok {
			f.remember(found)
			found = found[:n]
			slices.Reverse(found)
			return found, nil
		}
		query.Set("cursor", page.Next)
	}
}

// known says how many of the newest events are new; false: more have to be read.
func (f *follower) known(found []event, last bool) (int, bool) {
	if len(f.seen) > 0 {
		for i := range found {
			if n := min(len(f.seen), len(found)-i); (n == len(f.seen) || last) && same(found[i:i+n], f.seen[:n]) {
				return i, true
			}
		}
	}
	return len(found), last
}

func same(found []event, seen []string) bool {
	for i := range found {
		if found[i].raw != seen[i] {
			return false
		}
	}
	return true
}

func (f *follower) remember(found []event) {
	f.began = true
	if len(found) == 0 {
		return
	}
	f.seen = nil
	for i := range found[:min(mark, len(found))] {
		f.seen = append(f.seen, found[i].raw)
	}
}

// eventValue is how much of a value the line of an event has.
const eventValue = 120

// String says what happened, without the time and the execution.
func (e *event) String() string {
	p := &e.Payload
	text := ""
	switch strings.TrimPrefix(e.Type, "scaicore.runtime.") {
	case "invocation.started":
		return join("begins", "with", p.Input)
	case "invocation.completed":
		return join("is completed", "=", p.Output)
	case "invocation.failed":
		if p.Error != nil {
			return "ends: " + p.Error.String()
		}
		return "ends"
	case "block.entered":
		if text = p.Kind; p.Attempt > 1 {
			text += ", attempt " + strconv.Itoa(p.Attempt)
		}
	case "block.exited":
		text = join("done", "=", p.Value)
	case "block.failed":
		text = "failed"
	case "block.retrying":
		text = "failed, and is tried again"
	default:
		text = join("emits "+e.Type, "", p.Data)
		if p.Step == "" {
			return join("gets the event "+e.Type, "", p.Data)
		}
	}
	if p.Error != nil {
		text += ": " + p.Error.String()
	}
	return strings.Repeat("  ", strings.Count(p.Step, "/")) + p.Step + ": " + text
}

func join(text, with string, value json.RawMessage) string {
	if !given(value) {
		return text
	}
	return strings.Join(strings.Fields(text+" "+with), " ") + " " + clipped(value, eventValue)
}

// line is an event as a line; several: those of several executions are mixed.
func (e *event) line(several bool) string {
	text := render.Printable(e.String())
	if several && e.Payload.Execution != "" {
		text = e.Payload.Execution + "  " + text
	}
	return e.At.Local().Format("15:04:05") + "  " + text + "\n"
}
