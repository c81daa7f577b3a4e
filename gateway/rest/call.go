package rest

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Unary makes one call, and project turns its reply into the answer.
func Unary[Asked, Reply any](x *Request, request Asked,
	call func(context.Context, Asked, ...grpc.CallOption) (Reply, error), project func(Reply) proto.Message,
) error {
	ctx, cancel, err := x.Call()
	if err != nil {
		return err
	}
	defer cancel()
	reply, err := call(ctx, request)
	if err != nil {
		return err
	}
	x.OK(project(reply))
	return nil
}

// Whole answers with a reply as it is.
func Whole[M proto.Message](m M) proto.Message { return m }

// JSON answers with a value as JSON.
func (x *Request) JSON(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("writing an answer: %w", err)
	}
	x.Data(func(b []byte) []byte { return append(b, raw...) })
	return nil
}
