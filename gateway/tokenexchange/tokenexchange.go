// Package tokenexchange trades the token of a caller for one that is meant for
// another service, as RFC 8693 has it.
//
// Contract: Mint asks the token endpoint for one token for each target, for the
// caller whose token it is given, and returns all of them or an error. Nothing
// is kept: each call of Mint asks anew, so that a token is never used for
// longer, or by others, than the authorization server meant.
//
// Guarantees: the request is bounded in time and its answer in size. Redirects
// are not followed: they would carry the caller's token to another address. An
// answer is taken only when it is a bearer token for which another was given,
// that is good now and fits into a header. No error and no metric holds a token,
// or the secret of this client.
//
// Not guaranteed: that the token is good for what it is used for. That is for
// the service to say that it is shown to.
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

// Config says where tokens are exchanged, and for what.
type Config struct {
	// URL of the token endpoint: https, or http on this machine.
	URL string
	// ClientID and ClientSecret say who asks; without a secret the client is a public one.
	ClientID     string
	ClientSecret string
	// Auth is how the client proves itself: AuthBasic (default) or AuthPost.
	Auth string
	// SubjectType is what the tokens of callers are; default TypeAccessToken.
	SubjectType string
	// Parameters are sent along with each request, for servers that want more than the standard.
	Parameters map[string]string
	// Timeout bounds an exchange; default 5 s.
	Timeout time.Duration
	// Drive and Atlas are what tokens are minted for.
	Drive, Atlas Target
	// Client makes the requests; default: one that trusts the system's authorities.
	Client *http.Client
}

// Ways for a client to prove itself.
const (
	AuthBasic = "basic"
	AuthPost  = "post"
)

// Target is a service that is shown a token. Its zero value means that none is minted for it.
type Target struct {
	Audience, Resource, Scope string
}

func (t Target) wanted() bool { return t != Target{} }

// Tokens are what was minted; empty where nothing was asked for.
type Tokens struct {
	Drive, Atlas string
}

// Kinds of failures; each error of Mint wraps one.
var (
	// ErrRefused: the authorization server does not give a token for this one.
	ErrRefused = errors.New("the authorization server refused")
	// ErrUnreachable: it did not answer, or had a fault of its own.
	ErrUnreachable = errors.New("the authorization server cannot be asked")
	// ErrAnswer: what it answered is not to be used.
	ErrAnswer = errors.New("the authorization server's answer cannot be used")
)

// Exchanger is safe for concurrent use.
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

// New checks the configuration. It asks nobody yet.
func New(config Config) (*Exchanger, error) {
	var errs []error
	if err := checkURL(config.URL); err != nil {
		errs = append(errs, err)
	}
	if config.ClientID == "" {
		errs = append(errs, errors.New("token_exchange_client_id is required: the authorization server must know who asks"))
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
		errs = append(errs, errors.New("token_exchange_url is given, and nothing to exchange tokens for: give scaidrive_audience, scaiatlas_audience, or their _resource or _scope"))
	}
	own := http.Client{Transport: transport()}
	if config.Client != nil {
		own = *config.Client
	}
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	x.client = &own
	return x, errors.Join(errs...)
}

// transport keeps connections for as many callers as come at once under load.
func transport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost, t.MaxResponseHeaderBytes = 32, maxAnswer
	return t
}

// Close ends the connections that nobody uses.
func (x *Exchanger) Close() { x.client.CloseIdleConnections() }

// checkURL holds that tokens do not travel in the clear.
func checkURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return fmt.Errorf("token_exchange_url %q: give the URL of a token endpoint, such as https://login.example.com/oauth2/token", raw)
	}
	if u.User != nil || u.Fragment != "" {
		return errors.New("token_exchange_url: it may hold no user and no fragment")
	}
	host := u.Hostname()
	ip := net.ParseIP(host)
	if u.Scheme == "https" || u.Scheme == "http" && (host == "localhost" || ip != nil && ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("token_exchange_url %q: it must begin with https, since callers' tokens are sent there (http is for this machine only)", raw)
}

// Mint returns a token for each target. When one cannot be had, it returns none.
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
				// The first failure is the one to tell: it ends the others.
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
