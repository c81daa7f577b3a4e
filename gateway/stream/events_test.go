package stream_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// Events of Cores take the permission of ScaiCore, the others that of ScaiMind. A caller who asks for no topic gets those that it may see.
func TestEvents_topicsTakeThePermissionOfTheirModule(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	var asked []string
	c.Watch = func(r *v1.WatchEventsRequest, s grpc.ServerStreamingServer[v1.WatchEventsResponse]) error {
		asked = r.GetTopics()
		return s.Send(&v1.WatchEventsResponse{Cursor: "1.0", Events: []*v1.Event{{Index: 1, Cursor: "1.0", Topic: "node", Name: "x"}}})
	}
	config := gatewaytest.Config(c)
	for token, permissions := range map[string][]string{"mind": {auth.PermissionView}, "core": {auth.CoreView}, "both": {auth.PermissionView, auth.CoreAdmin}} {
		config.Tokens = append(config.Tokens, gateway.StaticToken{Token: token, Tenant: "acme", User: "ann", Permissions: permissions})
	}
	g := gatewaytest.NewGate(t, config)
	for _, one := range []struct {
		token, query string
		want         []string
		refused      string
	}{
		{"mind", "", status.MindTopics, ""},
		{"core", "", status.CoreTopics, ""},
		{"both", "", nil, ""},
		{"mind", "?topic=job&topic=node", []string{"job", "node"}, ""},
		{"core", "?topic=execution", []string{"execution"}, ""},
		{"both", "?topic=execution&topic=job", []string{"execution", "job"}, ""},
		{"mind", "?topic=job&topic=decision", nil, "events about core, execution, decision need the permission scaicore:view or scaicore:admin"},
		{"core", "?topic=job", nil, "need the permission scaimind:view"},
	} {
		a := g.Do("GET", rest.Prefix+"/events"+one.query, "", "Authorization", "Bearer "+one.token)
		if one.refused != "" {
			require.Equal(t, 403, a.Code)
			require.Equal(t, "AUTHZ_PERMISSION_DENIED", a.Error.Code)
			require.Contains(t, a.Error.Message, one.refused)
			continue
		}
		require.Equal(t, 200, a.Code, a.Body)
		require.ElementsMatch(t, one.want, asked, "%s %s", one.token, one.query)
	}
}
