package rest

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
)

// Errors say what to do. This file has the errors in answers of the gateway, and errors of the connection to it.

// refusal is an error in an answer of the gateway.
type refusal struct {
	status  int
	code    string
	message string
	// advice says how to find the right name when an object does not exist.
	advice string
	// read: the call was a read without --stale, and would have got an answer with it.
	read bool
}

// refused parses the error answer to a call of a path.
func (c *Client) refused(method, path string, status int, text []byte) error {
	var envelope struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
			Details []struct {
				Field   string `json:"field"`
				Message string `json:"message"`
			} `json:"details"`
		} `json:"error"`
	}
	r := &refusal{status: status, read: method == http.MethodGet && !c.stale}
	if bare(path) && r.readBare(text) {
		r.advice = whereToLook(path)
		return r
	}
	switch {
	case strings.Contains(string(text), "Client sent an HTTP request to an HTTPS server"):
		r.message = "the gateway speaks HTTPS: write https:// before its address"
	case json.Unmarshal(text, &envelope) == nil && envelope.Error.Code != "":
		r.code, r.message = envelope.Error.Code, envelope.Error.Message
		if details := envelope.Error.Details; len(details) > 1 {
			lines := make([]string, len(details))
			for i, d := range details {
				lines[i] = strings.ReplaceAll(d.Field+": "+d.Message, "\n", " ")
			}
			r.message = strings.Join(lines, "\n")
		}
		r.advice = whereToLook(path)
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed:
		r.message = fmt.Sprintf("%s answers %d %s, which is not the answer of a Mind gateway: %s", c.base, status, http.StatusText(status), giveGateway)
	}
	return r
}

// readBare reads an error without an envelope; false: it is none.
func (r *refusal) readBare(text []byte) bool {
	var fault struct {
		Detail struct {
			Error, Message, Fix string
			Diagnostics         []struct {
				Severity, Message, Code string
				Node                    string `json:"node_id"`
			}
			Details []struct{ Field, Message string }
		}
	}
	if json.Unmarshal(text, &fault) != nil || fault.Detail.Error == "" {
		return false
	}
	d := fault.Detail
	r.code, r.message = strings.ToUpper(d.Error), d.Message
	lines := make([]string, 0, len(d.Details)+len(d.Diagnostics))
	for _, one := range d.Details {
		lines = append(lines, one.Field+": "+one.Message)
	}
	for _, one := range d.Diagnostics {
		at := ""
		if one.Node != "" {
			at = one.Node + ": "
		}
		lines = append(lines, one.Severity+": "+at+one.Message+" ["+one.Code+"]")
	}
	if len(lines) > 1 || len(d.Diagnostics) > 0 {
		r.message = strings.Join(lines, "\n")
	}
	if d.Fix != "" && len(d.Diagnostics) == 0 {
		r.message += ": " + d.Fix
	}
	return true
}

// giveGateway is the advice when the server is not a gateway.
const giveGateway = "give the address of a gateway, not one of a coordinator or an agent"

// whereToLook returns the command that lists the kind of objects of a path.
func whereToLook(path string) string {
	for _, known := range []struct{ start, advice string }{
		{"/jobs/", "`mind jobs` lists those of your tenant"},
		{"/checkpoints/", "`mind checkpoints JOB` lists those of a job"},
		{"/evaluations/", "`mind evaluations` lists those of your tenant"},
		{"/nodes/", "`mind nodes` lists them"},
		{"/cluster/nodes/", "`mind nodes` lists them"},
		{"/queue", "`mind queues` lists them"},
		{"/tokens/", "`mind token list` lists them"},
		{target.CorePath + "/cores/", "`mind core list` lists those of your tenant"},
		{target.CorePath + "/executions/", "`mind execution list` lists those of your tenant"},
		{target.FlowPath + "/", "`mind flow list` lists those that you may view"},
		{target.CorePath + "/checkpoints/", "`mind decision list --status all` lists those of your tenant"},
	} {
		if strings.HasPrefix(path, known.start) {
			return known.advice
		}
	}
	return ""
}

