// Package methods has the properties of each method of the services: whether it reads or writes, which components and
// users may call it, its name in the audit log, and its REST routes.
//
// The protos declare all of them (scaimind/v1/options.proto); they are read from the descriptors once, when the program
// starts. They are declared nowhere else: coordinators, the client and the gateway look them up here.
//
// Guarantees: an undeclared method has no callers, and counts as a write.
//
// Not guaranteed: that a call is refused. The server of a method looks up its properties here, and refuses calls.
package methods

import (
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// The roles of certificates, as certificates have them.
const (
	roleAgent       = "agent"
	roleGateway     = "gateway"
	roleOperator    = "operator"
	roleCoordinator = "coordinator"
)

var roles = map[v1.MethodRule_Role]string{
	v1.MethodRule_AGENT: roleAgent, v1.MethodRule_GATEWAY: roleGateway,
	v1.MethodRule_OPERATOR: roleOperator, v1.MethodRule_COORDINATOR: roleCoordinator,
}

// Method holds the properties of one method. It is read-only.
type Method struct {
	// Name is the full name, as gRPC has it: /package.Service/Method.
	Name string
	// ReadOnly says that the call changes nothing, and a client may repeat it.
	ReadOnly bool
	// LeaderOnly says that other replicas forward the call to the leader.
	LeaderOnly bool
	// Streams says that the request or the answer is a stream.
	Streams bool
	// Callers are the roles of certificates that may call the method.
	Callers []string
	// ForTenant says that the call is made on behalf of one tenant.
	ForTenant bool
	// BeforeStart says that a replica answers the call before it has its data.
	BeforeStart bool
	// WaitsForNodes says that the call waits for answers of nodes. Repeating it soon at another coordinator would only
	// ask the same nodes again.
	WaitsForNodes bool
	// Permissions, one of which a user needs; none: any user may call.
	Permissions []string
	// OperatorPermission makes a user who has it an operator in this call; empty: no permission does.
	OperatorPermission string
	// SecretPermissions are the permissions, one of which a user needs to see secrets in the answer; none: those for
	// managing jobs.
	SecretPermissions []string
	// DataTokens says that the call carries the user's tokens for ScaiDrive and ScaiAtlas.
	DataTokens bool
	// Audit is its name in the audit log; empty: it is not audited.
	Audit string
	// Routes are its REST routes.
	Routes []Route

	request, reply protoreflect.MessageType
}

// Route is one REST route of a method.
type Route struct {
	// Method and Path, such as GET and /v1/modules/scaimind/jobs/{id}.
	Method, Path string
	// Variant distinguishes routes that one method serves in different ways.
	Variant string
	Summary string
	// Code is the HTTP status of a successful answer.
	Code int
	// Choice says that ScaiMind did not publish the path, or published only its existence.
	Choice bool
	// Batch says that the route accepts bodies of the larger limit.
	Batch bool
	// Field is the field of the request that the variable segment of the path sets.
	Field string
	// Answer is the field of the response that is the answer; empty: the whole response. Echo says that the answer is
	// the request.
	Answer string
	Echo   bool
	// OptionalBody says that the request may come without a body.
	OptionalBody bool
	// Bare says that the answer has no envelope, and that errors have the form of ScaiFlow.
	Bare bool
}

// NewRequest returns an empty request message; nil for a method of other protos.
func (m *Method) NewRequest() proto.Message { return fresh(m.request) }

// NewReply returns an empty response message; nil for a method of other protos.
func (m *Method) NewReply() proto.Message { return fresh(m.reply) }

func fresh(kind protoreflect.MessageType) proto.Message {
	if kind == nil {
		return nil
	}
	return kind.New().Interface()
}

// Of returns the properties of a method, by its full name. The result is never nil.
func Of(name string) *Method {
	if m, ok := declared[name]; ok {
		return m
	}
	return &Method{Name: name, ForTenant: true}
}

// All yields the declared methods by name.
func All() iter.Seq[*Method] {
	return func(yield func(*Method) bool) {
		for _, name := range slices.Sorted(maps.Keys(declared)) {
			if !yield(declared[name]) {
				return
			}
		}
	}
}

var declared = load()

// load reads the rules of the protos. It panics on a fault: the descriptors are part of the program, so the tests of
// this package find each fault.
func load() map[string]*Method {
	all := health()
	protoregistry.GlobalFiles.RangeFilesByPackage(v1.File_scaimind_v1_options_proto.Package(), func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for k := range service.Methods().Len() {
				m, err := read(service.Methods().Get(k))
				if err != nil {
					panic(err)
				}
				all[m.Name] = m
			}
		}
		return true
	})
	return all
}

