package gateway

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/oidc"
)

// patientClient waits for an issuer as long as a busy machine may need.
var patientClient = &http.Client{Timeout: time.Minute}

// issuerWith starts an issuer with one key; sign signs with it.
func issuerWith(t *testing.T) (url string, sign func(claims map[string]any) string) {
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

func TestAuthentication_issuer(t *testing.T) {
	url, sign := issuerWith(t)
	config := testConfig(newScripted(t))
	config.OIDC = &oidc.Config{Issuer: url, Audience: "mind", Client: patientClient, KeysURL: url}
	g := newGate(t, config)
	all := []any{
		auth.PermissionView, auth.PermissionManage, auth.PermissionClusterAdmin, auth.PermissionEvaluate,
		auth.CoreView, auth.CoreManage, auth.CoreDebug, auth.CoreResolve, auth.CoreDelegate, auth.CoreAdmin,
	}
	for name, tc := range map[string]struct {
		claims map[string]any
		want   []any // nil: 401
	}{
		"an administrator":                   {map[string]any{"role": "tenant_admin"}, all},
		"the platform's":                     {map[string]any{"role": "super_admin"}, all},
		"a viewer":                           {map[string]any{"role": "tenant_viewer"}, []any{auth.PermissionView, auth.CoreView}},
		"a user":                             {map[string]any{"role": "tenant_user"}, []any{}},
		"a viewer with a scope":              {map[string]any{"role": "tenant_viewer", "scope": "openid scaimind:manage scaimind:view"}, []any{auth.PermissionView, auth.CoreView, auth.PermissionManage}},
		"a scope that does not exist":        {map[string]any{"scope": "scaimind:root"}, []any{}},
		"a role that does not exist":         {map[string]any{"role": "emperor"}, []any{}},
		"a token of no tenant":               {map[string]any{"role": "tenant_admin", "tenant_id": ""}, nil},
		"a token for somebody else's ears":   {map[string]any{"role": "tenant_admin", "aud": "other"}, nil},
		"a token that was good an hour ago":  {map[string]any{"role": "tenant_admin", "exp": time.Now().Add(-time.Hour).Unix()}, nil},
		"a token that another issuer signed": {map[string]any{"role": "tenant_admin", "iss": "https://elsewhere"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := g.do("GET", "/v1/me", "", "Authorization", "Bearer "+sign(tc.claims))
			if tc.want == nil {
				require.Equal(t, 401, a.code)
				require.Equal(t, "AUTH_TOKEN_INVALID", a.Error.Code)
				return
			}
			require.Equal(t, 200, a.code, a.body)
			var me struct {
				Tenant      string `json:"tenant_id"`
				User        string `json:"user_id"`
				Permissions []any  `json:"permissions"`
			}
			require.NoError(t, json.Unmarshal(a.Data, &me))
			require.Equal(t, "acme", me.Tenant)
			require.Equal(t, "usr_1", me.User)
			require.ElementsMatch(t, tc.want, me.Permissions)
		})
	}
	require.Equal(t, 200, g.do("GET", "/v1/me", "").code, "the tokens of the configuration are good as before")
}

func TestAuthentication_issuerDown(t *testing.T) {
	_, sign := issuerWith(t)
	config := testConfig(newScripted(t))
	config.OIDC = &oidc.Config{Issuer: "http://127.0.0.1:1", Audience: "mind"}
	g := newGate(t, config)
	a := g.do("GET", "/v1/me", "", "Authorization", "Bearer "+sign(nil))
	require.Equal(t, 503, a.code)
	require.NotContains(t, a.body, "127.0.0.1")
}

func TestRateLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := testConfig(newScripted(t))
		config.Tokens = append(config.Tokens, StaticToken{Token: "bob", Tenant: "acme", User: "bob", Permissions: auth.AllPermissions})
		config.RateLimits = RateLimits{User: 5, Tenant: 7}
		g := newGate(t, config)
		admitted := 0
		for range 12 {
			a := g.do("GET", prefix+"/queue", "")
			require.Equal(t, "5", a.header.Get("X-Scaigrid-Ratelimit-Limit"))
			if a.code == 200 {
				admitted++
				continue
			}
			require.Equal(t, 429, a.code)
			require.Equal(t, "RATE_LIMITED", a.Error.Code)
			require.Equal(t, "0", a.header.Get("X-Scaigrid-Ratelimit-Remaining"))
			wait, err := strconv.Atoi(a.header.Get("Retry-After"))
			require.NoError(t, err)
			require.Positive(t, wait)
			require.Equal(t, wait, a.Error.RetryAfter)
		}
		require.Equal(t, 5, admitted)
		require.Equal(t, 200, g.do("GET", "/health", "").code, "what needs no token has no limit")
		require.Equal(t, 401, g.do("GET", "/v1/me", "", "Authorization", "Bearer nobody").code, "401 comes before 429")
	})
}

func TestModuleNotEnabled(t *testing.T) {
	config := testConfig(newScripted(t))
	config.ModuleTenants = []string{"other"}
	g := newGate(t, config)
	a := g.do("GET", prefix+"/queue", "")
	require.Equal(t, 403, a.code)
	require.Equal(t, "MODULE_NOT_ENABLED", a.Error.Code)
	require.Equal(t, 403, g.do("GET", corePaths+"/cores", "").code, "a Core would submit the jobs that the tenant may not")
	require.Equal(t, 403, g.do("POST", corePaths+"/cores/parse-bundle", "{}").code)
	require.Equal(t, 200, g.do("GET", "/v1/me", "").code)
	require.Equal(t, 401, g.do("GET", prefix+"/queue", "", "Authorization", "Bearer nobody").code)
}
