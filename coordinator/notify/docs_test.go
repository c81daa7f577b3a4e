package notify

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The receiver that the page shows verifies what is sent, and refuses what was changed.
func TestDocs_theReceiverVerifies(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is missing: install it")
	}
	page, err := os.ReadFile("../../docs/use/cores.md")
	require.NoError(t, err)
	_, program, found := strings.Cut(string(page), "```python\n")
	require.True(t, found, "the page shows no receiver")
	program, _, found = strings.Cut(program, "\nclass Receiver")
	require.True(t, found, "the receiver has another form")
	program += `
import sys
names = ["webhook-id", "webhook-timestamp", "webhook-signature"]
body = open("body", "rb").read()
headers = dict(zip(names, sys.argv[1:]))
print(verified(headers, body), verified(headers, body + b" "), verified(dict(headers, **{"webhook-timestamp": "1"}), body))
`
	var header http.Header
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		header = r.Header
		body, _ = io.ReadAll(r.Body)
	}))
	defer server.Close()
	s := sender(t, func(c *Config) { c.SecretFile = secretFile(t, secretB+"\n"+secretA+"\n") })
	d, n := asked(server.URL)
	require.NoError(t, s.post(t.Context(), s.keys, ofDecision(d, n)))
	for _, secret := range []string{secretA, secretB} {
		dir := t.TempDir()
		for name, text := range map[string]string{"webhook-secret": secret + "\n", "body": string(body), "receiver.py": program} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		cmd := exec.CommandContext(t.Context(), python, "receiver.py", header.Get("Webhook-Id"), header.Get("Webhook-Timestamp"), header.Get("Webhook-Signature"))
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Equal(t, "True False False\n", string(out))
	}
}
