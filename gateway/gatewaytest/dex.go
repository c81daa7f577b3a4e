package gatewaytest

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// StartDex runs a real OAuth server at an address that accepts the tokens of an issuer, and returns its URL. Without the program it skips the test.
func StartDex(t *testing.T, issuer, addr string) string {
	t.Helper()
	program, err := filepath.Abs(filepath.Join("..", "..", "bin", "tools", "dex"))
	require.NoError(t, err)
	if _, err := os.Stat(program); err != nil {
		t.Skip("no OAuth server: run make oauth-server")
	}
	config := map[string]any{
		"issuer": "http://" + addr + "/dex", "storage": map[string]any{"type": "memory"}, "web": map[string]any{"http": addr},
		"oauth2": map[string]any{"skipApprovalScreen": true, "grantTypes": []string{"authorization_code", "urn:ietf:params:oauth:grant-type:token-exchange"}},
		"staticClients": []map[string]any{
			{"id": "console", "secret": "s3cret", "name": "Console", "redirectURIs": []string{"http://localhost/v1/session/callback"}},
			{"id": "mind-gateway", "secret": "secret-of-the-client-at-the-server", "name": "Mind", "redirectURIs": []string{"http://127.0.0.1/"}},
			{"id": "scaidrive", "secret": "d", "name": "ScaiDrive", "redirectURIs": []string{"http://127.0.0.1/"}, "trustedPeers": []string{"mind-gateway"}},
			{"id": "scaiatlas", "secret": "a", "name": "ScaiAtlas", "redirectURIs": []string{"http://127.0.0.1/"}, "trustedPeers": []string{"mind-gateway"}},
		},
		"connectors": []map[string]any{{"type": "mockCallback", "id": "mock", "name": "mock"}, {
			"type": "oidc", "id": "sign-in", "name": "sign-in",
			"config": map[string]any{"issuer": issuer, "clientID": "mind", "clientSecret": "x", "redirectURI": "http://" + addr + "/dex/callback"},
		}},
	}
	text, err := json.Marshal(config) // which is YAML, too
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "dex.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	var said Log
	dex := exec.Command(program, "serve", file)
	dex.Stdout, dex.Stderr = &said, &said
	require.NoError(t, dex.Start())
	t.Cleanup(func() {
		_ = dex.Process.Kill()
		_ = dex.Wait()
		if t.Failed() {
			t.Logf("the OAuth server said: %s", said.String())
		}
	})
	url := "http://" + addr + "/dex"
	for giveUp := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(url + "/keys")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == 200 {
				return url
			}
			err = errors.New(resp.Status)
		}
		require.True(t, time.Now().Before(giveUp), "the OAuth server does not answer: %v: %s", err, said.String())
	}
}
