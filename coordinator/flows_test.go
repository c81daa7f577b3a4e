package coordinator

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
)

func (c *cluster) flows(id string) v1.FlowServiceClient {
	return v1.NewFlowServiceClient(c.members[id].conn)
}

// as makes the context of a call of a user of tenant t1, with more metadata as pairs.
func (c *cluster) as(user string, more ...string) context.Context {
	return c.ctx("t1", "", append([]string{status.KeyUser, user}, more...)...)
}

// flow makes a flow of ann.
func (c *cluster) flow(at, content string) *v1.FlowDetail {
	made, err := c.flows(at).CreateFlow(c.as("ann"), &v1.CreateFlowRequest{Name: "triage", Content: content})
	require.NoError(c.t, err)
	return made.GetFlow()
}

func TestFlows_areSavedOverWhatTheyWereMadeFrom(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		at := c.follower()
		f := c.flow(at, `{"version":"1.0.0","n":1}`)
		require.Equal(t, []string{"1.0.0", "ann", "t1", "admin"}, []string{f.GetVersion(), f.GetOwnerId(), f.GetTenantId(), f.GetLevel()})
		require.JSONEq(t, fmt.Sprintf(`{"id":%q,"version":"1.0.0","n":1}`, f.GetId()), f.GetContent())
		save := func(at, basedOn, content string) *v1.UpdateFlowResponse {
			r, err := c.flows(at).UpdateFlow(c.as("ann"), &v1.UpdateFlowRequest{FlowId: f.GetId(), BasedOn: basedOn, Content: content})
			require.NoError(t, err)
			return r
		}
		require.Equal(t, "1.0.1", save(at, "1.0.0", `{"n":2}`).GetFlow().GetVersion())
		c.kill(c.leader())
		at = c.leader()
		require.Equal(t, "1.0.1", save(at, "1.0.0", `{"n":2}`).GetFlow().GetVersion(), "a save that is repeated after its leader died")
		fault := save(at, "1.0.0", `{"n":3}`).GetFault()
		require.Equal(t, []any{"version_conflict", "1.0.1", int32(409)}, []any{fault.GetError(), fault.GetCurrentVersion(), fault.GetHttp()})
		require.Equal(t, `the flow "triage" is at version 1.0.1, and this is based on "1.0.0": read it again, and make the change from what it is now`, fault.GetMessage())
		fault = save(at, "", `{"n":2}`).GetFault()
		require.Contains(t, fault.GetMessage(), "needs the header If-Match")
		require.Equal(t, "1.0.1", fault.GetCurrentVersion())

		renamed, err := c.flows(at).UpdateFlow(c.as("ann"), &v1.UpdateFlowRequest{FlowId: f.GetId(), Name: proto.String("sorting")})
		require.NoError(t, err)
		require.Equal(t, []string{"sorting", "1.0.1"}, []string{renamed.GetFlow().GetName(), renamed.GetFlow().GetVersion()})
		versions, err := c.flows(at).ListFlowVersions(c.as("ann"), &v1.ListFlowVersionsRequest{FlowId: f.GetId()})
		require.NoError(t, err)
		require.EqualValues(t, 2, versions.GetTotal())
		require.Equal(t, []string{"1.0.1", "1.0.0"}, []string{versions.GetItems()[0].GetVersion(), versions.GetItems()[1].GetVersion()})
		first, err := c.flows(at).GetFlowVersion(c.as("ann"), &v1.GetFlowVersionRequest{FlowId: f.GetId(), Version: "1.0.0"})
		require.NoError(t, err)
		require.JSONEq(t, f.GetContent(), first.GetVersion().GetContent(), "the first content is kept")
		_, err = c.flows(at).GetFlowVersion(c.as("ann"), &v1.GetFlowVersionRequest{FlowId: f.GetId(), Version: "9.9.9"})
		require.Equal(t, codes.NotFound, grpcstatus.Code(err))
		old, err := c.flows(at).GetFlow(c.as("ann"), &v1.GetFlowRequest{FlowId: f.GetId(), Version: "1.0.0"})
		require.NoError(t, err)
		require.Equal(t, "1.0.0", old.GetFlow().GetVersion())
	})
}

