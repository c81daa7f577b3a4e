package access_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func auditRecord(index int) string {
	return fmt.Sprintf(`{"index":%d,"time":"2026-01-02T03:04:05Z","tenant_id":"acme","user_id":"ann","token_id":"tok_1","action":"node.drain","object":"n1","outcome":"OK","message":"disk\nfull","request_id":"req_1"}`, index)
}

func TestAudit_table(t *testing.T) {
	g := clitest.NewGateway(t)
	var query string
	g.On("GET /audit", func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.Query().Encode()
		clitest.Answer(200, `{"records":[`+auditRecord(7)+`],"next_page_token":"7.0","dropped_before_index":3}`)(w, r)
	})
	out, stderr, code := clitest.Run(t, "audit", "--user", "ann", "--action", "node", "--object", "n1", "--outcome", "OK", "--since", "24h", "--until", "1h", "--tenant", "*", "--limit", "7")
	require.Zero(t, code, stderr)
	require.Equal(t, "action=node&object=n1&outcome=OK&page_size=7&since=24h&tenant_id=%2A&until=1h&user_id=ann", query)
	require.Regexp(t, `TIME\s+TENANT\s+USER\s+TOKEN\s+ACTION\s+OBJECT\s+OUTCOME\s+MESSAGE\n2026-01-0\S+ \S+ \S+\s+acme\s+ann\s+tok_1\s+node\.drain\s+n1\s+OK\s+disk full\n`, out)
	require.Contains(t, stderr, "older records exist: raise --limit")
	require.Contains(t, stderr, "before index 3 were dropped")

	_, _, code = clitest.Run(t, "audit")
	require.Zero(t, code)
	require.Equal(t, "page_size=50", query, "what is not asked for is not sent")
	_, _, code = clitest.Run(t, "audit", "--limit", "5000000")
	require.Zero(t, code)
	require.Equal(t, "page_size=1000", query)
	out, _, code = clitest.Run(t, "audit", "-o", "json")
	require.Zero(t, code)
	require.JSONEq(t, `{"records":[`+auditRecord(7)+`],"next_page_token":"7.0","dropped_before_index":3}`, out)

	g.On("GET /audit", clitest.Answer(200, `{"records":[],"next_page_token":"","dropped_before_index":0}`))
	_, stderr, code = clitest.Run(t, "audit")
	require.Zero(t, code)
	require.Empty(t, stderr)
	_, stderr, code = clitest.Run(t, "audit", "node")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "mind audit takes no arguments")
}

func TestAudit_exportIsCompleteOrAbsent(t *testing.T) {
	g := clitest.NewGateway(t)
	pages := map[string]string{
		"":    `{"records":[` + auditRecord(9) + `,` + auditRecord(8) + `],"next_page_token":"8.0","dropped_before_index":0}`,
		"8.0": `{"records":[` + auditRecord(7) + `],"next_page_token":"","dropped_before_index":6}`,
	}
	broken := false
	g.On("GET /audit", func(w http.ResponseWriter, r *http.Request) {
		token := r.URL.Query().Get("page_token")
		if broken && token != "" {
			clitest.Refuse(403, "AUTHZ_PERMISSION_DENIED", "this needs the permission scaimind:cluster_admin")(w, r)
			return
		}
		clitest.Answer(200, pages[token])(w, r)
	})
	whole := auditRecord(9) + "\n" + auditRecord(8) + "\n" + auditRecord(7) + "\n"
	folder := t.TempDir()
	file := filepath.Join(folder, "audit.jsonl")
	out, stderr, code := clitest.Run(t, "audit", "--export", file)
	require.Zero(t, code, stderr)
	require.Empty(t, out)
	require.Contains(t, stderr, "3 records written to "+file)
	require.Contains(t, stderr, "before index 6 were dropped")
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, whole, string(got))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "it names who did what")

	out, _, code = clitest.Run(t, "audit", "--export", "-")
	require.Zero(t, code)
	require.Equal(t, whole, out)

	// If a page cannot be read, the old file stays, and no temporary file is left.
	broken = true
	_, stderr, code = clitest.Run(t, "audit", "--export", file)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "cluster_admin")
	got, err = os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, whole, string(got))
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	_, stderr, code = clitest.Run(t, "audit", "--export", filepath.Join(folder, "no", "such", "folder"))
	require.Equal(t, 1, code)
	require.True(t, strings.HasPrefix(stderr, "mind: creating a temporary file for "), stderr)
}
