package gateway

import (
	"net/http"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"google.golang.org/protobuf/proto"
)

func getCluster(x *exchange) error {
	return unary(x, http.StatusOK, false, &v1.GetClusterRequest{}, x.server.cluster.GetCluster, whole)
}

func listNodes(x *exchange) error {
	return unary(x, http.StatusOK, false, &v1.ListNodesRequest{}, x.server.cluster.ListNodes, whole)
}

func getNode(x *exchange) error {
	return unary(x, http.StatusOK, false, &v1.GetNodeRequest{NodeId: id(x)}, x.server.cluster.GetNode,
		func(r *v1.GetNodeResponse) proto.Message { return r.GetNode() })
}

func drainNode(x *exchange) error {
	request := &v1.DrainNodeRequest{}
	if _, err := x.decode(request, true, "node_id"); err != nil {
		return err
	}
	request.NodeId = id(x)
	return unary(x, http.StatusOK, true, request, x.server.cluster.DrainNode,
		func(r *v1.DrainNodeResponse) proto.Message { return r.GetNode() })
}

func enableNode(x *exchange) error {
	request := &v1.EnableNodeRequest{}
	if _, err := x.decode(request, true, "node_id"); err != nil {
		return err
	}
	request.NodeId = id(x)
	return unary(x, http.StatusOK, true, request, x.server.cluster.EnableNode,
		func(r *v1.EnableNodeResponse) proto.Message { return r.GetNode() })
}

func getQueue(x *exchange) error {
	query := x.r.URL.Query()
	request := &v1.GetQueueRequest{Queue: query.Get("queue")}
	var faults []Fault
	if request.Limit, faults = intParameter(query, "limit", 1, 1000, nil); len(faults) > 0 {
		return invalidBody(faults)
	}
	return unary(x, http.StatusOK, false, request, x.server.cluster.GetQueue, whole)
}

func listQueues(x *exchange) error {
	return unary(x, http.StatusOK, false, &v1.ListQueuesRequest{}, x.server.cluster.ListQueues, whole)
}

func getMe(x *exchange) error {
	x.data(http.StatusOK, func(b []byte) []byte {
		b = append(b, `{"tenant_id":`...)
		b = appendString(b, x.caller.Tenant)
		b = append(b, `,"user_id":`...)
		b = appendString(b, x.caller.User)
		b = append(b, `,"permissions":[`...)
		for i, p := range x.caller.Permissions {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, p)
		}
		return append(b, "]}"...)
	})
	return nil
}