// Each call with each right, of a user and of a group, and of another tenant.
func TestFlows_eachCallTakesItsRight(t *testing.T) {
	rights := []string{"", "view", "edit", "deploy", "admin"}
	type try struct {
		need string
		do   func(ctx context.Context, s v1.FlowServiceClient, id string) error
	}
	calls := map[string]try{
		"get": {"view", func(ctx context.Context, s v1.FlowServiceClient, id string) error {
			_, err := s.GetFlow(ctx, &v1.GetFlowRequest{FlowId: id})
			return err
		}},
		"get to deploy": {"deploy", func(ctx context.Context, s v1.FlowServiceClient, id string) error {
			_, err := s.GetFlow(ctx, &v1.GetFlowRequest{FlowId: id, Level: "deploy"})
			return err
		}},
		"versions": {"view", func(ctx context.Context, s v1.FlowServiceClient, id string) error {
			_, err := s.ListFlowVersions(ctx, &v1.ListFlowVersionsRequest{FlowId: id})
			return err
		}},
		"version": {"view", func(ctx context.Context, s v1.FlowServiceClient, id string) error {
			_, err := s.GetFlowVersion(ctx, &v1.GetFlowVersionRequest{FlowId: id, Version: "0.1.0"})
			return err
		}},
		"deployments": {"view", func(ctx context.Context, s v1.FlowServiceClient, id string) error {
			_, err := s.ListFlowDeployments(ctx, &v1.ListFlowDeploymentsRequest{FlowId: id})
			return err
		}},
		"rename": {"edit", func(ctx context.Context, s v1.FlowServiceClient, id string) error {
			_, err := s.UpdateFlow(ctx, &v1.UpdateFlowRequest{FlowId: id, Description: proto.String("x")})
			return err
		}},
		"save": {"edit", func(ctx context.Context, s v1.FlowServiceClient, id string) error {
			_, err := s.UpdateFlow(ctx, &v1.UpdateFlowRequest{FlowId: id, Content: `{"n":2}`, BasedOn: "0.1.0"})
			return err
		}},
		"deploy": {"deploy", func(ctx context.Context, s v1.FlowServiceClient, id string) error {
			_, err := s.DeployFlow(ctx, &v1.DeployFlowRequest{FlowId: id})
			return err
		}},
		"list rights": {"admin", func(ctx context.Context, s v1.FlowServiceClient, id string) error {
			_, err := s.ListFlowAcls(ctx, &v1.ListFlowAclsRequest{FlowId: id})
			return err
		}},
		"grant": {"admin", func(ctx context.Context, s v1.FlowServiceClient, id string) error {
			_, err := s.CreateFlowAcl(ctx, &v1.CreateFlowAclRequest{FlowId: id, PrincipalType: "user", PrincipalId: "eve", Level: "view"})
			return err
		}},
		"change right": {"admin", func(ctx context.Context, s v1.FlowServiceClient, id string) error {
			made, err := s.CreateFlowAcl(ctx, &v1.CreateFlowAclRequest{FlowId: id, PrincipalType: "user", PrincipalId: "cid", Level: "view"})
			if err != nil {
				return err
			}
			changed, err := s.UpdateFlowAcl(ctx, &v1.UpdateFlowAclRequest{FlowId: id, AclId: made.GetAcl().GetId(), Level: "edit"})
			if err == nil && changed.GetAcl().GetLevel() != "edit" {
				return fmt.Errorf("it is %s", changed.GetAcl().GetLevel())
			}
			return err
		}},
		"delete": {"admin", func(ctx context.Context, s v1.FlowServiceClient, id string) error {
			_, err := s.DeleteFlow(ctx, &v1.DeleteFlowRequest{FlowId: id})
			return err
		}},
	}
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		rank := func(right string) (n int) {
			for i, r := range rights {
				if r == right {
					n = i
				}
			}
			return n
		}
		for _, has := range rights {
			for _, kind := range []string{"user", "group"} {
				for what, call := range calls {
					f := c.flow(at, `{"n":1}`)
					bob := c.as("bob", status.KeyMember, "role:lead", status.KeyMember, "group:ml")
					if has != "" {
						who := map[string]string{"user": "bob", "group": "ml"}[kind]
						_, err := c.flows(at).CreateFlowAcl(c.as("ann"), &v1.CreateFlowAclRequest{FlowId: f.GetId(), PrincipalType: kind, PrincipalId: who, Level: has})
						require.NoError(t, err)
					}
					err := call.do(bob, c.flows(at), f.GetId())
					switch {
					case has == "":
						require.Equal(t, codes.NotFound, grpcstatus.Code(err), what)
						require.ErrorContains(t, err, fmt.Sprintf("there is no flow %q", f.GetId()))
					case rank(has) < rank(call.need):
						require.Equal(t, codes.PermissionDenied, grpcstatus.Code(err), "%s with %s", what, has)
						require.ErrorContains(t, err, fmt.Sprintf("it takes the right %q", call.need))
					default:
						require.NoError(t, err, "%s with %s of a %s", what, has, kind)
					}
				}
			}
		}
		for what, call := range calls {
			f := c.flow(at, `{"n":1}`)
			foreign := c.ctx("t2", "", status.KeyUser, "ann", status.KeyOperator, "1")
			require.Equal(t, codes.NotFound, grpcstatus.Code(call.do(foreign, c.flows(at), f.GetId())), "%s of another tenant", what)
			require.NoError(t, call.do(c.as("root", status.KeyOperator, "1"), c.flows(at), f.GetId()), "%s of an administrator", what)
			own := c.flow(at, `{"n":1}`)
			require.NoError(t, call.do(c.as("ann"), c.flows(at), own.GetId()), "%s of the owner", what)
		}
	})
}

