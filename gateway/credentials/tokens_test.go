package credentials_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

func tokensConfig(c *gatewaytest.Coordinator) gateway.Config {
	config := gatewaytest.Config(c)
	config.Tokens = append(config.Tokens,
		gateway.StaticToken{Token: "operator", Tenant: "acme", User: "olga", Permissions: append([]string{auth.PermissionOperator}, auth.AllPermissions...)},
		gateway.StaticToken{Token: "admin", Tenant: "acme", User: "adam", Permissions: []string{auth.PermissionClusterAdmin, auth.PermissionView}})
	return config
}

func TestTokens_made(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	g := gatewaytest.NewGate(t, tokensConfig(c))
	for _, zero := range []string{"0", "0.0"} {
		forEver := g.Do("POST", rest.Prefix+"/tokens", `{"permissions":["scaimind:view"],"expires_in_seconds":`+zero+`}`, "Authorization", "Bearer operator")
		require.Equal(t, 422, forEver.Code, forEver.Body)
		require.Contains(t, forEver.Body, "must be 1 or more")
	}
	a := g.Do("POST", rest.Prefix+"/tokens", `{"name":"ci","tenant_id":"other","user_id":"ann","permissions":["scaimind:view"],"expires_in_seconds":60}`, "Authorization", "Bearer operator")
	require.Equal(t, 201, a.Code, a.Body)
	var made struct {
		Token string `json:"token"`
		ID    string `json:"token_id"`
	}
	require.NoError(t, json.Unmarshal(a.Data, &made))
	require.True(t, strings.HasPrefix(made.Token, "sgk_"))
	require.GreaterOrEqual(t, len(made.Token), 36)
	require.Equal(t, "tok_1", made.ID)
	calls := c.Calls()
	require.Len(t, calls, 1)
	request := calls[0].Request.(*v1.CreateTokenRequest)
	digest := sha256.Sum256([]byte(made.Token))
	require.Equal(t, digest[:], request.GetDigest(), "only the digest goes further")
	require.Equal(t, []string{"other"}, calls[0].MD[status.KeyTenant])
	require.NotContains(t, request.String(), made.Token)
	again := g.Do("POST", rest.Prefix+"/tokens", `{"permissions":["scaimind:view"]}`, "Authorization", "Bearer operator")
	require.NotContains(t, again.Body, made.Token, "no two are the same")
}

func TestTokens_callersCannotGrantMoreThanTheyHave(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	g := gatewaytest.NewGate(t, tokensConfig(c))
	for name, tc := range map[string]struct {
		token, body string
		code        int
	}{
		"what one has":                     {"admin", `{"permissions":["scaimind:view"]}`, 201},
		"one's own tenant, named":          {"admin", `{"permissions":["scaimind:view"],"tenant_id":"acme"}`, 201},
		"a permission that one lacks":      {"admin", `{"permissions":["scaimind:manage"]}`, 403},
		"a tenant that cannot be named":    {"operator", `{"permissions":["scaimind:view"],"tenant_id":"ключ"}`, 422},
		"a user that cannot be named":      {"operator", `{"permissions":["scaimind:view"],"user_id":"a\nb"}`, 422},
		"another tenant":                   {"admin", `{"permissions":["scaimind:view"],"tenant_id":"other"}`, 403},
		"the operator's, by an admin":      {"admin", `{"permissions":["mind:operator"]}`, 403},
		"the operator's, by an operator":   {"operator", `{"permissions":["mind:operator"]}`, 201},
		"nobody's permission":              {"operator", `{"permissions":["scaimind:root"]}`, 422},
		"none":                             {"operator", `{"permissions":[]}`, 422},
		"a digest of one's own":            {"operator", `{"permissions":["scaimind:view"],"digest":"eA=="}`, 422},
		"without the permission to create": {gatewaytest.TokenViewer, `{"permissions":["scaimind:view"]}`, 403},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(c.Calls())
			a := g.Do("POST", rest.Prefix+"/tokens", tc.body, "Authorization", "Bearer "+tc.token)
			require.Equal(t, tc.code, a.Code, a.Body)
			require.Equal(t, tc.code == 201, len(c.Calls()) > before)
		})
	}
	a := g.Do("POST", rest.Prefix+"/tokens", `{"permissions":["scaimind:root","scaimind:view","fly"],"tenant_id":"ключ","user_id":"a\nb"}`, "Authorization", "Bearer operator")
	var fields []string
	for _, fault := range a.Error.Details {
		fields = append(fields, fault.Field)
	}
	require.Equal(t, []string{"tenant_id", "user_id", "permissions[0]", "permissions[2]"}, fields)
	for _, path := range []string{"/tokens", "/tokens/tok_1"} {
		method := map[bool]string{true: "GET", false: "DELETE"}[path == "/tokens"]
		require.Equal(t, 403, g.Do(method, rest.Prefix+path, "", "Authorization", "Bearer "+gatewaytest.TokenViewer).Code)
		require.Equal(t, 403, g.Do(method, rest.Prefix+path+"?tenant_id=other", "", "Authorization", "Bearer admin").Code)
		require.Equal(t, 200, g.Do(method, rest.Prefix+path+"?tenant_id=other", "", "Authorization", "Bearer operator").Code)
		require.Equal(t, 422, g.Do(method, rest.Prefix+path+"?tenant_id=%D0%BA", "", "Authorization", "Bearer operator").Code)
		require.Equal(t, 422, g.Do(method, rest.Prefix+path+"?tenant_id=%ff", "", "Authorization", "Bearer operator").Code)
		calls := c.Calls()
		require.Equal(t, []string{"other"}, calls[len(calls)-1].MD[status.KeyTenant])
		require.Equal(t, 200, g.Do(method, rest.Prefix+path, "", "Authorization", "Bearer admin").Code)
	}
}

