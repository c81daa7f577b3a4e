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