func TestFlows_listsWhatTheCallerMayView(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		var ids []string
		for i := range 5 {
			made, err := c.flows(at).CreateFlow(c.as("ann"), &v1.CreateFlowRequest{Name: fmt.Sprintf("Flow %d", i), Content: `{}`})
			require.NoError(t, err)
			ids = append(ids, made.GetFlow().GetId())
		}
		_, err := c.flows(at).CreateFlowAcl(c.as("ann"), &v1.CreateFlowAclRequest{FlowId: ids[3], PrincipalType: "group", PrincipalId: "ml", Level: "edit"})
		require.NoError(t, err)
		list := func(ctx context.Context, req *v1.ListFlowsRequest) (names []string, total int32) {
			got, err := c.flows(at).ListFlows(ctx, req)
			require.NoError(t, err)
			for _, f := range got.GetItems() {
				names = append(names, f.GetName()+" "+f.GetLevel())
			}
			return names, got.GetTotal()
		}
		names, total := list(c.as("ann"), &v1.ListFlowsRequest{Limit: 2, Offset: 1})
		require.Equal(t, []any{[]string{"Flow 3 admin", "Flow 2 admin"}, int32(5)}, []any{names, total})
		names, total = list(c.as("ann"), &v1.ListFlowsRequest{Search: "FLOW 4"})
		require.Equal(t, []any{[]string{"Flow 4 admin"}, int32(1)}, []any{names, total})
		names, total = list(c.as("bob", status.KeyMember, "group:ml"), &v1.ListFlowsRequest{})
		require.Equal(t, []any{[]string{"Flow 3 edit"}, int32(1)}, []any{names, total})
		_, total = list(c.ctx("t2", "", status.KeyUser, "ann"), &v1.ListFlowsRequest{})
		require.Zero(t, total)
		_, total = list(c.as("root", status.KeyOperator, "1"), &v1.ListFlowsRequest{})
		require.EqualValues(t, 5, total)

		// A right that was taken away counts at once.
		acls, err := c.flows(at).ListFlowAcls(c.as("ann"), &v1.ListFlowAclsRequest{FlowId: ids[3]})
		require.NoError(t, err)
		require.Len(t, acls.GetAcls(), 1)
		_, err = c.flows(at).UpdateFlowAcl(c.as("bob", status.KeyMember, "group:ml"), &v1.UpdateFlowAclRequest{FlowId: ids[3], AclId: acls.GetAcls()[0].GetId(), Level: "admin"})
		require.Equal(t, codes.PermissionDenied, grpcstatus.Code(err))
		_, err = c.flows(at).UpdateFlowAcl(c.as("ann"), &v1.UpdateFlowAclRequest{FlowId: ids[3], AclId: acls.GetAcls()[0].GetId(), Level: "view"})
		require.NoError(t, err)
		names, _ = list(c.as("bob", status.KeyMember, "group:ml"), &v1.ListFlowsRequest{})
		require.Equal(t, []string{"Flow 3 view"}, names)
		_, err = c.flows(at).DeleteFlowAcl(c.as("ann"), &v1.DeleteFlowAclRequest{FlowId: ids[3], AclId: acls.GetAcls()[0].GetId()})
		require.NoError(t, err)
		_, total = list(c.as("bob", status.KeyMember, "group:ml"), &v1.ListFlowsRequest{})
		require.Zero(t, total)
		for _, id := range []string{acls.GetAcls()[0].GetId(), "nothing"} {
			_, err = c.flows(at).DeleteFlowAcl(c.as("ann"), &v1.DeleteFlowAclRequest{FlowId: ids[3], AclId: id})
			require.Equal(t, codes.NotFound, grpcstatus.Code(err), id)
		}
	})
}

