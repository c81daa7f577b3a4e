package main

import (
	"context"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/settings"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/login"
	"github.com/mindcoordinator/mind/gateway/oidc"
	"github.com/mindcoordinator/mind/gateway/tokenexchange"
)

func newGateway() *cobra.Command {
	c, issuer, signIn, theirs := &gateway.Config{}, &oidc.Config{}, &login.Config{}, &published{}
	exchange := &tokenexchange.Config{}
	return component{
		name:      "gateway",
		short:     "Run one gateway, which serves REST and server-sent events",
		example:   `  mind gateway --config /etc/mind/gateway.yaml`,
		keys:      slices.Concat(gatewayKeys(c, issuer), loginKeys(signIn), exchangeKeys(c, exchange), theirs.keys()),
		settle:    func() error { return theirs.into(c) },
		identity:  func() string { return "gateway" },
		gcPercent: littleState,
		run: func(ctx context.Context, logger *slog.Logger) error {
			c.Logger = logger
			if issuer.Issuer != "" || issuer.Audience != "" {
				c.OIDC = issuer
			}
			if *signIn != (login.Config{}) {
				c.Login = signIn
			}
			if exchange.URL != "" {
				c.TokenExchange = exchange
			}
			return gateway.Run(ctx, *c)
		},
	}.command()
}

func loginKeys(c *login.Config) []settings.Key {
	return []settings.Key{
		{Name: "oidc_client_id", Into: &c.ClientID, Help: "name of this gateway at oidc_issuer: users of the console sign in there; default: they sign in with a token"},
		{Name: "oidc_client_secret_file", Into: &c.SecretFile, Help: "file with the secret of oidc_client_id, read at each sign-in; default: none, a public client"},
	}
}

func gatewayKeys(c *gateway.Config, issuer *oidc.Config) []settings.Key {
	return []settings.Key{
		{Name: "http_addr", Into: &c.HTTPAddr, Help: "host:port to listen on; required"},
		{Name: "http_cert_file", Into: &c.HTTPCertFile, Help: "certificate (PEM) shown to callers; with http_key_file: HTTPS"},
		{Name: "http_key_file", Into: &c.HTTPKeyFile, Help: "private key of http_cert_file (PEM)"},
		{Name: "coordinators", Into: &c.Coordinators, Help: "gRPC addresses of the coordinators, preferably all; required"},
		{Name: "cert_file", Into: &c.CertFile, Help: "certificate (PEM) for the coordinators; with key_file and ca_file: mutual TLS"},
		{Name: "key_file", Into: &c.KeyFile, Help: "private key of the certificate (PEM)"},
		{Name: "ca_file", Into: &c.CAFile, Help: "certificate of the cluster's authority (PEM)"},
		{Name: "api_secret", Into: &c.APISecret, Secret: true, Help: "secret sent with each call to a coordinator; default: none"},
		{Name: "tokens", Into: (*tokens)(&c.Tokens), Secret: true, Help: "bearer tokens: list of {token, tenant, user, permissions}; as a flag TOKEN=TENANT/USER/PERMISSION+PERMISSION,..."},
		{Name: "oidc_issuer", Into: &issuer.Issuer, Help: "URL of an OpenID Connect issuer whose JSON web tokens are accepted, as in the claim iss; default: none"},
		{Name: "oidc_audience", Into: &issuer.Audience, Help: "required audience of the issuer's tokens; required with oidc_issuer"},
		{Name: "oidc_keys_url", Into: &issuer.KeysURL, Help: "URL of the issuer's key set (JWKS); default: from its discovery document"},
		{Name: "oidc_algorithms", Into: &issuer.Algorithms, Help: "accepted signature algorithms; default RS256"},
		{Name: "oidc_clock_skew", Into: &issuer.Skew, Help: "allowed difference between the issuer's clock and this one; default 30s"},
		{Name: "cors_origins", Into: &c.CORSOrigins, Help: "origins of web pages that may use this gateway, such as https://dashboard.example.com; default: none"},
		{Name: "trusted_proxies", Into: &c.TrustedProxies, Help: "addresses and networks (10.0.0.0/8) of proxies whose X-Forwarded-For header names the client; default: none, the client is the peer of the connection"},
		{Name: "module_tenants", Into: &c.ModuleTenants, Help: "tenants that may use ScaiMind and ScaiCore; default: all"},
		{Name: "job_cache", Into: &c.JobCache, Secret: true, Help: "copy of listed jobs for dashboards, in MariaDB or MySQL: mysql:USER:PASSWORD@tcp(HOST:3306)/DATABASE; default: none"},
		{Name: "job_cache_keep", Into: &c.JobCacheKeep, Help: "how long the copy of a job is kept after it was last listed; default 720h"},
		{Name: "checkpoint_archive", Into: &c.CheckpointArchive.URL, Help: "archive from which checkpoints are downloaded, that of the agents; default: none"},
		{Name: "checkpoint_archive_key_id", Into: &c.CheckpointArchive.Access.KeyID, Help: "access key id for the bucket of checkpoint_archive, to read; default: AWS_ACCESS_KEY_ID"},
		{Name: "checkpoint_archive_secret", Into: &c.CheckpointArchive.Access.Secret, Secret: true, Help: "secret key for the bucket of checkpoint_archive; default: AWS_SECRET_ACCESS_KEY"},
		{Name: "checkpoint_archive_ca_file", Into: &c.CheckpointArchive.Access.CAFile, Help: "CA certificates (PEM) that verify the endpoint of checkpoint_archive; default: those of the machine"},
		{Name: "upload_bytes", Into: &c.UploadBytes, Help: "size limit of the files of an upload together, in bytes; uploads are kept in checkpoint_archive; default 268435456"},
		{Name: "upload_keep", Into: &c.UploadKeep, Help: "how long an upload that no job names is kept, at least 1h; the same for all gateways; default 24h"},
		{Name: "max_connections", Into: &c.Bounds.Connections, Help: "open connections of callers at this gateway, at most; more are answered 503; -1: any number; default 10000"},
		{Name: "max_streams_per_tenant", Into: &c.Bounds.Streams, Help: "open streams (events, logs, metrics, shells, ports) of each tenant at this gateway, at most; more are answered 429; -1: any number; default 100"},
		{Name: "rate_limit_token", Into: &c.RateLimits.Token, Help: "requests per minute of each bearer token, at each gateway; default 0: no limit"},
		{Name: "rate_limit_user", Into: &c.RateLimits.User, Help: "requests per minute of each user; default 0: no limit"},
		{Name: "rate_limit_tenant", Into: &c.RateLimits.Tenant, Help: "requests per minute of each tenant; default 0: no limit"},
		{Name: "request_timeout", Into: &c.Timeouts.Request, Help: "time limit of a request without X-Request-Timeout; default 30s"},
		{Name: "max_request_timeout", Into: &c.Timeouts.MaxRequest, Help: "longest accepted X-Request-Timeout; default 5m"},
		{Name: "stream_timeout", Into: &c.Timeouts.Stream, Help: "how long a stream from a coordinator is read before it is reopened at the same position, unnoticed by callers; default: no limit"},
		{Name: "no_leader_timeout", Into: &c.Timeouts.NoLeader, Help: "how long a request is retried while no coordinator accepts it; default 10s"},
		{Name: "header_timeout", Into: &c.Timeouts.Header, Help: "time limit for reading the header of a request; default 10s"},
		{Name: "body_timeout", Into: &c.Timeouts.Body, Help: "time limit for reading the body of a request; default 1m"},
		{Name: "keepalive", Into: &c.Timeouts.Keepalive, Help: "interval of comments on an idle event stream; default 15s"},
		{Name: "shutdown_timeout", Into: &c.Timeouts.Shutdown, Help: "how long open requests may take to finish at shutdown; default 5s"},
		{Name: "max_body_bytes", Into: &c.Limits.Body, Help: "size limit of a request body in bytes; default 1048576"},
		{Name: "max_batch_bytes", Into: &c.Limits.BatchBody, Help: "size limit of the body of a batch in bytes; default 8388608"},
		{Name: "max_batch_jobs", Into: &c.Limits.BatchJobs, Help: "number of jobs in a batch, at most; default 1000"},
	}
}

