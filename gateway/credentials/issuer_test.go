package credentials_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/oidc"
)

func TestAuthentication_issuer(t *testing.T) {
	url, sign := gatewaytest.Issuer(t)
	config := gatewaytest.Config(gatewaytest.NewCoordinator(t))
	config.OIDC = &oidc.Config{Issuer: url, Audience: "mind", Client: gatewaytest.PatientClient, KeysURL: url}
	g := gatewaytest.NewGate(t, config)
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
			a := g.Do("GET", "/v1/me", "", "Authorization", "Bearer "+sign(tc.claims))
			if tc.want == nil {
				require.Equal(t, 401, a.Code)
				require.Equal(t, "AUTH_TOKEN_INVALID", a.Error.Code)
				return
			}
			require.Equal(t, 200, a.Code, a.Body)
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
	require.Equal(t, 200, g.Do("GET", "/v1/me", "").Code, "the tokens of the configuration are good as before")
}

func TestAuthentication_issuerDown(t *testing.T) {
	_, sign := gatewaytest.Issuer(t)
	config := gatewaytest.Config(gatewaytest.NewCoordinator(t))
	config.OIDC = &oidc.Config{Issuer: "http://127.0.0.1:1", Audience: "mind"}
	g := gatewaytest.NewGate(t, config)
	a := g.Do("GET", "/v1/me", "", "Authorization", "Bearer "+sign(nil))
	require.Equal(t, 503, a.Code)
	require.NotContains(t, a.Body, "127.0.0.1")
}