func TestFlows_areMadeOnceForTheirKey(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		make := func(user, content string) (*v1.CreateFlowResponse, error) {
			return c.flows(at).CreateFlow(c.ctx("t1", "key", status.KeyUser, user), &v1.CreateFlowRequest{Name: "x", Content: content})
		}
		first, err := make("ann", `{"n":1}`)
		require.NoError(t, err)
		again, err := make("ann", `{"n":1}`)
		require.NoError(t, err)
		require.Equal(t, first.GetFlow().GetId(), again.GetFlow().GetId())
		_, err = make("ann", `{"n":2}`)
		require.Equal(t, codes.AlreadyExists, grpcstatus.Code(err))
		other, err := make("bob", `{"n":1}`)
		require.NoError(t, err)
		require.NotEqual(t, first.GetFlow().GetId(), other.GetFlow().GetId(), "the key of another user is another key")
	})
}

func TestFlows_refuseWithASentence(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		for says, req := range map[string]*v1.CreateFlowRequest{
			"name: must have 1 to 128 bytes":      {Content: `{}`},
			"content: is missing":                 {Name: "x"},
			"content: is no JSON object":          {Name: "x", Content: `[]`},
			"description: must have at most 4096": {Name: "x", Content: `{}`, Description: string(make([]byte, 4097))},
		} {
			_, err := c.flows(at).CreateFlow(c.as("ann"), req)
			require.Equal(t, codes.InvalidArgument, grpcstatus.Code(err), says)
			require.ErrorContains(t, err, says)
		}
		f := c.flow(at, `{}`)
		_, err := c.flows(at).CreateFlowAcl(c.as("ann"), &v1.CreateFlowAclRequest{FlowId: f.GetId(), PrincipalType: "robot", Level: "own"})
		require.ErrorContains(t, err, "principal_type: must be user or group\nlevel: must be view, edit, deploy or admin\nprincipal_id: must have 1 to 256 bytes")
		_, err = c.flows(at).CreateFlowAcl(c.as("ann"), &v1.CreateFlowAclRequest{FlowId: f.GetId(), PrincipalType: "user", PrincipalId: "ann", Level: "view"})
		require.Equal(t, codes.AlreadyExists, grpcstatus.Code(err))
		_, err = c.flows(at).ListFlows(c.as("ann"), &v1.ListFlowsRequest{Limit: 1001})
		require.ErrorContains(t, err, "limit: must be 1 to 1000")
		_, err = c.flows(at).GetFlow(c.as("ann"), &v1.GetFlowRequest{FlowId: f.GetId(), Level: "own"})
		require.ErrorContains(t, err, "level: must be view")
		_, err = c.flows(at).UpdateFlow(c.as("ann"), &v1.UpdateFlowRequest{FlowId: f.GetId(), Name: proto.String("")})
		require.ErrorContains(t, err, "name: must have 1 to 128 bytes")
	})
}

