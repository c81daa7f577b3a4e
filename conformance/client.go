package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// prefix is the prefix of all paths that ScaiMind published.
const prefix = "/v1/modules/scaimind"

// maxAnswer limits the size of an answer.
const maxAnswer = 32 << 20

// Target is the gateway under test.
type Target struct {
	// URL without a path, such as http://127.0.0.1:8080.
	URL string
	// Token is an API token with all permissions and mind:operator.
	Token string
	// HTTP is the client to use; nil: a client without a limit.
	HTTP *http.Client
}

// request is one call. Body is a value to encode as JSON, or raw bytes.
type request struct {
	method, path, query string
	token               string
	header              map[string]string
	body                any
}

// answer is the answer to a request.
type answer struct {
	code   int
	header http.Header
	raw    []byte
	// The fields of the envelope. data is nil if the answer has no data.
	status    string
	data      json.RawMessage
	errorCode string
	message   string
	details   []struct{ Field, Message string }
	requestID string
}

func (t Target) do(ctx context.Context, r request) (*answer, error) {
	var body io.Reader
	switch b := r.body.(type) {
	case nil:
	case []byte:
		body = bytes.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(raw)
	}
	url := t.URL + r.path
	if r.query != "" {
		url += "?" + r.query
	}
	req, err := http.NewRequestWithContext(ctx, r.method, url, body)
	if err != nil {
		return nil, fmt.Errorf("making a request for %s %q: %w", r.method, url, err)
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range r.header {
		req.Header.Set(k, v)
	}
	client := t.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s %s: reading the answer: %w", r.method, r.path, err)
	}
	a := &answer{code: resp.StatusCode, header: resp.Header, raw: raw}
	var envelope struct {
		Status string          `json:"status"`
		Data   json.RawMessage `json:"data"`
		Error  struct {
			Code    string                            `json:"code"`
			Message string                            `json:"message"`
			Details []struct{ Field, Message string } `json:"details"`
		} `json:"error"`
		Meta struct {
			RequestID string `json:"request_id"`
		} `json:"meta"`
	}
	if bare(r.path) {
		a.readBare()
	} else if json.Unmarshal(raw, &envelope) == nil {
		a.status, a.data, a.requestID = envelope.Status, envelope.Data, envelope.Meta.RequestID
		a.errorCode, a.message, a.details = envelope.Error.Code, envelope.Error.Message, envelope.Error.Details
	}
	return a, nil
}

// must makes a call without whose success the suite cannot continue.
func (t Target) must(ctx context.Context, r request, code int, out any) error {
	a, err := t.do(ctx, r)
	if err != nil {
		return err
	}
	if a.code != code {
		return fmt.Errorf("%s %s: HTTP %d instead of %d: %s", r.method, r.path, a.code, code, clip(a.raw))
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(a.data, out)
}

// enveloped returns a sentence about the first fault of an answer's envelope; "" if there is none.
func (a *answer) enveloped() string {
	switch {
	case a.code == http.StatusNoContent && a.header.Get("X-Request-Id") != "":
		return ""
	case a.code >= 200 && a.code < 300 && a.status != "ok":
		return "a good answer without the envelope's status ok"
	case a.code >= 400 && (a.status != "error" || a.errorCode == "" || a.message == ""):
		return "an error without status, code and message"
	case a.requestID == "":
		return "an answer without meta.request_id"
	case a.header.Get("X-Request-Id") != a.requestID:
		return "X-Request-Id is not meta.request_id"
	case a.header.Get("X-Mind-Index") == "":
		return "an answer without X-Mind-Index"
	case !strings.HasPrefix(a.header.Get("Content-Type"), "application/json"):
		return "Content-Type is " + a.header.Get("Content-Type")
	}
	return ""
}

func clip(raw []byte) string {
	const most = 300
	if len(raw) > most {
		return string(raw[:most]) + "..."
	}
	return string(raw)
}

// poll repeats a call until ok, or until ctx ends.
func poll(ctx context.Context, what string, ok func() (bool, error)) error {
	for {
		done, err := ok()
		if err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
