package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/settings"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/oidc"
)

// gatewayOf reads a file like `mind gateway`.
func gatewayOf(t *testing.T, file string, env map[string]string) (gateway.Config, error) {
	t.Helper()
	c, p := gateway.Config{}, published{}
	set := settings.Bind(pflag.NewFlagSet("gateway", pflag.ContinueOnError), append(gatewayKeys(&c, &oidc.Config{}), p.keys()...))
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
	if err := set.Load(path, func(k string) (string, bool) { v, ok := env[k]; return v, ok }); err != nil {
		return c, err
	}
	return c, p.into(&c)
}

func TestPublishedKeys_standForOurs(t *testing.T) {
	c, err := gatewayOf(t, `
http_addr: 127.0.0.1:8080
scaimind_grpc_host: mind.example
scaimind_grpc_port: 50051
scaimind_grpc_timeout_s: 12.5
scaimind_grpc_stream_timeout_s: 3600
scaimind_tls_enabled: true
cert_file: c
key_file: k
ca_file: a
`, map[string]string{"MIND_SCAIMIND_API_SECRET": "s3cret"})
	require.NoError(t, err)
	require.NoError(t, c.Validate())
	require.Equal(t, []string{"mind.example:50051"}, c.Coordinators)
	require.Equal(t, 12500*time.Millisecond, c.Timeouts.Request)
	require.Equal(t, time.Hour, c.Timeouts.Stream)
	require.Equal(t, "s3cret", c.APISecret)

	c, err = gatewayOf(t, "scaimind_grpc_host: \"::1\"\nscaimind_grpc_port: 7\ncoordinators: [\"[::1]:7\"]\nscaimind_grpc_timeout_s: 30\nrequest_timeout: 30s\n"+
		"api_secret: s\nscaimind_api_secret: s\nscaimind_tls_enabled: false\n", nil)
	require.NoError(t, err, "the same, said twice")
	require.Equal(t, []string{"[::1]:7"}, c.Coordinators)

	c, err = gatewayOf(t, "coordinators: a:1\napi_secret: s\nrequest_timeout: 5s\n", nil)
	require.NoError(t, err)
	require.Equal(t, gateway.Config{Coordinators: []string{"a:1"}, APISecret: "s", Timeouts: gateway.Timeouts{Request: 5 * time.Second}}, c)
}

func TestPublishedKeys_faults(t *testing.T) {
	for file, want := range map[string]string{
		"scaimind_grpc_host: h\n": "give both or none",
		"scaimind_grpc_port: 1\n": "give both or none",
		"scaimind_grpc_host: h\nscaimind_grpc_port: 1\ncoordinators: [\"h:1\", \"i:1\"]": "coordinators and scaimind_grpc_host",
		"scaimind_grpc_timeout_s: 1\nrequest_timeout: 2s\n":                              "request_timeout and scaimind_grpc_timeout_s",
		"scaimind_grpc_stream_timeout_s: 1\nstream_timeout: 2s\n":                        "stream_timeout and scaimind_grpc_stream_timeout_s",
		"scaimind_api_secret: a\napi_secret: b\n":                                        "api_secret and scaimind_api_secret",
		"scaimind_tls_enabled: true\n":                                                   "give cert_file",
		"scaimind_tls_enabled: false\ncert_file: c\n":                                    "cert_file is set",
		"scaimind_tls_enabled: perhaps\n":                                                "neither true nor false",
		"scaimind_grpc_timeout_s: 30s\n":                                                 "not a number of seconds",
		"scaimind_grpc_timeout_s: 0\n":                                                   "not a number of seconds",
		"scaimind_grpc_timeout_s: nan\n":                                                 "not a number of seconds",
		"scaimind_grpc_hots: h\n":                                                        `did you mean "scaimind_grpc_host"`,
	} {
		_, err := gatewayOf(t, file, nil)
		require.ErrorContains(t, err, want, file)
	}
	_, err := gatewayOf(t, "scaimind_api_secret: topsecret\napi_secret: othersecret\n", nil)
	require.NotContains(t, err.Error(), "topsecret")
	require.NotContains(t, err.Error(), "othersecret")
}
