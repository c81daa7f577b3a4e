package login

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"

	"github.com/mindcoordinator/mind/gateway/oidc"
)

const (
	// Path is where a browser begins, and callbackPath where the issuer sends it back.
	Path         = "/v1/session/login"
	callbackPath = "/v1/session/callback"
	// Home is where a browser goes after it has signed in; all pages of the console are below it.
	Home = "/console/"

	maxAnswer = 1 << 20
	maxNext   = 1024
)

// Config has the name and the secret of this gateway at the issuer.
type Config struct {
	ClientID string
	// SecretFile has the secret of the client, if the issuer gave one. It is read at each use, so that it can be replaced.
	SecretFile string
}

// The errors of a sign-in, as users see them.
var (
	ErrExpired     = errors.New("signing in took too long, or began in another browser: try again")
	ErrDenied      = errors.New("the sign-in server did not let you in")
	ErrUnreachable = errors.New("the sign-in server cannot be reached now: try again")
	ErrThrottled   = errors.New("too many sign-ins from your address: try again in a minute")
	ErrRefused     = errors.New("the sign-in server's answer was not accepted: try again, and if that does not help, ask the operators of this cluster")
)

// Flow signs users in at one issuer.
type Flow struct {
	config    Config
	verifier  *oidc.Verifier
	discovery *oidc.Discovery
	client    *http.Client
	name      string
}

// New returns a flow for the clients of an issuer.
func New(config Config, issuer oidc.Config) (*Flow, error) {
	if config.ClientID == "" {
		return nil, errors.New("oidc_client_secret_file is given without oidc_client_id")
	}
	issuer.Audience = config.ClientID
	verifier, err := oidc.New(issuer)
	if err != nil {
		return nil, err
	}
	f := &Flow{config: config, verifier: verifier, discovery: verifier.NewDiscovery()}
	if _, err := f.secret(); err != nil {
		return nil, err
	}
	// The code and the secret go to the endpoint that the issuer names, and no further.
	own := *verifier.Client()
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	f.client = &own
	if u, err := url.Parse(issuer.Issuer); err == nil {
		f.name = u.Host
	}
	return f, nil
}

// Name returns the host of the issuer, for users.
func (f *Flow) Name() string { return f.name }

func (f *Flow) secret() (string, error) {
	if f.config.SecretFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(f.config.SecretFile)
	if err != nil {
		return "", fmt.Errorf("oidc_client_secret_file: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Pending is a sign-in that has begun. The browser keeps it.
type Pending struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
	// Next is the page that the user wanted.
	Next string `json:"p"`
}

func random() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Begin returns where a browser goes to sign in, and what it has to keep until it comes back.
func (f *Flow) Begin(ctx context.Context, origin, next string) (to string, pending *Pending, err error) {
	at, err := f.discovery.Find(ctx)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	u, err := url.Parse(at.Authorization)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	pending = &Pending{State: random(), Nonce: random(), Verifier: random(), Next: Next(next)}
	challenge := sha256.Sum256([]byte(pending.Verifier))
	query := u.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": f.config.ClientID, "redirect_uri": origin + callbackPath, "scope": "openid",
		"state": pending.State, "nonce": pending.Nonce,
		"code_challenge": base64.RawURLEncoding.EncodeToString(challenge[:]), "code_challenge_method": "S256",
	} {
		query.Set(name, value)
	}
	u.RawQuery = query.Encode()
	return u.String(), pending, nil
}

// Code returns the code in an answer of the issuer. ErrExpired: it does not answer what this browser has asked. It asks nobody.
func (pending *Pending) Code(answer url.Values) (string, error) {
	if pending == nil || subtle.ConstantTimeCompare([]byte(pending.State), []byte(answer.Get("state"))) != 1 || len(answer["state"]) != 1 {
		return "", ErrExpired
	}
	if answer.Has("error") {
		return "", fmt.Errorf("%w: %.100q", ErrDenied, answer.Get("error"))
	}
	if len(answer["code"]) != 1 || answer.Get("code") == "" {
		return "", fmt.Errorf("%w: it has no code", ErrRefused)
	}
	return answer.Get("code"), nil
}

// Finish returns the claims of the user for whom the issuer has answered with a code.
func (f *Flow) Finish(ctx context.Context, origin string, pending *Pending, code string) (*oidc.Claims, error) {
	token, err := f.exchange(ctx, origin, pending, code)
	if err != nil {
		return nil, err
	}
	claims, err := f.verifier.Verify(ctx, token)
	switch {
	case errors.Is(err, oidc.ErrInvalid):
		return nil, fmt.Errorf("%w: the ID token: %w", ErrRefused, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	case subtle.ConstantTimeCompare([]byte(claims.Nonce), []byte(pending.Nonce)) != 1:
		return nil, fmt.Errorf("%w: the ID token answers another request", ErrRefused)
	}
	return claims, nil
}

// exchange returns the ID token for a code.
func (f *Flow) exchange(ctx context.Context, origin string, pending *Pending, code string) (string, error) {
	at, err := f.discovery.Find(ctx)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	secret, err := f.secret()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrRefused, err)
	}
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {origin + callbackPath}, "code_verifier": {pending.Verifier},
		"client_id": {f.config.ClientID},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.Token, strings.NewReader(form.Encode()))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrRefused, err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if secret != "" {
		req.SetBasicAuth(url.QueryEscape(f.config.ClientID), url.QueryEscape(secret))
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		// The body may repeat what was sent.
		return "", fmt.Errorf("%w: the token endpoint answers %d", ErrRefused, resp.StatusCode)
	}
	var reply struct {
		IDToken string `json:"id_token"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&reply); err != nil {
		return "", fmt.Errorf("%w: the token endpoint's answer is no JSON", ErrRefused)
	}
	if reply.IDToken == "" {
		return "", fmt.Errorf("%w: the token endpoint gave no ID token", ErrRefused)
	}
	return reply.IDToken, nil
}

// Next returns the page that a browser goes to after it has signed in: the one that it wanted, if that is a page of the console of
// this origin. It has no fragment, because a token in one would sign the user in as somebody else.
func Next(wanted string) string {
	u, err := url.Parse(wanted)
	if err != nil || len(wanted) > maxNext || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" ||
		strings.ContainsAny(wanted, "\\\r\n\t#") || !strings.HasPrefix(u.EscapedPath(), Home) || !strings.HasPrefix(path.Clean(u.Path)+"/", Home) {
		return Home
	}
	return wanted
}

// Failed returns the page that says why a sign-in failed. It is given a code, because a page that showed the text of an address
// would show the text of a stranger.
func Failed(err error) string {
	code := "refused"
	for known, name := range map[error]string{ErrExpired: "expired", ErrDenied: "denied", ErrUnreachable: "unreachable", ErrThrottled: "throttled"} {
		if errors.Is(err, known) {
			code = name
		}
	}
	return Home + "?error=" + code
}
