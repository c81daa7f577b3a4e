package stream

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// A token that loses the permission of a topic ends the streams that have it, also if it keeps the one of the route.
func TestEvents_endWithThePermissionOfTheirTopics(t *testing.T) {
	caller := &auth.Caller{Tenant: "acme", User: "ann", Permissions: []string{auth.PermissionView, auth.CoreView}}
	x := &rest.Request{Server: &rest.Server{}, Route: &rest.Route{AnyOf: []string{auth.PermissionView, auth.CoreView}}, Caller: caller}
	x.R = httptest.NewRequest("GET", rest.Prefix+"/events", nil)
	now := *caller
	x.Recheck = func(context.Context) (*auth.Caller, error) { return &now, nil }
	_, err := topics(x, []string{"execution"})
	require.NoError(t, err)
	r := &reader{x: x}
	require.NoError(t, r.MayGoOn(t.Context()))
	now.Permissions = []string{auth.CoreView}
	require.NoError(t, r.MayGoOn(t.Context()), "the stream has no topic of ScaiMind")
	now.Permissions = []string{auth.PermissionView}
	require.ErrorContains(t, r.MayGoOn(t.Context()), "the token lost the permission to read this")
}
