package gateway

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
	"github.com/mindcoordinator/mind/gateway/auth"
)

func tokensConfig(c *scripted) Config {
	config := testConfig(c)
	config.Tokens = append(config.Tokens,
		StaticToken{Token: "operator", Tenant: "acme", User: "olga", Permissions: append([]string{auth.PermissionOperator}, auth.AllPermissions...)},
		StaticToken{Token: "admin", Tenant: "acme", User: "adam", Permissions: []string{auth.PermissionClusterAdmin, auth.PermissionView}})
	return config
}

func TestTokens_made(t *testing.T) {
	c := newScripted(t)
	g := newGate(t, tokensConfig(c))
	for _, zero := range []string{"0", "0.0"} {
		forEver := g.do("POST", prefix+"/tokens", `{"permissions":["scaimind:view"],"expires_in_seconds":`+zero+`}`, "Authorization", "Bearer operator")
		require.Equal(t, 422, forEver.code, forEver.body)
		require.Contains(t, forEver.body, "must be 1 or more")
	}
	a := g.do("POST", prefix+"/tokens", `{"name":"ci","tenant_id":"other","user_id":"ann","permissions":["scaimind:view"],"expires_in_seconds":60}`, "Authorization", "Bearer operator")
	require.Equal(t, 201, a.code, a.body)
	var made struct {
		Token string `json:"token"`
		ID    string `json:"token_id"`
	}
	require.NoError(t, json.Unmarshal(a.Data, &made))
	require.True(t, strings.HasPrefix(made.Token, "sgk_"))
	require.GreaterOrEqual(t, len(made.Token), 36)
	require.Equal(t, "tok_1", made.ID)
	calls := c.seen()
	require.Len(t, calls, 1)
	request := calls[0].request.(*v1.CreateTokenRequest)
	digest := sha256.Sum256([]byte(made.Token))
	require.Equal(t, digest[:], request.GetDigest(), "only the digest goes further")
	require.Equal(t, []string{"other"}, calls[0].md[status.KeyTenant])
	require.NotContains(t, request.String(), made.Token)
	again := g.do("POST", prefix+"/tokens", `{"permissions":["scaimind:view"]}`, "Authorization", "Bearer operator")
	require.NotContains(t, again.body, made.Token, "no two are the same")
}

func TestTokens_callersCannotGrantMoreThanTheyHave(t *testing.T) {
	c := newScripted(t)
	g := newGate(t, tokensConfig(c))
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
		"without the permission to create": {tokenViewer, `{"permissions":["scaimind:view"]}`, 403},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(c.seen())
			a := g.do("POST", prefix+"/tokens", tc.body, "Authorization", "Bearer "+tc.token)
			require.Equal(t, tc.code, a.code, a.body)
			require.Equal(t, tc.code == 201, len(c.seen()) > before)
		})
	}
	a := g.do("POST", prefix+"/tokens", `{"permissions":["scaimind:root","scaimind:view","fly"],"tenant_id":"ключ","user_id":"a\nb"}`, "Authorization", "Bearer operator")
	var fields []string
	for _, fault := range a.Error.Details {
		fields = append(fields, fault.Field)
	}
	require.Equal(t, []string{"tenant_id", "user_id", "permissions[0]", "permissions[2]"}, fields)
	for _, path := range []string{"/tokens", "/tokens/tok_1"} {
		method := map[bool]string{true: "GET", false: "DELETE"}[path == "/tokens"]
		require.Equal(t, 403, g.do(method, prefix+path, "", "Authorization", "Bearer "+tokenViewer).code)
		require.Equal(t, 403, g.do(method, prefix+path+"?tenant_id=other", "", "Authorization", "Bearer admin").code)
		require.Equal(t, 200, g.do(method, prefix+path+"?tenant_id=other", "", "Authorization", "Bearer operator").code)
		require.Equal(t, 422, g.do(method, prefix+path+"?tenant_id=%D0%BA", "", "Authorization", "Bearer operator").code)
		require.Equal(t, 422, g.do(method, prefix+path+"?tenant_id=%ff", "", "Authorization", "Bearer operator").code)
		calls := c.seen()
		require.Equal(t, []string{"other"}, calls[len(calls)-1].md[status.KeyTenant])
		require.Equal(t, 200, g.do(method, prefix+path, "", "Authorization", "Bearer admin").code)
	}
}

func TestTokens_used(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScripted(t)
		good, expiring := auth.MintToken(), auth.MintToken()
		down := false
		c.unary["VerifyToken"] = func(_ context.Context, request any) (any, error) {
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
		}
		g := newGate(t, tokensConfig(c))
		verified := func() int {
			n := 0
			for _, call := range c.seen() {
				if call.method == "VerifyToken" {
					n++
				}
			}
			return n
		}
		for range 5 {
			require.Equal(t, 200, g.do("GET", prefix+"/queue", "", "Authorization", "Bearer "+good).code)
		}
		require.Equal(t, 1, verified(), "an answer is believed for a while")
		require.Equal(t, 403, g.do("POST", prefix+"/jobs", `{"name":"x"}`, "Authorization", "Bearer "+good).code)
		require.Equal(t, 401, g.do("GET", prefix+"/queue", "", "Authorization", "Bearer "+auth.MintToken()).code)
		for range 2 {
			before := verified()
			require.Equal(t, 200, g.do("GET", prefix+"/queue", "", "Authorization", "Bearer "+expiring).code, "the coordinator says when one has expired")
			require.Equal(t, before+1, verified(), "what has expired is not believed on")
		}
		require.Equal(t, 200, g.do("DELETE", prefix+"/tokens/tok_1", "", "Authorization", "Bearer admin").code)
		before := verified()
		require.Equal(t, 200, g.do("GET", prefix+"/queue", "", "Authorization", "Bearer "+good).code)
		require.Equal(t, before+1, verified(), "after a revocation all tokens are looked up again")
		down = true
		a := g.do("GET", prefix+"/queue", "", "Authorization", "Bearer "+auth.MintToken())
		require.Equal(t, 503, a.code)
		require.NotContains(t, a.body, "disk")
		require.Equal(t, 200, g.do("GET", prefix+"/queue", "", "Authorization", "Bearer "+good).code, "who is known goes on meanwhile")
	})
}
