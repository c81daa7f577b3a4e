// Package raft is `mind raft`: the replicas of the control plane, asked over gRPC with an operator's certificate, or read from
// the data directory of a replica that is stopped.
//
// It works without a gateway. The coordinators' secret is told to nobody who has no coordinator's certificate.
package raft