func (r *refusal) Error() string {
	text := r.message
	if text == "" {
		text = fmt.Sprintf("the gateway answers %d %s", r.status, http.StatusText(r.status))
	}
	switch {
	case r.code == "AUTH_TOKEN_MISSING":
		text = "there is no token: give one with MIND_TOKEN or --token, or set MIND_DEV to the data directory of a `mind dev` to use its token"
	case r.status == http.StatusUnauthorized:
		text += ": give a valid token with MIND_TOKEN or --token"
	case r.status == http.StatusForbidden && !strings.Contains(text, "have it reassigned") && !strings.Contains(text, "ask its owner"):
		text += ": use a token that has this permission"
	case r.status == http.StatusNotFound && r.advice != "" && strings.HasPrefix(text, "there is no "):
		text += ": " + r.advice
	case r.code == "NODE_UNAVAILABLE":
	case r.status == http.StatusServiceUnavailable:
		text, _, _ = strings.Cut(text, "; try again") // this advice is for programs
		text = strings.TrimSuffix(text, ": try again")
		text += ": try again in a moment; if that does not help, check `mind raft peers`"
		if r.read {
			text += ", or use --stale to read from one coordinator"
		}
	}
	return text
}

// Gone reports whether the gateway answered that the object does not exist.
func Gone(err error) bool {
	var r *refusal
	return errors.As(err, &r) && r.status == http.StatusNotFound
}

// Busy reports whether the gateway asks to try again.
func Busy(err error) bool {
	var r *refusal
	return errors.As(err, &r) && (r.status == http.StatusServiceUnavailable || r.status == http.StatusGatewayTimeout || r.status == http.StatusTooManyRequests)
}

// Final reports whether repeating the call would get the same refusal: an expired token does not become valid by waiting.
func Final(err error) bool {
	var r *refusal
	return errors.As(err, &r) && r.status >= 400 && r.status < 500 && r.status != http.StatusTooManyRequests
}

// advised turns a network error into one that says what to do.
func (c *Client) advised(err error) error {
	var r *refusal
	var op *net.OpError
	switch {
	case errors.As(err, &r):
		return err
	case errors.Is(err, context.Canceled):
		return exit.Interrupted("interrupted")
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s did not answer within %s: is it overloaded?", c.base, callTimeout)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("cannot reach %s: is it running? Start a cluster with `mind dev`, or name another with MIND_ADDR (%w)", c.base, op.Err)
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if advice := certificateAdvice(err, "the gateway's certificate"); advice != "" {
		return fmt.Errorf("talking to %s: %w: %s", c.base, err, advice)
	}
	switch text := err.Error(); {
	case strings.Contains(text, "server gave HTTP response to HTTPS client"):
		return fmt.Errorf("%s does not speak HTTPS: write http:// before the address", c.base)
	case strings.Contains(text, "certificate required"):
		return fmt.Errorf("%s asks for a certificate, as coordinators and agents do: %s", c.base, giveGateway)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), strings.Contains(text, "malformed HTTP"):
		return fmt.Errorf("%s closed the connection, or does not speak HTTP (%w): try again; if that does not help, %s", c.base, err, giveGateway)
	}
	return fmt.Errorf("talking to %s: %w", c.base, err)
}

// certificateAdvice returns what to do about a rejected certificate.
func certificateAdvice(err error, whose string) string {
	var (
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &unknown):
		return "say which authority signed its certificate with MIND_CACERT or --ca-cert"
	case errors.As(err, &host):
		return "write the address with a name that is in " + whose + ", or have one made for this name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && time.Now().After(invalid.Cert.NotAfter):
		return "have " + whose + " replaced, or set the clock of this machine if that is wrong"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "set the clock of this machine if that is wrong, or wait until " + whose + " is valid"
	}
	return ""
}
