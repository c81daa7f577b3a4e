package gateway_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
)

type memberOf []string

func (m memberOf) Authenticate(context.Context, string) (*auth.Caller, error) {
	return &auth.Caller{Tenant: "acme", User: "ann", Permissions: auth.AllPermissions, Member: m}, nil
}

// The coordinators learn of the groups and roles of a caller with each write.
func TestWrites_tellTheGroupsAndRolesOfTheCaller(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	config := gatewaytest.Config(c)
	config.Tokens, config.Authenticator = nil, memberOf{"role:lead", "group:g1"}
	g := gatewaytest.NewGate(t, config)
	a := g.Do("POST", "/v1/modules/scaicore/checkpoints/dec_1/resolve", `{"resolution": "yes"}`)
	require.Equal(t, 200, a.Code, a.Body)
	require.Equal(t, []string{"role:lead", "group:g1"}, c.Calls()[0].MD[status.KeyMember])
}
