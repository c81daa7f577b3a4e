package replica

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/executionverbs"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/once"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

// once returns a command that takes effect once for the idempotency key of its call. Commands that remember their key
// themselves stay as they are, and so do those of calls without a key.
func (r *Replica) once(ctx context.Context, command kernel.Command) kernel.Command {
	c := call.Of(ctx)
	if c == nil || c.Key == "" || !once.Gate.Open(r.View().Level()) {
		return command
	}
	switch command.(type) {
	case jobverbs.SubmitJobs, jobverbs.ControlJob, executionverbs.StartExecutions:
		return command
	}
	key := c.Key
	if n := c.Writes.Load(); n > 0 {
		key += once.Separator + strconv.Itoa(int(n))
	}
	return once.Do{
		Tenant: c.Tenant, User: c.User, Key: key, Fingerprint: r.fingerprint(c), Minted: strings.HasPrefix(c.Key, status.AutoKeyPrefix),
	}.Of(command)
}

// unwrap returns the result of a command that takes effect once.
func unwrap[R any](command kernel.Command, o once.Result) (R, error) {
	var result R
	switch {
	case o.Refusal != nil:
		return result, call.Refused(o.Refusal)
	case o.Again != nil:
		if err := kernel.DecodeResult(o.Again, &result); err != nil {
			return result, fmt.Errorf("read the first answer to %T: %w", command, err)
		}
		return result, nil
	}
	result, ok := o.First.(R)
	if !ok {
		return result, fmt.Errorf("%T was answered with %T", command, o.First)
	}
	return result, nil
}

// fingerprint tells requests with the same key apart. It is keyed with the secret of the cluster, because it is in the
// state and must not help to guess what a request had.
func (r *Replica) fingerprint(c *call.Call) uint64 {
	h := hmac.New(sha256.New, []byte(r.config.Secret))
	_, _ = h.Write([]byte(c.Method + "\x00"))
	if m, ok := c.Request.(proto.Message); ok {
		data, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m) // It came in as a message, so it can go out as one.
		_, _ = h.Write(data)
	}
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// repeated returns the answer to a call. A deletion that is repeated with its key does not find the row any more: its
// answer has no fields but a fault, which it had not, and is the first one again.
func (r *Replica) repeated(c *call.Call, resp any, err error, reply func() proto.Message) (any, error) {
	if err == nil || c.Key == "" || c.Writes.Load() > 0 || !notFound(err) {
		return resp, err
	}
	empty := reply()
	if !saysNothing(empty) || !r.View().Answered(c.Tenant, c.User, c.Key, r.fingerprint(c)) {
		return resp, err
	}
	return empty, nil
}

// saysNothing reports whether an answer without a fault has nothing in it.
func saysNothing(m proto.Message) bool {
	fields := m.ProtoReflect().Descriptor().Fields()
	return fields.Len() == 0 || fields.Len() == 1 && fields.Get(0).Name() == "fault"
}

func notFound(err error) bool {
	var f *call.Failure
	return errors.As(call.ToStatus(err), &f) && f.Code == codes.NotFound
}
