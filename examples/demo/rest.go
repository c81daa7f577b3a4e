package main

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

// rest is a client of the gateway's REST API.
type rest struct {
	base, token string
	http        http.Client
}

func newRest(info devcluster.Info) *rest {
	return &rest{base: info.Gateway.URL + "/v1/modules/scaimind", token: info.Token}
}

func (r *rest) do(ctx context.Context, method, path, key string, body, into any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, r.base+path, bytes.NewReader(text))
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
		return fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, text)
	}
	envelope := struct {
		Data any `json:"data"`
	}{into}
	return json.Unmarshal(text, &envelope)
}

func (r *rest) get(ctx context.Context, path string, into any) error {
	return r.do(ctx, http.MethodGet, path, "", nil, into)
}

type job struct {
	ID       string   `json:"job_id"`
	Name     string   `json:"name"`
	Status   string   `json:"status"`
	State    string   `json:"state"`
	Attempt  int      `json:"attempt"`
	ExitCode *int     `json:"exit_code"`
	Nodes    []string `json:"nodes"`
	GPUs     []string `json:"gpus"`
	Error    string   `json:"error_message"`
}

func (j *job) over() bool {
	return j.Status == "COMPLETED" || j.Status == "FAILED" || j.Status == "CANCELLED"
}

// event is one event of a stream.
type event struct{ id, name, data string }

// stream reads the events of a path until the gateway says that the stream has ended. If the stream breaks, it
// continues after the last event that take accepted.
func (r *rest) stream(ctx context.Context, path string, take func(event) error) error {
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
func (r *rest) streamOnce(ctx context.Context, path string, last *string, take func(event) error) (ended bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+path, nil)
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
	var e event
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return false, ctx.Err()
		}
		line = strings.TrimRight(line, "\n")
		field, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "" && e.name == "error":
			if strings.Contains(e.data, `"code"`) {
				return false, fmt.Errorf("GET %s: %s", path, e.data)
			}
			return true, nil
		case line == "" && e.name != "":
			if err := take(e); err != nil {
				return false, err
			}
			*last, e = e.id, event{}
		case field == "id":
			e.id = value
		case field == "event":
			e.name = value
		case field == "data":
			e.data = value
		}
	}
}
