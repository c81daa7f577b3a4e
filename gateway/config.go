package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/bounds"
	"github.com/mindcoordinator/mind/gateway/downloads"
	"github.com/mindcoordinator/mind/gateway/jobcache"
	"github.com/mindcoordinator/mind/gateway/login"
	"github.com/mindcoordinator/mind/gateway/oidc"
	"github.com/mindcoordinator/mind/gateway/origins"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/tokenexchange"
)

// Config configures one gateway. The zero value of an optional field selects its default.
type Config struct {
	// HTTPAddr to listen on. Listener, when set, is used instead.
	HTTPAddr string
	Listener net.Listener
	// HTTPCertFile and HTTPKeyFile turn on HTTPS for callers; both or none.
	HTTPCertFile string
	HTTPKeyFile  string

	// Coordinators are gRPC addresses; at least one, preferably all.
	Coordinators []string
	// CertFile, KeyFile and CAFile turn on mutual TLS to the coordinators; all or none.
	CertFile string
	KeyFile  string
	CAFile   string
	// APISecret is sent with every call to a coordinator.
	APISecret string

	// Tokens are the accepted bearer tokens, unless Authenticator is set.
	Tokens        []StaticToken
	Authenticator auth.Authenticator
	// OIDC configures an issuer whose tokens are accepted, too; nil: none.
	OIDC *oidc.Config
	// Login lets users sign in at the issuer of OIDC with a browser; nil: they cannot.
	Login *login.Config
	// TokenExchange configures the exchange of callers' tokens for tokens of ScaiDrive and ScaiAtlas, for calls that
	// need them; nil: it is disabled.
	TokenExchange *tokenexchange.Config
	// ExchangeIssuedOnly lets callers whose tokens cannot be exchanged continue without exchanged tokens; otherwise
	// they are refused.
	ExchangeIssuedOnly bool

	// JobCache keeps a copy of listed jobs for dashboards, in MariaDB or MySQL, as mysql:DSN; empty: none.
	JobCache string
	// JobCacheKeep is how long the copy of a job is kept after it was last listed; default 30 days.
	JobCacheKeep time.Duration

	// CheckpointArchive is the archive from which checkpoints are downloaded.
	CheckpointArchive downloads.Archive

	// UploadBytes limits the files of an upload together; default 256 MiB. UploadKeep is how long an upload that no job names
	// is kept; default 24 h.
	UploadBytes int64
	UploadKeep  time.Duration

	// RateLimits limit the requests of callers; the zero value sets no limit.
	RateLimits RateLimits
	// CORSOrigins are the origins whose pages may use this gateway from a browser, such as https://dashboard.example.com; empty: none.
	CORSOrigins []string
	// TrustedProxies are addresses and networks of proxies whose X-Forwarded-For header names the client. Empty: the client
	// is the peer of the connection.
	TrustedProxies []string
	// ModuleTenants are the tenants that may use ScaiMind and ScaiCore; empty: all.
	ModuleTenants []string

	Timeouts Timeouts
	Limits   Limits
	// Bounds limit the open connections, and the open streams of each tenant.
	Bounds bounds.Limits

	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Registry is the registry for the gateway's metrics, which /metrics serves; nil: a registry of its own.
	Registry *prometheus.Registry
	// DialOptions are added to the options of the connections to coordinators.
	DialOptions []grpc.DialOption
}

// Timeouts are the durations that a gateway uses, and Limits limit the size of a request.
type (
	Timeouts = rest.Timeouts
	Limits   = rest.Limits
)

// StaticToken is a bearer token from the configuration.
type StaticToken = auth.StaticToken

func (c Config) withDefaults() Config {
	c.Timeouts, c.Limits = c.Timeouts.WithDefaults(), c.Limits.WithDefaults()
	c.Bounds = c.Bounds.WithDefaults()
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	return c
}

// Validate returns all faults of the configuration, joined.
func (c Config) Validate() error {
	var errs []error
	if c.HTTPAddr == "" && c.Listener == nil {
		errs = append(errs, errors.New("http_addr is required"))
	}
	if len(c.Coordinators) == 0 {
		errs = append(errs, errors.New("coordinators: give at least one address"))
	}
	if n := given(c.CertFile, c.KeyFile, c.CAFile); n != 0 && n != 3 {
		errs = append(errs, errors.New("cert_file, key_file and ca_file: give all three or none"))
	}
	if given(c.HTTPCertFile, c.HTTPKeyFile) == 1 {
		errs = append(errs, errors.New("http_cert_file and http_key_file: give both or none"))
	}
	if c.OIDC != nil {
		if _, err := oidc.New(*c.OIDC); err != nil {
			errs = append(errs, err)
		}
	}
	if c.Login != nil {
		if c.OIDC == nil {
			errs = append(errs, errors.New("oidc_client_id is given without oidc_issuer: users sign in at an issuer"))
		} else if _, err := login.New(*c.Login, *c.OIDC); err != nil {
			errs = append(errs, err)
		}
	}
	if c.TokenExchange != nil {
		if _, err := tokenexchange.New(*c.TokenExchange); err != nil {
			errs = append(errs, err)
		}
		if c.OIDC == nil && c.Authenticator == nil {
			errs = append(errs, errors.New("token_exchange_url is given without oidc_issuer: only the tokens of an issuer can be exchanged"))
		}
	}
	if c.JobCache != "" {
		if err := jobcache.Check(jobcache.Config{Database: c.JobCache, Keep: c.JobCacheKeep}); err != nil {
			errs = append(errs, err)
		}
	}
	if c.RateLimits.Token < 0 || c.RateLimits.User < 0 || c.RateLimits.Tenant < 0 {
		errs = append(errs, errors.New("rate limits: give numbers of requests per minute, or 0 for no limit"))
	}
	if c.UploadBytes < 0 || c.UploadKeep < 0 || c.UploadKeep > 0 && c.UploadKeep < time.Hour {
		errs = append(errs, errors.New("upload_bytes must not be negative, and upload_keep is at least an hour"))
	}
	errs = append(errs, c.Bounds.Validate(), c.Timeouts.Validate(), c.Limits.Validate())
	if c.JobCacheKeep < 0 {
		errs = append(errs, errors.New("job_cache_keep must not be negative"))
	}
	for _, origin := range c.CORSOrigins {
		if err := origins.Check(origin); err != nil {
			errs = append(errs, err)
		}
	}
	if _, err := auth.ParseProxies(c.TrustedProxies); err != nil {
		errs = append(errs, err)
	}
	for i, t := range c.Tokens {
		if t.Token == "" {
			errs = append(errs, fmt.Errorf("tokens[%d]: token is required", i))
		}
		if !auth.Identifier(t.Tenant) {
			errs = append(errs, fmt.Errorf("tokens[%d]: tenant %s", i, auth.IdentifierRule))
		}
		if t.User != "" && !auth.Identifier(t.User) {
			errs = append(errs, fmt.Errorf("tokens[%d]: user %s", i, auth.IdentifierRule))
		}
	}
	return errors.Join(errs...)
}

func given(values ...string) int {
	n := 0
	for _, v := range values {
		if v != "" {
			n++
		}
	}
	return n
}