func read(d protoreflect.MethodDescriptor) (*Method, error) {
	m := &Method{
		Name:    fmt.Sprintf("/%s/%s", d.Parent().FullName(), d.Name()),
		Streams: d.IsStreamingClient() || d.IsStreamingServer(), ForTenant: true,
	}
	options, ok := d.Options().(*descriptorpb.MethodOptions)
	if !ok || !proto.HasExtension(options, v1.E_Rule) {
		return m, nil
	}
	rule := proto.GetExtension(options, v1.E_Rule).(*v1.MethodRule)
	m.ReadOnly = rule.GetEffect() == v1.MethodRule_READ || rule.GetEffect() == v1.MethodRule_LEADER_READ
	m.LeaderOnly = rule.GetEffect() == v1.MethodRule_WRITE || rule.GetEffect() == v1.MethodRule_LEADER_READ
	for _, role := range rule.GetCallers() {
		m.Callers = append(m.Callers, roles[role])
	}
	m.ForTenant, m.BeforeStart, m.WaitsForNodes = !rule.GetWithoutTenant(), rule.GetBeforeStart(), rule.GetWaitsForNodes()
	m.Permissions, m.OperatorPermission, m.SecretPermissions = rule.GetPermissions(), rule.GetOperatorPermission(), rule.GetSecretPermissions()
	m.DataTokens, m.Audit = rule.GetDataTokens(), rule.GetAudit()
	for _, route := range rule.GetRoutes() {
		m.Routes = append(m.Routes, routesOf(route)...)
	}
	var err error
	if m.request, err = protoregistry.GlobalTypes.FindMessageByName(d.Input().FullName()); err != nil {
		return nil, fmt.Errorf("the request of %s: %w", m.Name, err)
	}
	if m.reply, err = protoregistry.GlobalTypes.FindMessageByName(d.Output().FullName()); err != nil {
		return nil, fmt.Errorf("the answer of %s: %w", m.Name, err)
	}
	return m, nil
}

// routesOf returns a route, and another one for its alias if it has one.
func routesOf(declared *v1.Route) []Route {
	r := Route{
		Variant: declared.GetVariant(), Summary: declared.GetSummary(), Code: int(declared.GetCode()),
		Choice: declared.GetChoice(), Batch: declared.GetBatch(), Field: declared.GetField(), Answer: declared.GetAnswer(), Echo: declared.GetEcho(),
		OptionalBody: declared.GetOptionalBody(), Bare: declared.GetBare(),
	}
	if r.Code == 0 {
		r.Code = http.StatusOK
	}
	switch path := declared.GetPath().(type) {
	case *v1.Route_Get:
		r.Method, r.Path = http.MethodGet, path.Get
	case *v1.Route_Post:
		r.Method, r.Path = http.MethodPost, path.Post
	case *v1.Route_Put:
		r.Method, r.Path = http.MethodPut, path.Put
	case *v1.Route_Patch:
		r.Method, r.Path = http.MethodPatch, path.Patch
	case *v1.Route_Delete:
		r.Method, r.Path = http.MethodDelete, path.Delete
	}
	if declared.GetAlias() == "" {
		return []Route{r}
	}
	alias := r
	alias.Path, alias.Choice = declared.GetAlias(), true
	return []Route{r, alias}
}

// health returns the methods of gRPC's health service, whose protos are not ours and cannot declare properties.
func health() map[string]*Method {
	all := map[string]*Method{}
	for _, method := range []string{"Check", "Watch", "List"} {
		name := "/grpc.health.v1.Health/" + method
		all[name] = &Method{
			Name: name, ReadOnly: true, Streams: method == "Watch", Callers: []string{roleGateway, roleOperator, roleCoordinator},
			BeforeStart: method == "Check",
		}
	}
	return all
}
