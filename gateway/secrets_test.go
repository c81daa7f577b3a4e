package gateway_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mindcoordinator/mind/api/methods"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/flows"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// confide fills every string of a message with a URL that contains a password and a signature, and every map with
// values that may be secrets.
func confide(m protoreflect.Message, depth int) {
	const text = "fetch https://user:hunter-password@host/path?X-Amz-Signature=hunter-signature&part=1 now"
	if s, ok := m.Interface().(*structpb.Struct); ok {
		s.Fields = map[string]*structpb.Value{"a": structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewStringValue(text)}})}
		return
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		of := func(f protoreflect.FieldDescriptor, in protoreflect.Value) (protoreflect.Value, bool) {
			switch {
			case wire.JSONField(f):
				return protoreflect.ValueOfString(`{"a":["` + text + `","x\" ` + text + `\""]}`), true
			case f.Kind() == protoreflect.StringKind && f.Options().(*descriptorpb.FieldOptions).GetDebugRedact():
				return protoreflect.ValueOfString("hunter-environment"), true
			case f.Kind() == protoreflect.StringKind:
				return protoreflect.ValueOfString(text), true
			case f.Kind() == protoreflect.MessageKind && depth < 6:
				confide(in.Message(), depth+1)
				return in, true
			}
			return in, false
		}
		switch {
		case f.IsMap():
			value, ok := of(f.MapValue(), m.Mutable(f).Map().NewValue())
			if f.Options().(*descriptorpb.FieldOptions).GetDebugRedact() {
				value, ok = protoreflect.ValueOfString("hunter-environment"), true
			}
			if ok && f.MapKey().Kind() == protoreflect.StringKind {
				m.Mutable(f).Map().Set(protoreflect.ValueOfString("HF_TOKEN").MapKey(), value)
			}
		case f.IsList():
			if value, ok := of(f, m.Mutable(f).List().NewElement()); ok {
				m.Mutable(f).List().Append(value)
			}
		case f.ContainingOneof() == nil || f.ContainingOneof().IsSynthetic():
			if value, ok := of(f, m.NewField(f)); ok {
				m.Set(f, value)
			}
		}
	}
}

// Callers without the permission to manage jobs see no values of environments and no credentials of URLs, on any route.
func TestSecrets_ofJobsAreForThoseWhoManageThem(t *testing.T) {
	const secretOf = "hunter-"
	var others []string
	for _, p := range append(auth.AllPermissions, auth.PermissionOperator) {
		if p != auth.PermissionManage {
			others = append(others, p)
		}
	}
	c := gatewaytest.NewCoordinator(t)
	for m := range methods.All() {
		// The answer of VerifyToken is used by the gateway itself, and is never part of its answers.
		if len(m.Routes) > 0 && !m.Streams {
			c.On(gatewaytest.ShortName(m), func(context.Context, any) (any, error) {
				answer := gatewaytest.Reply(m)
				confide(answer.ProtoReflect(), 0)
				return answer, nil
			})
		}
	}
	config := gatewaytest.Config(c)
	config.Tokens = append(config.Tokens, gateway.StaticToken{Token: "others", Tenant: "acme", User: "olga", Permissions: others})
	config.Tokens = append(config.Tokens, gateway.StaticToken{Token: "manager", Tenant: "acme", User: "mia", Permissions: append(others, auth.PermissionManage)})
	config.Tokens = append(config.Tokens, gateway.StaticToken{Token: "core reader", Tenant: "acme", User: "rea", Permissions: []string{auth.CoreView, auth.CoreResolve}})
	g := gatewaytest.NewGate(t, config)
	shown := 0
	for _, r := range allRoutes() {
		if r.Stream || r.Open || len(r.AnyOf) > 0 && !slices.ContainsFunc(r.AnyOf, func(p string) bool { return slices.Contains(others, p) }) {
			continue
		}
		name := r.Method + " " + strings.TrimPrefix(r.Path, rest.Prefix)
		t.Run(name, func(t *testing.T) {
			path, body := sample(r)
			a := g.Do(r.Method, path, body, "Authorization", "Bearer others")
			if strings.Contains(r.Path, "/launchers") { // operators write them
				a = g.Do(r.Method, path, body, "Authorization", "Bearer "+gatewaytest.TokenViewer)
			}
			if strings.HasPrefix(r.Path, rest.Modules+"scaicore") || flows.Has(r.Path) { // those who manage Cores write their programs
				a = g.Do(r.Method, path, body, "Authorization", "Bearer core reader")
			}
			require.NotContains(t, a.Body, secretOf)
			a = g.Do(r.Method, path, body, "Authorization", "Bearer manager")
			if a.Code < 300 && strings.Contains(a.Body, secretOf) {
				shown++
			}
		})
	}
	require.Greater(t, shown, 15, "callers that may manage jobs see them unchanged")

	viewer := g.Do("GET", rest.Prefix+"/jobs/job_1", "", "Authorization", "Bearer "+gatewaytest.TokenViewer)
	job := g.Data(viewer)
	require.Equal(t, map[string]any{"HF_TOKEN": "***"}, job["command_config"].(map[string]any)["environment"], "names stay")
	require.Equal(t, map[string]any{"HF_TOKEN": "***"}, job["training_config"].(map[string]any)["environment"])
	source := job["data_config"].(map[string]any)["sources"].([]any)[0].(map[string]any)
	require.Equal(t, "fetch https://***@host/path?X-Amz-Signature=***&part=*** now", source["path"])
	require.Equal(t, map[string]any{"a": []any{source["path"]}}, source["filters"])
	manager := g.Data(g.Do("GET", rest.Prefix+"/jobs/job_1", ""))
	require.Equal(t, map[string]any{"HF_TOKEN": "hunter-environment"}, manager["command_config"].(map[string]any)["environment"])
}

// Streams of events are shared by callers of different permissions.
func TestSecrets_notInEvents(t *testing.T) {
	event := &v1.Event{}
	confide(event.ProtoReflect(), 0)
	event.Index, event.Cursor, event.Topic = 1, "1.0", "job"
	f := &faulty{code: codes.NotFound, first: map[string]proto.Message{
		v1.EventService_WatchEvents_FullMethodName: &v1.WatchEventsResponse{Cursor: "1.0", Events: []*v1.Event{event}},
	}}
	g, _ := f.gate(t)
	a := g.Do("GET", rest.Prefix+"/events", "")
	require.Contains(t, a.Body, "event: job\n")
	require.Contains(t, a.Body, "fetch https://***@host/path")
	require.NotContains(t, a.Body, "hunter-")
}