func TestTokens_used(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		good, expiring := auth.MintToken(), auth.MintToken()
		down := false
		c.On("VerifyToken", func(_ context.Context, request any) (any, error) {
			digest := string(request.(*v1.VerifyTokenRequest).GetDigest())
			answer := &v1.Token{TenantId: "acme", UserId: "ann", Permissions: []string{auth.PermissionView}}
			switch sum, other := sha256.Sum256([]byte(good)), sha256.Sum256([]byte(expiring)); {
			case down:
				return nil, grpcstatus.Error(codes.Internal, "disk on fire at /var/lib")
			case digest == string(sum[:]):
			case digest == string(other[:]):
				answer.ExpiresAt = timestamppb.New(time.Now().Add(-time.Second))
			default:
				return nil, grpcstatus.Error(codes.NotFound, "unknown")
			}
			return &v1.VerifyTokenResponse{Token: answer}, nil
		})
		g := gatewaytest.NewGate(t, tokensConfig(c))
		verified := func() int {
			n := 0
			for _, call := range c.Calls() {
				if call.Method == "VerifyToken" {
					n++
				}
			}
			return n
		}
		for range 5 {
			require.Equal(t, 200, g.Do("GET", rest.Prefix+"/queue", "", "Authorization", "Bearer "+good).Code)
		}
		require.Equal(t, 1, verified(), "an answer is believed for a while")
		require.Equal(t, 403, g.Do("POST", rest.Prefix+"/jobs", `{"name":"x"}`, "Authorization", "Bearer "+good).Code)
		require.Equal(t, 401, g.Do("GET", rest.Prefix+"/queue", "", "Authorization", "Bearer "+auth.MintToken()).Code)
		for range 2 {
			before := verified()
			require.Equal(t, 200, g.Do("GET", rest.Prefix+"/queue", "", "Authorization", "Bearer "+expiring).Code, "the coordinator says when one has expired")
			require.Equal(t, before+1, verified(), "what has expired is not believed on")
		}
		require.Equal(t, 200, g.Do("DELETE", rest.Prefix+"/tokens/tok_1", "", "Authorization", "Bearer admin").Code)
		before := verified()
		require.Equal(t, 200, g.Do("GET", rest.Prefix+"/queue", "", "Authorization", "Bearer "+good).Code)
		require.Equal(t, before+1, verified(), "after a revocation all tokens are looked up again")
		down = true
		a := g.Do("GET", rest.Prefix+"/queue", "", "Authorization", "Bearer "+auth.MintToken())
		require.Equal(t, 503, a.Code)
		require.NotContains(t, a.Body, "disk")
		require.Equal(t, 200, g.Do("GET", rest.Prefix+"/queue", "", "Authorization", "Bearer "+good).Code, "who is known goes on meanwhile")
	})
}