const greeting = `{"name":"Greet","nodes":[
	{"id":"start","type":"entry_api","label":"Start","position":{"x":0,"y":0}},
	{"id":"hello","type":"llm_rigid","label":"Hello","position":{"x":200,"y":0},"config":{"template":"Hello {{request.name}}"}}],
	"edges":[{"id":"e","type":"sequential","source":{"node":"start","port":"out_request"},"target":{"node":"hello","port":"in"}}],"config":{}}`

// A flow that is deployed runs as a Core, and the next deployment is another version of it, whichever leader makes it.
func TestFlows_areDeployedToOneCore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		at := c.follower()
		f := c.flow(at, greeting)
		deploy := func(at string) *v1.DeployedFlow {
			r, err := c.flows(at).DeployFlow(c.as("ann"), &v1.DeployFlowRequest{FlowId: f.GetId()})
			require.NoError(t, err)
			require.Nil(t, r.GetFault())
			return r.GetDeployed()
		}
		first := deploy(at)
		require.Equal(t, []any{"triage", int32(1), false, 0}, []any{first.GetCoreSlug(), first.GetCoreVersion(), first.PublishedSlug != nil, len(first.GetWarnings())})
		c.eventually("the Core runs", func() bool { return c.coreOf(at, "triage").GetStatus() == "running" })
		done := c.invoke(at, "triage", map[string]any{"name": "Ada"}, 5)
		require.Equal(t, []any{"completed", "Hello Ada"}, []any{done.GetStatus(), done.GetOutput().AsInterface()})

		c.kill(c.leader())
		at = c.leader()
		again := deploy(at)
		require.Equal(t, []any{first.GetCoreId(), int32(1)}, []any{again.GetCoreId(), again.GetCoreVersion()}, "the same program is the same version")
		saved, err := c.flows(at).UpdateFlow(c.as("ann"), &v1.UpdateFlowRequest{FlowId: f.GetId(), BasedOn: "0.1.0", Content: strings.Replace(greeting, "Hello {{", "Bye {{", 1)})
		require.NoError(t, err)
		require.Equal(t, "0.1.1", saved.GetFlow().GetVersion())
		next := deploy(at)
		require.Equal(t, []any{first.GetCoreId(), int32(2)}, []any{next.GetCoreId(), next.GetCoreVersion()})
		core := c.coreOf(at, "triage")
		require.Equal(t, map[string]any{"source_id": f.GetId(), "source_version": "0.1.1"}, core.GetMetadata().AsMap()["scaiflow"])
		require.Equal(t, "Bye Ada", c.invoke(at, "triage", map[string]any{"name": "Ada"}, 5).GetOutput().AsInterface())

		list, err := c.flows(at).ListFlowDeployments(c.as("ann"), &v1.ListFlowDeploymentsRequest{FlowId: f.GetId()})
		require.NoError(t, err)
		require.EqualValues(t, 3, list.GetTotal())
		newest := list.GetItems()[0]
		require.Equal(t, []any{next.GetDeploymentId(), "0.1.1", first.GetCoreId(), "triage", int32(2), "ann"},
			[]any{newest.GetDeploymentId(), newest.GetVersion(), newest.GetCoreId(), newest.GetCoreSlug(), newest.GetCoreVersion(), newest.GetDeployedBy()})
		require.Nil(t, newest.PublishedSlug)

		// An older version can be deployed again.
		r, err := c.flows(at).DeployFlow(c.as("ann"), &v1.DeployFlowRequest{FlowId: f.GetId(), Version: "0.1.0"})
		require.NoError(t, err)
		require.EqualValues(t, 3, r.GetDeployed().GetCoreVersion())
		require.Equal(t, "Hello Ada", c.invoke(at, "triage", map[string]any{"name": "Ada"}, 5).GetOutput().AsInterface())
	})
}

