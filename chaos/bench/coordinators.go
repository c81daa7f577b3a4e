package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/mindcoordinator/mind/api/client"
	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/pki"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// dial speaks gRPC to the coordinators directly, with the operator's certificate of the cluster.
func dial(c *procs.Cluster) (v1.JobServiceClient, func(), error) {
	info, err := c.Info()
	if err != nil {
		return nil, nil, err
	}
	var secrets struct{ APISecret string }
	text, err := os.ReadFile(filepath.Join(c.Dir, "cluster.json"))
	if err == nil {
		err = json.Unmarshal(text, &secrets)
	}
	if err != nil {
		return nil, nil, err
	}
	certs := filepath.Dir(info.CACert)
	tls, err := pki.LoadClientTLS(filepath.Join(certs, "operator.pem"), filepath.Join(certs, "operator-key.pem"), info.CACert)
	if err != nil {
		return nil, nil, err
	}
	config := client.Config{TLS: tls, Secret: secrets.APISecret}
	for _, p := range info.Coordinators {
		config.Addrs = append(config.Addrs, p.GRPCAddr)
	}
	conn, err := client.Dial(config)
	if err != nil {
		return nil, nil, err
	}
	return conn.Jobs(), func() { _ = conn.Close() }, nil
}

func call(ctx context.Context) context.Context {
	return client.WithCall(ctx, client.Call{Tenant: "default", User: "bench"})
}
