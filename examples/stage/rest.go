package stage

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/devcluster"
)

// REST is a client of the gateway's REST API.
type REST struct {
	base, token string
	http        http.Client
}

// NewREST returns a client of the cluster's gateway.
func NewREST(info devcluster.Info) *REST {
	return &REST{base: info.Gateway.URL, token: info.Token}
}

// Error is an answer with an error.
type Error struct {
	Status  int
	message string
}

func (e *Error) Error() string { return e.message }

// Modules begins the paths of all modules. Other paths are those of the module that has jobs.
const (
	Modules = "/v1/modules/"
	jobs    = Modules + "scaimind"
)

func (r *REST) url(path string) string {
	if strings.HasPrefix(path, Modules) {
		return r.base + path
	}
	return r.base + jobs + path
}

// Do sends a request, with an idempotency key unless that is empty, and reads the data of the answer into a value.
func (r *REST) Do(ctx context.Context, method, path, key string, body, into any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, r.url(path), bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	answer, err := r.http.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode >= 300 {
		return &Error{answer.StatusCode, fmt.Sprintf("%s %s: %s: %s", method, path, answer.Status, text)}
	}
	envelope := struct {
		Data any `json:"data"`
	}{into}
	return json.Unmarshal(text, &envelope)
}

// Get reads what is at a path.
func (r *REST) Get(ctx context.Context, path string, into any) error {
	return r.Do(ctx, http.MethodGet, path, "", nil, into)
}

// Job has the fields of a job that stories tell of.
type Job struct {
	ID       string            `json:"job_id"`
	Name     string            `json:"name"`
	Status   string            `json:"status"`
	State    string            `json:"state"`
	Attempt  int               `json:"attempt"`
	ExitCode *int              `json:"exit_code"`
	Nodes    []string          `json:"nodes"`
	GPUs     []string          `json:"gpus"`
	Labels   map[string]string `json:"labels"`
	Error    string            `json:"error_message"`
}

// Over says whether the job has ended.
func (j *Job) Over() bool {
	return j.Status == "COMPLETED" || j.Status == "FAILED" || j.Status == "CANCELLED"
}

// Event is one event of a stream.
type Event struct{ id, name, Data string }

// Stream reads the events of a path until the gateway says that the stream has ended. If the stream breaks, it
// continues after the last event that take accepted.
func (r *REST) Stream(ctx context.Context, path string, take func(Event) error) error {
	last := ""
	for {
		ended, err := r.streamOnce(ctx, path, &last, take)
		if ended || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// streamOnce reads one stream until it ends or breaks. ended says that the gateway ended it. If it broke and can be
// continued, streamOnce returns no error.
func (r *REST) streamOnce(ctx context.Context, path string, last *string, take func(Event) error) (ended bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url(path), nil)
	if err != nil {
		return false, err
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	if *last != "" {
		req.Header.Set("Last-Event-ID", *last)
	}
	answer, err := r.http.Do(req)
	if err != nil {
		return false, ctx.Err()
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		if answer.StatusCode >= 500 {
			return false, ctx.Err()
		}
		return false, fmt.Errorf("GET %s: %s: %s", path, answer.Status, text)
	}
	lines := bufio.NewReader(answer.Body)
	var e Event
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return false, ctx.Err()
		}
		line = strings.TrimRight(line, "\n")
		field, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "" && e.name == "error":
			if strings.Contains(e.Data, `"code"`) {
				return false, fmt.Errorf("GET %s: %s", path, e.Data)
			}
			return true, nil
		case line == "" && e.name != "":
			if err := take(e); err != nil {
				return false, err
			}
			*last, e = e.id, Event{}
		case field == "id":
			e.id = value
		case field == "event":
			e.name = value
		case field == "data":
			e.Data = value
		}
	}
}
