// Package tokenexchange exchanges a caller's token for a token of another service (RFC 8693).
//
// Contract: Mint asks the token endpoint for one token for each target on behalf of the caller, and returns all of them or
// an error. Nothing is cached: each Mint asks again, so that no token is used longer, or by others, than the authorization
// server intended.
//
// Guarantees: the request is limited in time and its answer in size. Redirects are not followed: they would send the
// caller's token to another address. An answer is accepted only if it is a bearer token, differs from the caller's, is
// valid now and fits into a header. No error and no metric contains a token or the client's secret.
//
// Not guaranteed: that the service accepts the token. The service decides.
package tokenexchange

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Token types of RFC 8693.
const (
	TypeAccessToken = "urn:ietf:params:oauth:token-type:access_token"
	TypeIDToken     = "urn:ietf:params:oauth:token-type:id_token"
	TypeJWT         = "urn:ietf:params:oauth:token-type:jwt"

	grantType = "urn:ietf:params:oauth:grant-type:token-exchange"
)

// Config configures where tokens are exchanged, and for which services.
type Config struct {
	// URL of the token endpoint: https, or http on this machine.
	URL string
	// ClientID and ClientSecret identify this client; without a secret it is a public client.
	ClientID     string
	ClientSecret string
	// Auth is how the client sends its secret: AuthBasic (default) or AuthPost.
	Auth string
	// SubjectType is the type of the callers' tokens; default TypeAccessToken.
	SubjectType string
	// Parameters are added to each request, for servers that need more than the standard.
	Parameters map[string]string
	// Timeout limits an exchange; default 5 s.
	Timeout time.Duration
	// Drive and Atlas are the services for which tokens are requested.
	Drive, Atlas Target
	// Client makes the requests; default: one that trusts the system's authorities.
	Client *http.Client
}

// Ways for a client to send its secret.
const (
	AuthBasic = "basic"
	AuthPost  = "post"
)

// Target is a service that gets a token. The zero value means that no token is requested for it.
type Target struct {
	Audience, Resource, Scope string
}

func (t Target) wanted() bool { return t != Target{} }

// Tokens are the exchanged tokens; empty where none was requested.
type Tokens struct {
	Drive, Atlas string
}

// Kinds of failures; each error of Mint wraps one.
var (
	// ErrRefused: the authorization server refuses a token for this caller.
	ErrRefused = errors.New("the authorization server refused")
	// ErrUnreachable: the server did not answer, or failed.
	ErrUnreachable = errors.New("the authorization server cannot be reached")
	// ErrAnswer: the answer is not valid.
	ErrAnswer = errors.New("the authorization server's answer is not valid")
)

// Exchanger exchanges tokens. It is safe for concurrent use.
type Exchanger struct {
	config  Config
	client  *http.Client
	targets []target
}

// target is a service, and where its token goes.
type target struct {
	Target
	name string
	into func(*Tokens) *string
}

// New checks the configuration. It sends no request yet.
func New(config Config) (*Exchanger, error) {
	var errs []error
	if err := checkURL(config.URL); err != nil {
		errs = append(errs, err)
	}
	if config.ClientID == "" {
		errs = append(errs, errors.New("token_exchange_client_id is required: the authorization server must know the client"))
	}
	switch config.Auth {
	case "":
		config.Auth = AuthBasic
	case AuthBasic, AuthPost:
	default:
		errs = append(errs, fmt.Errorf("token_exchange_auth %q: it must be %s or %s", config.Auth, AuthBasic, AuthPost))
	}
	if config.SubjectType == "" {
		config.SubjectType = TypeAccessToken
	}
	if config.Timeout < 0 {
		errs = append(errs, errors.New("token_exchange_timeout must be more than 0"))
	}
	if config.Timeout == 0 {
		config.Timeout = 5 * time.Second
	}
	for name := range config.Parameters {
		if reserved[name] {
			errs = append(errs, fmt.Errorf("token_exchange_parameters: %s is set by the gateway itself", name))
		}
	}
	x := &Exchanger{config: config}
	for _, t := range []target{
		{config.Drive, "scaidrive", func(t *Tokens) *string { return &t.Drive }},
		{config.Atlas, "scaiatlas", func(t *Tokens) *string { return &t.Atlas }},
	} {
		if t.wanted() {
			x.targets = append(x.targets, t)
		}
	}
	if len(x.targets) == 0 {
		errs = append(errs, errors.New("token_exchange_url is set, but no service to request tokens for: set scaidrive_audience, scaiatlas_audience, or their _resource or _scope"))
	}
	own := http.Client{Transport: transport()}
	if config.Client != nil {
		own = *config.Client
	}
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	x.client = &own
	return x, errors.Join(errs...)
}

// transport returns a transport that keeps enough idle connections for concurrent callers under load.
func transport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost, t.MaxResponseHeaderBytes = 32, maxAnswer
	return t
}

// Close closes idle connections.
func (x *Exchanger) Close() { x.client.CloseIdleConnections() }

// checkURL refuses URLs that would send tokens in plain text.
func checkURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return fmt.Errorf("token_exchange_url %q: give the URL of a token endpoint, such as https://login.example.com/oauth2/token", raw)
	}
	if u.User != nil || u.Fragment != "" {
		return errors.New("token_exchange_url: it must not contain a user or a fragment")
	}
	host := u.Hostname()
	ip := net.ParseIP(host)
	if u.Scheme == "https" || u.Scheme == "http" && (host == "localhost" || ip != nil && ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("token_exchange_url %q: it must begin with https, because callers' tokens are sent there (http is allowed only within this machine)", raw)
}

// Mint returns a token for each target. If one fails, it returns none.
func (x *Exchanger) Mint(ctx context.Context, subject string) (Tokens, error) {
	ctx, cancel := context.WithTimeout(ctx, x.config.Timeout)
	defer cancel()
	var (
		all  sync.WaitGroup
		once sync.Once
		made Tokens
		why  error
	)
	for _, t := range x.targets {
		all.Add(1)
		go func() {
			defer all.Done()
			token, err := x.exchange(ctx, t.Target, subject)
			if err != nil {
				// The first failure is reported: it cancels the other request.
				once.Do(func() {
					why = fmt.Errorf("a token for %s: %w", t.name, err)
					cancel()
				})
				return
			}
			*t.into(&made) = token
		}()
	}
	all.Wait()
	if why != nil {
		return Tokens{}, why
	}
	return made, nil
}
