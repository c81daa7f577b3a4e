package access_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

const aSession = `{"sessions":[{"session_id":"ses_1","tenant_id":"acme","user_id":"ann","permissions":[],"created_at":"2026-01-02T03:04:05Z",` +
	`"expires_at":"2026-01-02T15:04:05Z","last_used_at":null,"address":"10.0.0.1","user_agent":"Firefox","token_id":"","current":false}]}`

func TestSession_list(t *testing.T) {
	g := clitest.NewGateway(t)
	var query string
	g.On("GET /v1/sessions", func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.Query().Encode()
		clitest.Answer(200, aSession)(w, r)
	})
	out, stderr, code := clitest.Run(t, "session", "list")
	require.Zero(t, code, stderr)
	require.Empty(t, query, "what is not asked for is not sent")
	require.Regexp(t, `SESSION\s+USER\s+AGE\s+EXPIRES\s+USED\s+ADDRESS\s+BROWSER\nses_1\s+ann\s+\S+\s+2026-01-0\S+ \S+ \S+\s+never\s+10\.0\.0\.1\s+Firefox\n`, out)
	_, _, code = clitest.Run(t, "session", "list", "--all", "--tenant", "acme")
	require.Zero(t, code)
	require.Equal(t, "all=true&tenant_id=acme", query)
	out, _, code = clitest.Run(t, "session", "list", "-o", "json")
	require.Zero(t, code)
	require.JSONEq(t, aSession, out)
}

func TestSession_revoke(t *testing.T) {
	g := clitest.NewGateway(t)
	var query string
	g.On("DELETE /v1/sessions/ses_1", func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.Query().Encode()
		clitest.Answer(200, `{"session_id":"ses_1"}`)(w, r)
	})
	out, stderr, code := clitest.Run(t, "session", "revoke", "ses_1", "--tenant", "acme")
	require.Zero(t, code, stderr)
	require.Equal(t, "ses_1 ended\n", out)
	require.Equal(t, "tenant_id=acme", query)
	require.NotEmpty(t, g.Keys[0])
	out, _, code = clitest.Run(t, "session", "revoke", "ses_1", "-o", "json")
	require.Zero(t, code)
	require.JSONEq(t, `{"session_id":"ses_1"}`, out)
	_, _, code = clitest.Run(t, "session", "revoke", "ses_2")
	require.Equal(t, 1, code)
	_, _, code = clitest.Run(t, "session", "revoke")
	require.Equal(t, 2, code)
}
