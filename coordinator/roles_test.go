package coordinator

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/methods"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/pki"
)

// All served calls are declared in the protos, and all calls that are declared for coordinators are served.
func TestCallers_whatIsServedIsDeclared(t *testing.T) {
	ofAgents := []string{v1.TaskService_ServiceDesc.ServiceName, v1.PeerService_ServiceDesc.ServiceName}
	var declared []string
	for m := range methods.All() {
		require.NotEmpty(t, m.Callers, m.Name)
		if service, _, _ := strings.Cut(strings.TrimPrefix(m.Name, "/"), "/"); !slices.Contains(ofAgents, service) {
			declared = append(declared, m.Name)
		}
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(servedCalls())), declared)
}

// The actions of the audit log are those that the protos declare, and each action but one comes from a call.
func TestCallers_auditActions(t *testing.T) {
	called := map[string]bool{"cluster.recover": true} // an offline command on a stopped cluster
	for m := range methods.All() {
		if m.Audit != "" {
			called[m.Audit] = true
		}
	}
	require.ElementsMatch(t, access.AuditActions(), slices.Collect(maps.Keys(called)))
}

// secured returns a coordinator that requires certificates, and a function that dials it with a given identity.
func secured(t *testing.T) (c *cluster, dial func(id, role string) *grpc.ClientConn) {
	dir := t.TempDir()
	ca, err := pki.CreateCA(dir)
	require.NoError(t, err)
	c = newCluster(t)
	c.place(1, func(config *Config) {
		files, err := ca.Issue(dir, config.ID, pki.RoleCoordinator, c.members[config.ID].ip)
		require.NoError(t, err)
		config.CertFile, config.KeyFile, config.CAFile = files.Cert, files.Key, files.CA
	})
	dial = func(id, role string) *grpc.ClientConn {
		files, err := ca.Issue(t.TempDir(), id, role)
		require.NoError(t, err)
		config, err := files.ClientTLS()
		require.NoError(t, err)
		return c.dial(c.members["c1"].config.GRPCAddr, credentials.NewTLS(config))
	}
	c.members["c1"].conn = dial("c1", pki.RoleCoordinator)
	c.start("c1")
	c.leader()
	return c, dial
}

// neverFor reports whether a call must be refused to a role, whatever the protos declare.
func neverFor(full, role string) bool {
	switch role {
	case pki.RoleGateway:
		return strings.HasPrefix(full, call.OperatorService) || strings.HasPrefix(full, call.AgentService)
	case pki.RoleAgent:
		// An agent also reports calls of its jobs that it denied.
		return !strings.HasPrefix(full, call.AgentService) && full != v1.AuditService_RecordDenials_FullMethodName
	case pki.RoleOperator, pki.RoleCoordinator:
		return strings.HasPrefix(full, call.AgentService)
	}
	return true
}

// An agent reports its denials with its certificate alone. All other roles need the secret.
func TestCallers_agentsReportDenialsWithoutASecret(t *testing.T) {
	s := &server{tls: true, config: Config{APISecret: "secret"}}
	const report = v1.AuditService_RecordDenials_FullMethodName
	require.NoError(t, s.identify(&call.Call{Peer: pki.Identity{ID: "n1", Role: pki.RoleAgent}}, report))
	require.Error(t, s.identify(&call.Call{Peer: pki.Identity{ID: "g", Role: pki.RoleGateway}}, report))
	require.Error(t, s.identify(&call.Call{Peer: pki.Identity{ID: "n1", Role: pki.RoleAgent}}, v1.JobService_SubmitJob_FullMethodName))
}

// Every call of every service, with the certificate of every role and the right secret.
func TestCallers_everyRoleMakesEveryCall(t *testing.T) {
	s := &server{tls: true, config: Config{APISecret: "secret"}}
	for _, role := range []string{pki.RoleAgent, pki.RoleGateway, pki.RoleOperator, pki.RoleCoordinator, "intruder", ""} {
		for full := range servedCalls() {
			err := s.identify(&call.Call{Peer: pki.Identity{ID: "x", Role: role}, Secret: "secret"}, full)
			require.Equal(t, !slices.Contains(methods.Of(full).Callers, role), grpcstatus.Code(err) == codes.PermissionDenied, "%s as %s: %v", full, role, err)
			require.False(t, neverFor(full, role) && err == nil, "%s as %s", full, role)
		}
		require.Error(t, s.identify(&call.Call{Peer: pki.Identity{ID: "x", Role: role}, Secret: "secret"}, "/scaimind.v1.JobService/NewAndForgotten"))
	}
}

// The same over real connections, for the refused calls.
func TestCallers_whoIsRefusedHearsWhy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c, dial := secured(t)
		for _, role := range []string{pki.RoleAgent, pki.RoleGateway, pki.RoleOperator, pki.RoleCoordinator} {
			c.members["as"] = &member{conn: dial("c1", role)}
			for full, stream := range servedCalls() {
				if slices.Contains(methods.Of(full).Callers, role) {
					continue
				}
				_, err := c.bare("as", full, stream, status.KeySecret, "secret", status.KeyTenant, "t1", status.KeyUser, "u")
				requireCode(t, codes.PermissionDenied, err)
				require.ErrorContains(t, err, "which may not call "+call.Method(full))
			}
		}
	})
}
