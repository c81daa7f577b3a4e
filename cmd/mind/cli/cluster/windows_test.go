package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func TestWindows_planListDelete(t *testing.T) {
	g := clitest.NewGateway(t)
	kernel := `{"name":"kernel","state":"PLANNED","from":"2026-07-01T08:00:00Z","until":"2026-07-01T12:00:00Z","nodes":["n1","n2","n3","n4","n5"],"reason":"new kernel"}`
	paper := `{"name":"paper","state":"ACTIVE","from":"2026-07-01T08:00:00Z","until":"2026-07-03T08:00:00Z","nodes":["n6"],"tenant_id":"acme","gpus":8}`
	g.On("GET /maintenance", clitest.Answer(200, `{"maintenance":[`+kernel+`]}`))
	g.On("PUT /maintenance/kernel", clitest.Answer(200, kernel))
	g.On("DELETE /maintenance/kernel", clitest.Answer(200, `{"name":"kernel"}`))
	g.On("GET /reservations", clitest.Answer(200, `{"reservations":[`+paper+`]}`))
	g.On("PUT /reservations/paper", clitest.Answer(200, paper))

	out, stderr, code := clitest.Run(t, "maintenance", "add", "kernel", "--nodes", "n*", "--from", "2026-07-01T10:00:00+02:00", "--for", "4h", "--reason", "new kernel")
	require.Zero(t, code, stderr)
	require.JSONEq(t, `{"nodes":["n*"],"reason":"new kernel","from":"2026-07-01T08:00:00Z","duration_seconds":14400}`, g.Bodies[len(g.Bodies)-1])
	require.Contains(t, out, "n1,n2,n3 and 2 more")
	out, _, code = clitest.Run(t, "maintenance")
	require.Zero(t, code)
	require.Regexp(t, `kernel\s+PLANNED`, out)
	out, _, code = clitest.Run(t, "maintenance", "delete", "kernel")
	require.Zero(t, code)
	require.Equal(t, "kernel is gone\n", out)

	_, stderr, code = clitest.Run(t, "reserve", "paper", "--gpus", "8", "--gpu-type", "H100", "--tenant", "acme", "--for", "48h")
	require.Zero(t, code, stderr)
	require.JSONEq(t, `{"gpus":8,"gpu_type":"H100","tenant_id":"acme","reason":"","duration_seconds":172800}`, g.Bodies[len(g.Bodies)-1])
	out, _, code = clitest.Run(t, "reservations")
	require.Zero(t, code)
	require.Regexp(t, `paper\s+ACTIVE.*acme\s+8\s+n6`, out)

	for says, args := range map[string][]string{
		"give the nodes":              {"maintenance", "add", "kernel", "--for", "4h"},
		"--for 4h":                    {"maintenance", "add", "kernel", "--nodes", "n1"},
		"--from tomorrow: it must be": {"maintenance", "add", "kernel", "--nodes", "n1", "--for", "4h", "--from", "tomorrow"},
		"give how many":               {"reserve", "paper", "--for", "4h"},
		"mind reserve need":           {"reserve"},
	} {
		_, stderr, code := clitest.Run(t, args...)
		require.Equal(t, 2, code, says)
		require.Contains(t, stderr, says)
	}
}
