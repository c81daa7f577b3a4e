package auth

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/gateway/oidc"
)

func TestIssuer_groupsAndRolesOfACaller(t *testing.T) {
	require.Equal(t, []string{"role:tenant_user", "role:lead", "group:g1"},
		member(&oidc.Claims{Role: "tenant_user", Roles: []string{"lead", ""}, Groups: []string{"g1", "a\nb", strings.Repeat("x", maxIdentifier+1)}}))
	require.Empty(t, member(&oidc.Claims{}))
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprint("g", i))
	}
	require.Len(t, member(&oidc.Claims{Groups: many}), maxMember)
}

// A caller without a subject would have no name in the audit log, and one without a tenant could see nothing.
func TestCallerOf_hasATenantAndAUser(t *testing.T) {
	c, err := CallerOf(&oidc.Claims{Tenant: "tnt_a", Subject: "usr_1"})
	require.NoError(t, err)
	require.Equal(t, "usr_1", c.User)
	for _, claims := range []oidc.Claims{{Tenant: "tnt_a"}, {Subject: "usr_1"}, {Tenant: "tnt_a", Subject: "a\nb"}} {
		_, err := CallerOf(&claims)
		require.ErrorIs(t, err, ErrInvalidToken)
	}
}
