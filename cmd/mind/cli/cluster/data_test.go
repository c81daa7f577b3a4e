package cluster_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func TestData_validate(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("POST /data/validate", clitest.Answer(200, `{"valid":false,"node_id":"n1","sources":[
		{"path":"/d","valid":true,"message":"","files":3,"size_bytes":5368709120,"cached":false},
		{"path":"hf://a/b","valid":false,"message":"the Hugging Face hub has no such file (404): check the path","files":null,"size_bytes":null,"cached":false}]}`))
	job := filepath.Join(t.TempDir(), "job.yaml")
	require.NoError(t, os.WriteFile(job, []byte("name: x\ndata_config:\n  sources:\n  - path: hf://a/b\n    split: train\n"), 0o600))
	stdout, stderr, code := clitest.Run(t, "data", "validate", "/d", "-f", job, "--node", "n1")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "not all sources can be fetched by node n1")
	require.JSONEq(t, `{"sources":[{"path":"/d"},{"path":"hf://a/b","split":"train"}],"node_id":"n1"}`, g.Bodies[0])
	require.Equal(t, "SOURCE OK FILES SIZE CACHED MESSAGE\n/d yes 3 5.0 GiB no\nhf://a/b no no the Hugging Face hub has no such file (404): check the path\n", clitest.Squeeze(stdout)+"\n")

	for _, args := range [][]string{{"data", "validate"}, {"data", "validate", "-f", "/no/such"}} {
		_, _, code = clitest.Run(t, args...)
		require.Equal(t, 2, code)
	}
}

func TestData_cache(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /data/cache", clitest.Answer(200, `{"nodes":[
		{"node_id":"n1","capacity_bytes":107374182400,"used_bytes":12,"error":"","entries":[
			{"path":"s3://b/k","digest":"x","size_bytes":12,"files":1,"fetched_at":"2026-01-31T08:00:00Z","last_used_at":"2026-01-31T08:00:00Z","in_use":true}]},
		{"node_id":"n2","capacity_bytes":0,"used_bytes":0,"entries":[],"error":"the node did not answer in time"}]}`))
	stdout, stderr, code := clitest.Run(t, "data", "cache")
	require.Zero(t, code, stderr)
	text := clitest.Squeeze(stdout)
	require.Regexp(t, `n1 s3://b/k 12 B 1 .* ago .* ago yes\n`, text)
	require.Contains(t, text, "n1 (1 sources, 12 B of 100 GiB)")
	require.Contains(t, text, "n2 (the node did not answer in time)")
}
