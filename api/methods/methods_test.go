package methods

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// readers are the verbs with which the names of reads begin. A write that is declared as a read by mistake would be repeated by
// clients, and happen twice; so its name and its route have to agree with what is declared.
var readers = regexp.MustCompile(`/(Get|List|Read|Stream|Watch|Explain|Compare|Describe|Validate|Verify|Probe|Ping|Check)([A-Z]\w*)?$`)

// readsByOtherNames change nothing, although their names do not say so.
var readsByOtherNames = []string{v1.OperatorService_SaveSnapshot_FullMethodName, v1.PeerService_AgreeOnResume_FullMethodName}

// readsByPost are the reads that have a body.
var readsByPost = []string{v1.DataService_ValidateData_FullMethodName}

func TestAll_everyMethodIsDeclaredWhole(t *testing.T) {
	for m := range All() {
		t.Run(m.Name, func(t *testing.T) {
			require.NotEmpty(t, m.Callers, "nobody may call it")
			require.NotContains(t, m.Callers, "", "a role that certificates do not have")
			require.Len(t, slices.Compact(slices.Sorted(slices.Values(m.Callers))), len(m.Callers), "a role twice")
			named := readers.MatchString(m.Name) || slices.Contains(readsByOtherNames, m.Name)
			require.Equal(t, named, m.ReadOnly, "its name says the contrary: a write must be declared as one")
			require.True(t, m.ReadOnly || m.LeaderOnly, "only the leader can write")
			require.False(t, m.Audit != "" && m.ReadOnly, "what changes nothing is not audited")
			if len(m.Routes) > 0 || len(m.Permissions) > 0 {
				require.Contains(t, m.Callers, roleGateway, "a gateway has to call it")
				require.True(t, m.ForTenant, "a user is somebody's")
			}
			if !strings.HasPrefix(m.Name, "/grpc.") {
				require.NotNil(t, m.NewReply())
			}
		})
	}
}

// silent lists the writes without a record in the audit log.
var silent = []string{
	v1.OperatorService_TransferLeadership_FullMethodName,                                                 // changes no state
	v1.TokenService_CreateStreamTicket_FullMethodName, v1.TokenService_RedeemStreamTicket_FullMethodName, // happen very often
	v1.AgentService_Session_FullMethodName, v1.PeerService_Relay_FullMethodName, // no user makes these calls
}

func TestAll_writesAreAudited(t *testing.T) {
	for m := range All() {
		require.Equal(t, !m.ReadOnly && !slices.Contains(silent, m.Name), m.Audit != "", m.Name)
	}
}

func TestAll_routes(t *testing.T) {
	permissions := []string{
		"scaimind:view", "scaimind:manage", "scaimind:cluster_admin", "scaimind:evaluate", "mind:operator",
		"scaicore:view", "scaicore:manage", "scaicore:checkpoint_resolve", "scaicore:admin",
	}
	path := regexp.MustCompile(`^(/api)?/v1(/([a-z-]+|\{[a-z_]+\}))+$`)
	open := regexp.MustCompile(`\{[a-z_]+\}`)
	taken := map[string]string{}
	for m := range All() {
		variants := map[string]int{}
		for _, p := range slices.Concat(m.Permissions, m.SecretPermissions) {
			require.Contains(t, permissions, p, m.Name)
		}
		require.Contains(t, append(permissions, ""), m.OperatorPermission, m.Name)
		for _, r := range m.Routes {
			require.Regexp(t, path, r.Path, m.Name)
			require.NotEmpty(t, r.Summary, m.Name)
			at := r.Method + " " + open.ReplaceAllString(r.Path, "{}")
			require.Empty(t, taken[at], "%s is already %s", m.Name, at)
			taken[at] = m.Name
			variants[r.Variant]++
			reads := r.Method == http.MethodGet || slices.Contains(readsByPost, m.Name)
			require.Equal(t, reads, m.ReadOnly, "%s: GET is for what changes nothing, and the other methods for writes", m.Name)
			require.False(t, r.OptionalBody && (r.Method == http.MethodGet || r.Method == http.MethodDelete), "%s takes no body", m.Name)
			require.True(t, r.Code >= 200 && r.Code < 300, m.Name)
			if r.Field != "" {
				require.Equal(t, 1, strings.Count(r.Path, "{"), "%s: one segment says one field", m.Name)
				field := m.NewRequest().ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(r.Field))
				require.NotNil(t, field, "%s has no field %s", m.Name, r.Field)
				require.Equal(t, protoreflect.StringKind, field.Kind(), m.Name)
			}
			if r.Answer != "" {
				field := m.NewReply().ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(r.Answer))
				require.NotNil(t, field, "%s answers no %s", m.Name, r.Answer)
				require.Equal(t, protoreflect.MessageKind, field.Kind(), m.Name)
			}
		}
	}
	require.Greater(t, len(taken), 40)
}

func TestOf_whatNobodyDeclaredIsForNobody(t *testing.T) {
	for _, name := range []string{"", "/scaimind.v1.JobService/NewAndForgotten", "scaimind.v1.JobService/GetJob", "/scaimind.v1.JobService/getjob"} {
		m := Of(name)
		require.Equal(t, name, m.Name)
		require.Empty(t, m.Callers)
		require.False(t, m.ReadOnly || m.LeaderOnly || m.BeforeStart)
		require.True(t, m.ForTenant)
		require.Nil(t, m.NewReply())
	}
}

// A method that was added without a rule is known, and has no callers.
func TestRead_withoutARule(t *testing.T) {
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("new.proto"), Package: proto.String("new"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M")}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("S"), Method: []*descriptorpb.MethodDescriptorProto{{
			Name: proto.String("Forgotten"), InputType: proto.String(".new.M"), OutputType: proto.String(".new.M"),
		}}}},
	}, nil)
	require.NoError(t, err)
	m, err := read(file.Services().Get(0).Methods().Get(0))
	require.NoError(t, err)
	require.Equal(t, "/new.S/Forgotten", m.Name)
	require.Empty(t, m.Callers)
	require.False(t, m.ReadOnly)
}

func BenchmarkOf(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_ = Of(v1.JobService_SubmitJob_FullMethodName)
	}
}