// A deployment that ended between the Core and its record goes on with the Core, and what cannot be deployed is refused with the reason.
func TestFlows_deployAgainAndRefuse(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		deploy := func(content string, change func(*v1.DeployFlowRequest)) *v1.DeployFlowResponse {
			f := c.flow(at, content)
			req := &v1.DeployFlowRequest{FlowId: f.GetId()}
			change(req)
			r, err := c.flows(at).DeployFlow(c.as("ann"), req)
			require.NoError(t, err)
			return r
		}
		as := func(*v1.DeployFlowRequest) {}
		f := c.flow(at, greeting)
		metadata, err := structpb.NewStruct(map[string]any{"team": "a", "scaiflow": map[string]any{"source_id": f.GetId()}})
		require.NoError(t, err)
		left, err := c.cores(at).CreateCore(c.as("ann"), &v1.CreateCoreRequest{Name: "left behind", Metadata: metadata})
		require.NoError(t, err)
		r, err := c.flows(at).DeployFlow(c.as("ann"), &v1.DeployFlowRequest{FlowId: f.GetId(), Start: proto.Bool(false), PublishAsModel: proto.Bool(true)})
		require.NoError(t, err)
		require.Equal(t, left.GetCore().GetId(), r.GetDeployed().GetCoreId())
		require.Nil(t, r.GetDeployed().PublishedSlug)
		require.Contains(t, r.GetDeployed().GetWarnings()[0], "not published as a model")
		core := c.coreOf(at, "left-behind")
		require.Equal(t, []any{"created", "a"}, []any{core.GetStatus(), core.GetMetadata().AsMap()["team"]}, "the rest of its metadata stays")

		bad := deploy(`{"name":"x","nodes":[],"edges":[]}`, as).GetFault()
		require.Equal(t, []any{"compile_error", int32(400)}, []any{bad.GetError(), bad.GetHttp()})
		require.Contains(t, bad.GetDiagnostics(), `"severity":"error"`)
		require.NotEmpty(t, bad.GetMessage())
		queue := deploy(`{"name":"x","nodes":[],"edges":[],"config":{"scaiqueue":{"scope":"s","queues":[{"slug":"q"}]}}}`, as).GetFault()
		require.Equal(t, []any{"scaiqueue_provision_failed", int32(502), "s", "q"}, []any{queue.GetError(), queue.GetHttp(), queue.GetScope(), queue.GetQueue()})
		require.Nil(t, deploy(greeting, as).GetFault())
		taken := deploy(greeting, as).GetFault()
		require.Equal(t, []any{"scaicore_create_failed", int32(502), int32(409)}, []any{taken.GetError(), taken.GetHttp(), taken.GetStatus()})
		require.Contains(t, taken.GetMessage(), "triage")
		_, err = c.flows(at).DeployFlow(c.as("ann"), &v1.DeployFlowRequest{FlowId: f.GetId(), Version: "9.0.0"})
		require.Equal(t, codes.NotFound, grpcstatus.Code(err))
	})
}
