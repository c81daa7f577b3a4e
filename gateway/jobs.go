package gateway

import (
	"context"
	"net/url"

	"github.com/gorilla/mux"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/submits"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// unary makes one call, and project turns its reply into the answer.
func unary[Request, Reply any](x *httpRequest, request Request,
	call func(context.Context, Request, ...grpc.CallOption) (Reply, error), project func(Reply) proto.Message,
) error {
	ctx, cancel, err := x.call()
	if err != nil {
		return err
	}
	defer cancel()
	reply, err := call(ctx, request)
	if err != nil {
		return err
	}
	x.ok(project(reply))
	return nil
}

func whole[M proto.Message](m M) proto.Message { return m }

// decode reads the body into m. If optional, an empty body is an empty object.
func (x *httpRequest) decode(m proto.Message, mayBeEmpty bool, without ...string) (ignored []string, err error) {
	body, err := x.body()
	if err != nil {
		return nil, err
	}
	defer release(body)
	if mayBeEmpty && len(*body) == 0 {
		return nil, nil
	}
	faults, ignored := wire.Decode(*body, m, without...)
	if len(faults) > 0 {
		return nil, invalidBody(faults)
	}
	return ignored, nil
}

func id(x *httpRequest) string { return segment(x, "id") }

// segment returns a variable part of the path.
func segment(x *httpRequest, name string) string {
	escaped := mux.Vars(x.r)[name]
	if plain, err := url.PathUnescape(escaped); err == nil {
		return plain
	}
	return escaped // impossible: the server has unescaped the whole path
}

func submitJob(x *httpRequest) error {
	request := &v1.SubmitJobRequest{}
	ignored, err := x.decodeJob(request)
	if err != nil {
		return err
	}
	call, limit, err := x.prepare()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), limit)
	defer cancel()
	if err := x.confirmUpload(ctx, request); err != nil {
		return err
	}
	var reply *v1.SubmitJobResponse
	// Jobs with their own tokens cannot share a call, which carries one of each.
	own := call.DriveToken != "" || call.AtlasToken != ""
	if own || x.r.ContentLength > submits.MaxBytes || x.r.ContentLength < 0 || limit != x.server.config.Timeouts.Request {
		reply, err = x.server.jobs.SubmitJob(client.WithCall(ctx, call), request)
	} else {
		reply, x.answer, err = x.server.submits.Submit(ctx, call, request, limit)
	}
	if err != nil {
		return err
	}
	reply.Message = wire.WithIgnored(reply.Message, ignored)
	x.ok(reply)
	return nil
}

func (x *httpRequest) decodeJob(request *v1.SubmitJobRequest) (ignored []string, err error) {
	body, err := x.body()
	if err != nil {
		return nil, err
	}
	defer release(body)
	faults, ignored := wire.DecodeJob(*body, request)
	if len(faults) > 0 {
		return nil, invalidBody(faults)
	}
	return ignored, nil
}

func listJobs(x *httpRequest) error {
	request, faults := wire.ListJobs(x.r.URL.Query())
	if len(faults) > 0 {
		return invalidBody(faults)
	}
	ctx, cancel, err := x.call()
	if err != nil {
		return err
	}
	defer cancel()
	reply, err := x.server.jobs.ListJobs(ctx, request)
	if err != nil {
		return err
	}
	x.data(func(b []byte) []byte { return wire.AppendRows(b, reply, "jobs", request.GetFields(), x.hides()) })
	if len(request.GetFields()) == 0 { // a part of a job is nothing to keep
		x.server.listed.Note(reply.GetJobs(), x.made)
	}
	return nil
}
