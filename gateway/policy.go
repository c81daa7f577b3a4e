package gateway

import (
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// policyToldOnly are the read-only fields of a policy.
var policyToldOnly = []string{"updated_by", "updated_at", "revision"}

func (s *server) getPolicy(x *rest.Request) error {
	return rest.Unary(x, &v1.GetPolicyRequest{}, s.cluster.GetPolicy,
		func(r *v1.GetPolicyResponse) proto.Message { return r.GetPolicy() })
}

func (s *server) putPolicy(x *rest.Request) error {
	policy := &v1.Policy{}
	if _, err := x.Decode(policy, true, policyToldOnly...); err != nil {
		return err
	}
	return rest.Unary(x, &v1.PutPolicyRequest{Policy: policy}, s.cluster.PutPolicy,
		func(r *v1.PutPolicyResponse) proto.Message { return r.GetPolicy() })
}
