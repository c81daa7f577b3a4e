package gateway

import (
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/wire"
)

func (s *server) drainNode(x *rest.Request) error {
	request := &v1.DrainNodeRequest{}
	if _, err := x.Decode(request, true, "node_id"); err != nil {
		return err
	}
	request.NodeId = x.ID()
	ctx, cancel, err := x.Call()
	if err != nil {
		return err
	}
	defer cancel()
	reply, err := s.cluster.DrainNode(ctx, request)
	if err != nil {
		return err
	}
	x.Data(func(b []byte) []byte { return appendDrain(b, reply, x.Hides()) })
	return nil
}

// appendDrain writes the node as usual, and adds the effect of the drain on each job.
func appendDrain(b []byte, reply *v1.DrainNodeResponse, hide bool) []byte {
	b = wire.Append(b, reply.GetNode(), hide)
	b = append(b[:len(b)-1], `,"effects":[`...) // instead of the closing brace
	for i, e := range reply.GetEffects() {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.Append(b, e, hide)
	}
	return append(b, "]}"...)
}

func getMe(x *rest.Request) error {
	x.Data(func(b []byte) []byte {
		b = append(b, `{"tenant_id":`...)
		b = wire.AppendString(b, x.Caller.Tenant)
		b = append(b, `,"user_id":`...)
		b = wire.AppendString(b, x.Caller.User)
		b = append(b, `,"permissions":[`...)
		for i, p := range x.Caller.Permissions {
			if i > 0 {
				b = append(b, ',')
			}
			b = wire.AppendString(b, p)
		}
		return append(b, "]}"...)
	})
	return nil
}