func exchangeKeys(c *gateway.Config, x *tokenexchange.Config) []settings.Key {
	keys := []settings.Key{
		{Name: "token_exchange_url", Into: &x.URL, Help: "token endpoint (RFC 8693) that exchanges callers' tokens for tokens of ScaiDrive and ScaiAtlas; needs oidc_issuer; default: none, calls carry no such tokens"},
		{Name: "token_exchange_client_id", Into: &x.ClientID, Help: "client id at token_exchange_url; required with it"},
		{Name: "token_exchange_client_secret", Into: &x.ClientSecret, Secret: true, Help: "secret of token_exchange_client_id; default: none, for a public client"},
		{Name: "token_exchange_auth", Into: &x.Auth, Help: "how the client sends its secret: basic (a header, the default) or post (in the form)"},
		{Name: "token_exchange_subject_type", Into: &x.SubjectType, Help: "token type of callers' tokens; default " + tokenexchange.TypeAccessToken},
		{Name: "token_exchange_parameters", Into: &x.Parameters, Help: "additional form parameters, such as connector_id for Dex; default: none"},
		{Name: "token_exchange_timeout", Into: &x.Timeout, Help: "how long a request waits for the exchange; default 5s"},
		{Name: "token_exchange_issued_only", Into: &c.ExchangeIssuedOnly, Help: "true: calls with API tokens, which cannot be exchanged, continue without one; default false: they are answered 500, as published"},
	}
	for _, t := range []struct {
		name string
		into *tokenexchange.Target
	}{{"scaidrive", &x.Drive}, {"scaiatlas", &x.Atlas}} {
		keys = append(
			keys,
			settings.Key{Name: t.name + "_audience", Into: &t.into.Audience, Help: "audience of the tokens for this service; default: none"},
			settings.Key{Name: t.name + "_resource", Into: &t.into.Resource, Help: "resource (a URI) of the tokens for this service; default: none"},
			settings.Key{Name: t.name + "_scope", Into: &t.into.Scope, Help: "scopes of the tokens for this service; default: chosen by the server. If none of the three is set, no token is requested for this service"},
		)
	}
	return keys
}
