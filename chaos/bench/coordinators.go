package main

import (
	"context"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/pki"
)

// dial connects to the coordinators directly over gRPC, for calls about jobs.
func dial(c *procs.Cluster) (v1.JobServiceClient, func(), error) {
	conn, err := connect(c)
	if err != nil {
		return nil, nil, err
	}
	return conn.Jobs(), func() { _ = conn.Close() }, nil
}

// connect connects to the coordinators directly over gRPC, with the operator's certificate of the cluster. Calls go to the leader.
func connect(c *procs.Cluster) (*client.Client, error) {
	info, err := c.Info()
	if err != nil {
		return nil, err
	}
	tls, err := pki.LoadClientTLS(info.Operator.Cert, info.Operator.Key, info.CACert)
	if err != nil {
		return nil, err
	}
	config := client.Config{TLS: tls, Secret: info.Operator.Secret}
	for _, p := range info.Coordinators {
		config.Addrs = append(config.Addrs, p.GRPCAddr)
	}
	return client.Dial(config)
}

func call(ctx context.Context) context.Context {
	return client.WithCall(ctx, client.Call{Tenant: "default", User: "bench"})
}
