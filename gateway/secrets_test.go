package gateway

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// confide fills every text of a message with a URL that carries a password and a signature, and every map with values that may be
// secrets.
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
			case f.Kind() == protoreflect.StringKind && secretField(f):
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

// Whoever may not manage jobs is not shown the values of environments, nor what signs or opens URLs, by whatever route.
func TestSecrets_ofJobsAreForThoseWhoManageThem(t *testing.T) {
	const secretOf = "hunter-"
	var others []string
	for _, p := range append(AllPermissions, PermissionOperator) {
		if p != PermissionManage {
			others = append(others, p)
		}
	}
	c := newScripted(t)
	for method, reply := range replies {
		c.on(method, func(context.Context, any) (any, error) {
			m := reply().(proto.Message)
			confide(m.ProtoReflect(), 0)
			return m, nil
		})
	}
	// What nobody sees is not in an answer either: these are asked about by the gateway.
	c.on("VerifyToken", nil)
	config := testConfig(c)
	config.Tokens = append(config.Tokens, StaticToken{Token: "others", Tenant: "acme", User: "olga", Permissions: others})
	config.Tokens = append(config.Tokens, StaticToken{Token: "manager", Tenant: "acme", User: "mia", Permissions: append(others, PermissionManage)})
	g := newGate(t, config)
	shown := 0
	for _, r := range table() {
		if r.stream || r.open || len(r.anyOf) > 0 && !slices.ContainsFunc(r.anyOf, func(p string) bool { return slices.Contains(others, p) }) {
			continue
		}
		name := r.method + " " + strings.TrimPrefix(r.path, prefix)
		t.Run(name, func(t *testing.T) {
			path := strings.NewReplacer("/tenants/{id}", "/tenants/-", "{id}", "n1", "{name}", "fast", "{framework}", "CUSTOM").Replace(r.path) + goodQueries[name]
			a := g.do(r.method, path, goodBodies[name], "Authorization", "Bearer others")
			if strings.Contains(r.path, "/launchers") { // operators write them
				a = g.do(r.method, path, goodBodies[name], "Authorization", "Bearer "+tokenViewer)
			}
			require.NotContains(t, a.body, secretOf)
			a = g.do(r.method, path, goodBodies[name], "Authorization", "Bearer manager")
			if a.code < 300 && strings.Contains(a.body, secretOf) {
				shown++
			}
		})
	}
	require.Greater(t, shown, 15, "whoever manages jobs sees them as they are")

	viewer := g.do("GET", prefix+"/jobs/job_1", "", "Authorization", "Bearer "+tokenViewer)
	job := g.data(viewer)
	require.Equal(t, map[string]any{"HF_TOKEN": "***"}, job["command_config"].(map[string]any)["environment"], "names stay")
	require.Equal(t, map[string]any{"HF_TOKEN": "***"}, job["training_config"].(map[string]any)["environment"])
	source := job["data_config"].(map[string]any)["sources"].([]any)[0].(map[string]any)
	require.Equal(t, "fetch https://***@host/path?X-Amz-Signature=***&part=*** now", source["path"])
	require.Equal(t, map[string]any{"a": []any{source["path"]}}, source["filters"])
	manager := g.data(g.do("GET", prefix+"/jobs/job_1", ""))
	require.Equal(t, map[string]any{"HF_TOKEN": "hunter-environment"}, manager["command_config"].(map[string]any)["environment"])
}

// Streams of events are shared by callers of different permissions.
func TestSecrets_notInEvents(t *testing.T) {
	event := &v1.Event{}
	confide(event.ProtoReflect(), 0)
	event.Index, event.Cursor, event.Topic = 1, "1.0", "job"
	require.NotContains(t, string(eventPiece(&v1.WatchEventsResponse{Events: []*v1.Event{event}}).Frames), "hunter-")
}

// A field that holds variables of a process must be marked in its proto.
func TestSecrets_environmentsAreMarked(t *testing.T) {
	marked := 0
	var walk func(protoreflect.MessageDescriptors)
	walk = func(messages protoreflect.MessageDescriptors) {
		for i := range messages.Len() {
			fields := messages.Get(i).Fields()
			for j := range fields.Len() {
				if f := fields.Get(j); strings.Contains(string(f.Name()), "environment") || f.IsMap() && strings.Contains(string(f.Name()), "env") {
					require.True(t, secretField(f), f.FullName())
					marked++
				}
			}
			walk(messages.Get(i).Messages())
		}
	}
	for _, file := range []protoreflect.FileDescriptor{
		v1.File_scaimind_v1_configs_proto, v1.File_scaimind_v1_jobs_proto, v1.File_scaimind_v1_evaluations_proto, v1.File_scaimind_v1_launchers_proto,
		v1.File_scaimind_v1_data_proto, v1.File_scaimind_v1_events_proto, v1.File_scaimind_v1_cluster_proto,
	} {
		walk(file.Messages())
	}
	require.Equal(t, 3, marked)
}

func TestHideCredentials(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"nothing to hide: a/b?c": "nothing to hide: a/b?c",
		"https://host/a/b":       "https://host/a/b",
		"https://user:pw@host/a": "https://***@host/a",
		"https://token@host":     "https://***@host",
		"https://a@b@host/x@y":   "https://***@host/x@y", // the last @ ends what stands before the host
		"s3://bucket/key?versionId=7&X-Amz-Signature=abc": "s3://bucket/key?versionId=***&X-Amz-Signature=***",
		"https://host?sig":                                      "https://host?***",
		"https://host/?a=b=c;d=e#part":                          "https://host/?a=***;d=***#part",
		"curl -H 'x' \"https://u:p@h/?k=v\" && wget ftp://u@h/": "curl -H 'x' \"https://***@h/?k=***\" && wget ftp://***@h/",
		"scaidrive://acme/share/x":                              "scaidrive://acme/share/x",
		"://":                                                   "://",
		"://u:p@h":                                              "://***@h",
		"a://b://c:d@e/?f=g":                                    "a://b://***@e/?f=***",
		"https://u:p@h/?from=https://v:q@i/&sig=s":              "https://***@h/?from=***&sig=***",
		"https://h/?a=https://v:q@i/?sig=s":                     "https://h/?a=***",
		"https://h/x@y/?a":                                      "https://h/x@y/?***",
		"https://u:p\\@h/x":                                     "https://***@h/x",
		"first https://u:p@h/?a=b, then https://v:q@i/?c=d":     "first https://***@h/?a=*** then https://***@i/?c=***",
	} {
		require.Equal(t, want, hideCredentials(text), text)
	}
}

// Whatever stands before and after it, a password and a signature do not show.
func FuzzHideCredentials(f *testing.F) {
	f.Add("get https", "a=b")
	f.Add("https://h/?from=https", "&c#d")
	f.Add("x?a#b", " y")
	f.Fuzz(func(t *testing.T, before, after string) {
		for _, text := range []string{before + "://u:hunter2@h/" + after, before + "://h/?sig=hunter2" + after} {
			once := hideCredentials(text)
			if !strings.Contains(before+after, "hunter2") {
				require.NotContains(t, once, "hunter2", text)
			}
		}
		if text := before + after; !strings.Contains(text, "://") {
			require.Equal(t, text, hideCredentials(text))
		}
	})
}
