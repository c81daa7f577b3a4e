package tokenexchange

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// Limits of an answer.
const (
	maxAnswer = 64 << 10
	// maxToken limits a token so that it fits into the metadata of a call, beside other entries.
	maxToken = 8 << 10
)

// reserved are the parameters that the configuration may not set.
var reserved = map[string]bool{
	"grant_type": true, "subject_token": true, "subject_token_type": true, "requested_token_type": true, "actor_token": true, "actor_token_type": true,
	"audience": true, "resource": true, "scope": true, "client_id": true, "client_secret": true,
}

// answer is the answer of a token endpoint, success or error.
type answer struct {
	AccessToken     string       `json:"access_token"`
	IssuedTokenType string       `json:"issued_token_type"`
	TokenType       string       `json:"token_type"`
	ExpiresIn       *json.Number `json:"expires_in"`

	Error       string `json:"error"`
	Description string `json:"error_description"`
}

func (x *Exchanger) exchange(ctx context.Context, to Target, subject string) (string, error) {
	req, err := x.request(ctx, to, subject)
	if err != nil {
		return "", err
	}
	resp, err := x.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnreachable, withoutURL(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return "", fmt.Errorf("%w: reading its answer: %w", ErrUnreachable, err)
	}
	if len(body) > maxAnswer {
		return "", fmt.Errorf("%w: it is longer than %d bytes", ErrAnswer, maxAnswer)
	}
	if resp.StatusCode != http.StatusOK {
		return "", x.refused(resp.StatusCode, body, subject)
	}
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return "", fmt.Errorf("%w: its content is not application/json", ErrAnswer)
	}
	return take(body, subject)
}

// request builds the form that asks for a token.
func (x *Exchanger) request(ctx context.Context, to Target, subject string) (*http.Request, error) {
	form := url.Values{
		"grant_type": {grantType}, "subject_token": {subject}, "subject_token_type": {x.config.SubjectType},
		"requested_token_type": {TypeAccessToken},
	}
	for name, value := range map[string]string{"audience": to.Audience, "resource": to.Resource, "scope": to.Scope} {
		if value != "" {
			form.Set(name, value)
		}
	}
	for name, value := range x.config.Parameters {
		form.Set(name, value)
	}
	basic := x.config.Auth == AuthBasic && x.config.ClientSecret != ""
	if !basic {
		form.Set("client_id", x.config.ClientID)
		if x.config.ClientSecret != "" {
			form.Set("client_secret", x.config.ClientSecret)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.config.URL, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, fmt.Errorf("make the request of a token exchange: %w", err)
	}
	if basic {
		// RFC 6749 requires both to be form-encoded.
		req.SetBasicAuth(url.QueryEscape(x.config.ClientID), url.QueryEscape(x.config.ClientSecret))
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	// The request may be repeated, so net/http retries it if the server has closed the connection meanwhile. (An empty
	// value is not sent.)
	req.Header["Idempotency-Key"] = []string{}
	return req, nil
}

// take returns the token of an answer if it may be used.
func take(body []byte, subject string) (string, error) {
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		// The error would quote the answer.
		return "", fmt.Errorf("%w: it is not the JSON of a token", ErrAnswer)
	}
	switch {
	case a.AccessToken == "":
		return "", fmt.Errorf("%w: it has no access_token", ErrAnswer)
	case !strings.EqualFold(a.TokenType, "Bearer"):
		return "", fmt.Errorf("%w: its token_type is not Bearer", ErrAnswer)
	case a.IssuedTokenType != TypeAccessToken && a.IssuedTokenType != TypeJWT:
		return "", fmt.Errorf("%w: its issued_token_type is neither an access token nor a JWT", ErrAnswer)
	case a.AccessToken == subject:
		// With the caller's own token the service could act as the caller everywhere.
		return "", fmt.Errorf("%w: it is the token that was to be exchanged", ErrAnswer)
	case len(a.AccessToken) > maxToken || !fitsHeader(a.AccessToken):
		return "", fmt.Errorf("%w: its token does not fit into a header", ErrAnswer)
	}
	if a.ExpiresIn != nil {
		if seconds, err := a.ExpiresIn.Float64(); err != nil || seconds <= 0 {
			return "", fmt.Errorf("%w: its token has expired already", ErrAnswer)
		}
	}
	return a.AccessToken, nil
}

func fitsHeader(token string) bool {
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return false
		}
	}
	return true
}

// refused explains an answer without a token. The server's text is for the gateway's operators; it must contain no secret.
func (x *Exchanger) refused(code int, body []byte, subject string) error {
	var a answer
	_ = json.Unmarshal(body, &a) // ignore text that is not JSON
	kind := ErrRefused
	if code >= 500 || code == http.StatusTooManyRequests {
		kind = ErrUnreachable
	}
	err := fmt.Errorf("%w: HTTP status %d", kind, code)
	if said := harmless(strings.TrimSpace(a.Error+" "+a.Description), x.secrets(subject)...); said != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return err
}

// secrets returns the texts that must not appear in errors, in the form in which they were sent.
func (x *Exchanger) secrets(subject string) []string {
	if x.config.ClientSecret == "" {
		return []string{subject}
	}
	id, secret := url.QueryEscape(x.config.ClientID), url.QueryEscape(x.config.ClientSecret)
	return []string{subject, base64.StdEncoding.EncodeToString([]byte(id + ":" + secret)), secret, x.config.ClientSecret}
}

// Limits for texts of the server in errors: words that may be tokens are dropped, and characters that would break a log
// line.
const (
	maxWord = 40
	maxSaid = 300
)

func harmless(said string, secrets ...string) string {
	for _, s := range secrets {
		said = strings.ReplaceAll(said, s, "...")
	}
	words := strings.FieldsFunc(said, func(r rune) bool { return r <= ' ' || r > '~' })
	for i, w := range words {
		if len(w) > maxWord {
			words[i] = "..."
		}
	}
	said = strings.Join(words, " ")
	if len(said) > maxSaid {
		said = said[:maxSaid] + "..."
	}
	return said
}

// withoutURL drops the address, which may contain a query, and keeps the cause.
func withoutURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}
