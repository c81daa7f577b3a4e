package gateway

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mindcoordinator/mind/api/methods"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// fromQueryNow makes a reader for queries with times, which may be relative to the present.
func fromQueryNow[M proto.Message](read func(url.Values, time.Time) (M, []wire.Fault)) rest.QueryReader {
	return func(query url.Values) (proto.Message, []wire.Fault) { return read(query, time.Now()) }
}

// declaredRoute returns the handler of a route that the protos declare completely: the variable segment of the path and
// the query or body make the request, and the response, or one of its fields, is the answer.
func (s *server) declaredRoute(m *methods.Method, at methods.Route, query rest.QueryReader, mayBeEmpty bool) func(x *rest.Request) error {
	_, name, _ := strings.Cut(at.Path, "{")
	name, _, _ = strings.Cut(name, "}")
	return func(x *rest.Request) error {
		request := m.NewRequest()
		if query != nil {
			var faults []wire.Fault
			if request, faults = query(x.R.URL.Query()); len(faults) > 0 {
				return rest.InvalidBody(faults)
			}
		}
		if takesBody(at) {
			if _, err := x.Decode(request, mayBeEmpty, at.Field); err != nil {
				return err
			}
		}
		if at.Field != "" {
			r := request.ProtoReflect()
			r.Set(r.Descriptor().Fields().ByName(protoreflect.Name(at.Field)), protoreflect.ValueOfString(x.Segment(name)))
		}
		ctx, cancel, err := x.Call()
		if err != nil {
			return err
		}
		defer cancel()
		if of, ok := request.(interface{ GetJob() *v1.SubmitJobRequest }); ok {
			if err := s.uploads.Confirm(ctx, x, of.GetJob()); err != nil {
				return err
			}
		}
		reply := m.NewReply()
		if err := s.client.Invoke(ctx, m.Name, request, reply); err != nil {
			return err
		}
		x.OK(answerOf(at, request, reply))
		return nil
	}
}

func takesBody(at methods.Route) bool {
	return at.Method == http.MethodPost || at.Method == http.MethodPut || at.Method == http.MethodPatch
}

// hasOtherFields reports whether a message has more fields than the one that the path sets.
func hasOtherFields(m proto.Message, field string) bool {
	fields := m.ProtoReflect().Descriptor().Fields()
	return fields.Len() > 1 || fields.Len() == 1 && fields.Get(0).Name() != protoreflect.Name(field)
}

// answerOf returns the answer of a declared route.
func answerOf(at methods.Route, request, reply proto.Message) proto.Message {
	if at.Echo {
		return request
	}
	if at.Answer == "" {
		return reply
	}
	r := reply.ProtoReflect()
	return r.Get(r.Descriptor().Fields().ByName(protoreflect.Name(at.Answer))).Message().Interface()
}
