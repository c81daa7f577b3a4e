package procs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// REST is a client of the gateway's REST interface.
type REST struct {
	Base  string
	Token string
	http  *http.Client
}

// Error is an answer with an error.
type Error struct {
	HTTP    int
	Code    string
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("HTTP %d %s: %s", e.HTTP, e.Code, e.Message) }

// NewREST returns a client of the cluster's gateway.
func NewREST(info Info) *REST {
	return &REST{Base: info.Gateway.URL, Token: info.Token, http: sharedClient}
}

var sharedClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true}}

const prefix = "/v1/modules/scaimind"

// Do sends one request and decodes the data of the answer into out, unless that is nil.
func (r *REST) Do(ctx context.Context, method, path string, header http.Header, body, out any) error {
	var payload io.Reader
	switch b := body.(type) {
	case nil:
	case []byte:
		payload = bytes.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return err
		}
		payload = bytes.NewReader(text)
	}
	if !strings.HasPrefix(path, "/v1/") && !strings.HasPrefix(path, "/health") {
		path = prefix + path
	}
	req, err := http.NewRequestWithContext(ctx, method, r.Base+path, payload)
	if err != nil {
		return err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("Authorization", "Bearer "+r.Token)
	if payload != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var envelope struct {
		Status string          `json:"status"`
		Data   json.RawMessage `json:"data"`
		Error  struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&envelope); err != nil {
		return fmt.Errorf("%s %s: HTTP %d without an envelope: %w", method, path, resp.StatusCode, err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	if envelope.Status != "ok" {
		return &Error{HTTP: resp.StatusCode, Code: envelope.Error.Code, Message: envelope.Error.Message}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(envelope.Data, out)
}

// Get reads a path.
func (r *REST) Get(ctx context.Context, path string, out any) error {
	return r.Do(ctx, http.MethodGet, path, nil, nil, out)
}

// Job has the fields of a job that the checkers need.
type Job struct {
	ID           string            `json:"job_id"`
	Name         string            `json:"name"`
	Status       string            `json:"status"`
	State        string            `json:"state"`
	Attempt      int               `json:"attempt"`
	ExitCode     *int              `json:"exit_code"`
	ErrorType    string            `json:"error_type"`
	ErrorMessage string            `json:"error_message"`
	Reason       string            `json:"reason"`
	MaxRetries   int               `json:"max_retries"`
	Labels       map[string]string `json:"labels"`
	Nodes        []string          `json:"nodes"`
}

// Ended reports whether the state of the job is final.
func (j Job) Ended() bool {
	switch j.State {
	case "SUCCEEDED", "FAILED", "CANCELED", "PREEMPTED":
		return true
	}
	return false
}

// Command returns a job that runs argv.
func Command(name string, gpus int, argv ...string) map[string]any {
	return map[string]any{
		"name":            name,
		"command_config":  map[string]any{"argv": argv, "cwd": "/"},
		"resource_config": map[string]any{"gpu_count": gpus},
	}
}

// Submit submits a job under an idempotency key (none if empty) and returns its id.
func (r *REST) Submit(ctx context.Context, key string, job any) (string, error) {
	var out struct {
		JobID string `json:"job_id"`
	}
	header := http.Header{}
	if key != "" {
		header.Set("Idempotency-Key", key)
	}
	if err := r.Do(ctx, http.MethodPost, "/jobs", header, job, &out); err != nil {
		return "", err
	}
	if out.JobID == "" {
		return "", errors.New("a submit was acknowledged without a job id")
	}
	return out.JobID, nil
}

// Job reads one job.
func (r *REST) Job(ctx context.Context, id string) (Job, error) {
	var j Job
	err := r.Get(ctx, "/jobs/"+id, &j)
	return j, err
}

// Jobs lists all jobs, page by page.
func (r *REST) Jobs(ctx context.Context, query string) ([]Job, error) {
	var all []Job
	token := ""
	for {
		var page struct {
			Jobs []Job  `json:"jobs"`
			Next string `json:"next_page_token"`
		}
		if err := r.Get(ctx, "/jobs?page_size=100&"+query+"&page_token="+token, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Jobs...)
		if page.Next == "" {
			return all, nil
		}
		token = page.Next
	}
}

// WaitEnded waits until the job has ended.
func (r *REST) WaitEnded(ctx context.Context, id string) (Job, error) {
	for {
		j, err := r.Job(ctx, id)
		var refused *Error
		switch {
		case err == nil && j.Ended():
			return j, nil
		case errors.As(err, &refused) && refused.HTTP == http.StatusNotFound:
			return j, err
		}
		select {
		case <-ctx.Done():
			return j, fmt.Errorf("waiting for job %s, which is %s (%s): %w", id, j.State, j.Reason, errors.Join(ctx.Err(), err))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
