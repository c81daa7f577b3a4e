package gateway_test

import (
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

func TestRateLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := gatewaytest.Config(gatewaytest.NewCoordinator(t))
		config.Tokens = append(config.Tokens, gateway.StaticToken{Token: "bob", Tenant: "acme", User: "bob", Permissions: auth.AllPermissions})
		config.RateLimits = gateway.RateLimits{User: 5, Tenant: 7}
		g := gatewaytest.NewGate(t, config)
		admitted := 0
		for range 12 {
			a := g.Do("GET", rest.Prefix+"/queue", "")
			require.Equal(t, "5", a.Header.Get("X-Scaigrid-Ratelimit-Limit"))
			if a.Code == 200 {
				admitted++
				continue
			}
			require.Equal(t, 429, a.Code)
			require.Equal(t, "RATE_LIMITED", a.Error.Code)
			require.Equal(t, "0", a.Header.Get("X-Scaigrid-Ratelimit-Remaining"))
			wait, err := strconv.Atoi(a.Header.Get("Retry-After"))
			require.NoError(t, err)
			require.Positive(t, wait)
			require.Equal(t, wait, a.Error.RetryAfter)
		}
		require.Equal(t, 5, admitted)
		require.Equal(t, 200, g.Do("GET", "/health", "").Code, "what needs no token has no limit")
		require.Equal(t, 401, g.Do("GET", "/v1/me", "", "Authorization", "Bearer nobody").Code, "401 comes before 429")
	})
}

func TestModuleNotEnabled(t *testing.T) {
	config := gatewaytest.Config(gatewaytest.NewCoordinator(t))
	config.ModuleTenants = []string{"other"}
	g := gatewaytest.NewGate(t, config)
	a := g.Do("GET", rest.Prefix+"/queue", "")
	require.Equal(t, 403, a.Code)
	require.Equal(t, "MODULE_NOT_ENABLED", a.Error.Code)
	require.Equal(t, 403, g.Do("GET", rest.Modules+"scaicore/cores", "").Code, "a Core would submit the jobs that the tenant may not")
	require.Equal(t, 403, g.Do("POST", rest.Modules+"scaicore/cores/parse-bundle", "{}").Code)
	require.Equal(t, 200, g.Do("GET", "/v1/me", "").Code)
	require.Equal(t, 401, g.Do("GET", rest.Prefix+"/queue", "", "Authorization", "Bearer nobody").Code)
}
