package rest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
)

const (
	// callTimeout is longer than the gateway's own time limit.
	callTimeout = 60 * time.Second
	// tries limits how often a call is tried if its connection breaks, and tryPause is the pause between tries.
	tries    = 4
	tryPause = 300 * time.Millisecond
)

// Client is a client of one gateway's REST interface.
type Client struct {
	base, token string
	// stale: reads may return the state of any coordinator.
	stale bool
	http  *http.Client
}

// NewClient makes a client for the gateway that the flags select.
func NewClient(t target.Flags) (*Client, error) {
	found, err := t.Resolve()
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if found.CACert != "" {
		text, err := os.ReadFile(found.CACert)
		if err != nil {
			return nil, fmt.Errorf("reading the certificate of the authority: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s holds no certificate", found.CACert)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &Client{base: found.Addr, token: found.Token, stale: t.Stale, http: &http.Client{Transport: transport}}, nil
}

// NewKey creates an idempotency key, so that a write may be sent twice.
func NewKey() string {
	b := make([]byte, 15)
	_, _ = rand.Read(b) // never fails
	return "cli-" + strings.ToLower(base32.StdEncoding.EncodeToString(b))
}

// Get makes a read; into may be nil. It returns the raw data for -o json and yaml.
func (c *Client) Get(ctx context.Context, path string, query url.Values, into any) (json.RawMessage, error) {
	return c.Call(ctx, http.MethodGet, path, query, nil, "", into)
}

// Post makes a write with a key.
func (c *Client) Post(ctx context.Context, path string, body any, key string, into any) (json.RawMessage, error) {
	if key == "" {
		key = NewKey()
	}
	return c.Call(ctx, http.MethodPost, path, nil, body, key, into)
}

// Call makes one call and unwraps the envelope of the answer. All calls are reads or carry a key, so a call whose
// connection broke is repeated.
func (c *Client) Call(ctx context.Context, method, path string, query url.Values, body any, key string, into any) (json.RawMessage, error) {
	return c.CallIf(ctx, method, path, "", query, body, key, into)
}

// CallIf is Call with a header If-Match; empty: without.
func (c *Client) CallIf(ctx context.Context, method, path, match string, query url.Values, body any, key string, into any) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	for try := 1; ; try++ {
		data, err := c.once(ctx, method, path, match, query, text, key)
		if method != http.MethodGet && errors.Is(err, context.Canceled) {
			return nil, exit.Interrupted(interruptedWrite(path, key))
		}
		if err == nil {
			if into != nil && string(data) != "null" {
				if err := json.Unmarshal(data, into); err != nil {
					return nil, notUnderstood(err)
				}
			}
			return data, nil
		}
		if try == tries || !broke(err) {
			return nil, c.advised(err)
		}
		if wait.For(ctx, tryPause); ctx.Err() != nil {
			return nil, c.advised(err)
		}
	}
}

func notUnderstood(err error) error {
	return fmt.Errorf("cannot read the gateway's answer (is its version different from this program's?): %w", err)
}

// interruptedWrite is the error of a write that was interrupted before its answer.
func interruptedWrite(path, key string) string {
	text := "interrupted before the gateway answered: it is unknown whether the call was carried out"
	if path == "/jobs" || path == "/evaluations" || strings.HasSuffix(path, "/invoke") {
		text += "; repeat it with --idempotency-key " + key + ", and it is not carried out twice"
	}
	return text
}

func (c *Client) once(ctx context.Context, method, path, match string, query url.Values, body []byte, key string) (json.RawMessage, error) {
	req, err := c.request(ctx, method, path, query, body)
	if err != nil {
		return nil, err
	}
	if match != "" {
		req.Header.Set("If-Match", match)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	return c.answer(req, path)
}

// answer sends a request and unwraps the envelope of the answer.
func (c *Client) answer(req *http.Request, path string) (json.RawMessage, error) {
	answer, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode >= 300 {
		return nil, c.refused(req.Method, path, answer.StatusCode, text)
	}
	if bare(path) {
		if len(text) == 0 {
			text = []byte("null")
		}
		if !json.Valid(text) {
			return nil, fmt.Errorf("%s does not answer as a gateway of Mind does: check the address", c.base)
		}
		return text, nil
	}
	var envelope struct {
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(text, &envelope); err != nil {
		return nil, fmt.Errorf("%s does not answer as a gateway of Mind does: check the address", c.base)
	}
	return envelope.Data, nil
}

func (c *Client) request(ctx context.Context, method, path string, query url.Values, body []byte) (*http.Request, error) {
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		// A string that is not a single path segment would address another path.
		if segment == "" || segment == "." || segment == ".." {
			return nil, exit.Misuse(fmt.Errorf("there is nothing with the id %q: ids are like job_1a2b", segment))
		}
	}
	address := c.base + whole(path)
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.stale && method == http.MethodGet {
		req.Header.Set("X-Mind-Consistency", "stale")
	}
	return req, nil
}

// bare reports whether the answers of a path have no envelope: those of flows, as ScaiFlow published them.
func bare(path string) bool {
	return path == target.FlowPath || strings.HasPrefix(path, target.FlowPath+"/")
}

// whole returns the whole path of a call. That of another module than ScaiMind is given whole.
func whole(path string) string {
	if strings.HasPrefix(path, "/v1/") {
		return path
	}
	return target.APIPath + path
}

// broke reports whether the connection broke before the answer was complete. A connection that was never made does not
// count: the user should learn at once that no gateway listens.
func broke(err error) bool {
	var r *refusal
	return !errors.As(err, &r) && !errors.Is(err, syscall.ECONNREFUSED) &&
		(errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE))
}
