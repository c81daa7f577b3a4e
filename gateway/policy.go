package gateway

import (
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// policyToldOnly are the read-only fields of a policy.
var policyToldOnly = []string{"updated_by", "updated_at", "revision"}

func getPolicy(x *httpRequest) error {
	return unary(x, &v1.GetPolicyRequest{}, x.server.cluster.GetPolicy,
		func(r *v1.GetPolicyResponse) proto.Message { return r.GetPolicy() })
}

func putPolicy(x *httpRequest) error {
	policy := &v1.Policy{}
	if _, err := x.decode(policy, true, policyToldOnly...); err != nil {
		return err
	}
	return unary(x, &v1.PutPolicyRequest{Policy: policy}, x.server.cluster.PutPolicy,
		func(r *v1.PutPolicyResponse) proto.Message { return r.GetPolicy() })
}
