package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/reach"
)

const (
	// timeout bounds one request, and maxAnswer how much of its answer is read; bytes.
	timeout   = 10 * time.Second
	maxAnswer = 4 << 10
)

// gone is the error of a receiver that wants no more notices.
type gone struct{}

func (gone) Error() string { return "it answered 410 Gone" }

// message is the body of a webhook. The fields but event are those of ScaiGrid's envelope.
type message struct {
	Event     string         `json:"event"`
	EventType string         `json:"event_type"`
	EventID   string         `json:"event_id"`
	Source    string         `json:"source"`
	TenantID  string         `json:"tenant_id"`
	Timestamp string         `json:"timestamp"`
	Payload   map[string]any `json:"payload"`
}

// payload is the decision or job as REST shows it.
func (s *Sender) payload(d subject) map[string]any {
	if d.row != nil {
		return s.ShowJob(d.row)
	}
	return s.Show(d.asked)
}

// post sends a notice once. Its error is for those who see the decision or job, so it names neither the path nor the query of the URL.
func (s *Sender) post(ctx context.Context, k keys, d subject) error {
	if err := s.Check(d.url); err != nil {
		return err
	}
	body, err := json.Marshal(d.message(s.payload(d)))
	if err != nil {
		return fmt.Errorf("writing the notice as JSON: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, bytes.NewReader(body))
	if err != nil {
		return errors.New("its URL cannot be used")
	}
	at := time.Now()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "mind")
	req.Header.Set("Webhook-Id", d.id())
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
	req.Header.Set("Webhook-Signature", k.sign(d.id(), at, body))
	// A client would read the Location of a redirect, which is not followed.
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		s.Log.Debug("a request with a notice failed", "tenant", d.tenant, "of", d.String(), "error", err)
		return plain(err)
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // The connection is used again if the answer is short.
	_ = resp.Body.Close()
	switch code := resp.StatusCode; {
	case code == http.StatusGone:
		return gone{}
	case code >= 300 && code < 400:
		return fmt.Errorf("it answered %d, and redirects are not followed", code)
	case code < 200 || code > 299:
		return fmt.Errorf("it answered %d", code)
	}
	return nil
}

var errTimeout = fmt.Errorf("it did not answer within %s", timeout)

// plain says why a request failed, without what the other side sent or its address: those who see a decision may not be those who may
// know what its receiver is. All but reach's refusals are fixed sentences.
func plain(err error) error {
	var refusal reach.Refusal
	var dns *net.DNSError
	var op *net.OpError
	var out net.Error
	var errno syscall.Errno
	switch {
	case errors.As(err, &refusal):
		return refusal
	case errors.As(err, &dns):
		return errors.New("its name cannot be resolved")
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &out) && out.Timeout():
		return errTimeout
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return errors.New("TLS failed: its certificate does not verify")
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, new(tls.RecordHeaderError)), errors.As(err, new(tls.AlertError)), errors.As(err, &op) && strings.HasSuffix(op.Op, " error"):
		return errors.New("TLS failed")
	case errors.As(err, &op) && op.Op == "dial" && errors.As(err, &errno):
		return fmt.Errorf("the connection failed: %s", errno)
	case errors.As(err, &op), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the connection broke")
	}
	return errors.New("it gave no HTTP answer")
}
