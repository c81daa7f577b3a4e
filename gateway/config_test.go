package gateway_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/gateway"
)

func TestConfig_saysAllThatIsWrong(t *testing.T) {
	err := gateway.Config{
		CertFile: "c", HTTPKeyFile: "k", Tokens: []gateway.StaticToken{{}}, JobCacheKeep: -1,
		Timeouts: gateway.Timeouts{Request: -1, Keepalive: -1}, Limits: gateway.Limits{Body: -1, BatchJobs: -1},
	}.Validate()
	for _, part := range []string{
		"http_addr", "coordinators", "cert_file", "http_cert_file", "tokens[0]: token", "tokens[0]: tenant", "job_cache_keep must",
		"request_timeout is -1ns: it must not be negative", "keepalive is", "max_body_bytes is -1", "max_batch_jobs is",
	} {
		require.ErrorContains(t, err, part)
	}
	require.Error(t, gateway.Run(t.Context(), gateway.Config{}))
}
