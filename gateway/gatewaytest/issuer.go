package gatewaytest

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"
)

// PatientClient waits for an issuer as long as a busy machine may need.
var PatientClient = &http.Client{Timeout: time.Minute}

// Issuer starts an OpenID Connect issuer with one key; sign signs with it.
func Issuer(t *testing.T) (url string, sign func(claims map[string]any) string) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/.well-known/openid-configuration" {
			_ = json.NewEncoder(w).Encode(map[string]any{
				"issuer": server.URL, "jwks_uri": server.URL + "/keys", "authorization_endpoint": server.URL + "/auth", "token_endpoint": server.URL + "/token",
				"id_token_signing_alg_values_supported": []string{"RS256"},
			})
			return
		}
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "RS256", Use: "sig"}}})
	}))
	t.Cleanup(server.Close)
	return server.URL, func(claims map[string]any) string {
		all := map[string]any{"iss": server.URL, "aud": "mind", "sub": "usr_1", "tenant_id": "acme", "exp": time.Now().Add(time.Hour).Unix()}
		for k, v := range claims {
			all[k] = v
		}
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
		require.NoError(t, err)
		token, err := jwt.Signed(signer).Claims(all).Serialize()
		require.NoError(t, err)
		return token
	}
}
