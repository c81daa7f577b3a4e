package procs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Node has the fields of a node that the checkers need.
type Node struct {
	ID       string `json:"node_id"`
	State    string `json:"state"`
	Reason   string `json:"reason"`
	GPUs     []GPU  `json:"gpus"`
	GPUsFree int    `json:"gpus_free"`
	CPUs     int    `json:"cpu_count"`
	Tasks    int    `json:"tasks"`
}

// GPU is a GPU of a node.
type GPU struct {
	Index int    `json:"index"`
	JobID string `json:"job_id"`
}

// Nodes lists the nodes.
func (r *REST) Nodes(ctx context.Context) ([]Node, error) {
	var out struct {
		Nodes []Node `json:"nodes"`
	}
	err := r.Get(ctx, "/cluster/nodes", &out)
	return out.Nodes, err
}

// Checkpoint is a registered checkpoint.
type Checkpoint struct {
	ID      string `json:"checkpoint_id"`
	Attempt int    `json:"attempt"`
	Step    int    `json:"step"`
	Path    string `json:"path"`
}

// Checkpoints lists the checkpoints of a job.
func (r *REST) Checkpoints(ctx context.Context, id string) ([]Checkpoint, error) {
	var out struct {
		Checkpoints []Checkpoint `json:"checkpoints"`
	}
	err := r.Get(ctx, "/jobs/"+id+"/checkpoints", &out)
	return out.Checkpoints, err
}

// LogLine is one line of a job's log.
type LogLine struct {
	Message string `json:"message"`
	Rank    int    `json:"rank"`
	Attempt int    `json:"attempt"`
	Stream  string `json:"stream"`
}

// Logs reads the log of a job to its end. If the connection breaks, it continues after the last event that it got. With
// follow it reads until the job ends.
func (r *REST) Logs(ctx context.Context, id string, query string, take func(LogLine)) error {
	last := ""
	for {
		err := r.logsOnce(ctx, id, query, &last, take)
		var refused *Error
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("reading the log of %s: %w", id, errors.Join(ctx.Err(), err))
		case errors.As(err, &refused) && refused.HTTP < 500 && refused.HTTP != http.StatusTooManyRequests:
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// streamTimeout is longer than the silence between two comments of the gateway.
const streamTimeout = 40 * time.Second

func (r *REST) logsOnce(ctx context.Context, id, query string, last *string, take func(LogLine)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(streamTimeout, cancel)
	defer silence.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.Base+prefix+"/jobs/"+id+"/logs?"+query, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+r.Token)
	req.Header.Set("Accept", "text/event-stream")
	if *last != "" {
		req.Header.Set("Last-Event-ID", *last)
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return &Error{HTTP: resp.StatusCode, Code: "STREAM", Message: resp.Status}
	}
	var event, data, cursor string
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		silence.Reset(streamTimeout)
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			cursor = value
		case "event":
			event = value
		case "data":
			data = value
		case "":
			if event == "" || value != "" {
				continue // a comment
			}
			if event == "error" {
				return ending(data)
			}
			var l LogLine
			if err := json.Unmarshal([]byte(data), &l); err != nil {
				return fmt.Errorf("event %q: %w", data, err)
			}
			take(l)
			if cursor != "" {
				*last = cursor
			}
			event, data, cursor = "", "", ""
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return errors.New("the stream broke off")
}

// ending reads the event that closes a stream: nil for its regular end.
func ending(data string) error {
	var said struct {
		Error   string `json:"error"`
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal([]byte(data), &said); err != nil {
		return err
	}
	if said.Code == "" {
		return nil
	}
	return fmt.Errorf("the stream ended with %s: %s", said.Code, said.Message)
}
