// Package raft implements `mind raft`: it inspects and changes the replicas of the control plane, over gRPC with an
// operator's certificate, or reads the data directory of a stopped replica.
//
// It works without a gateway. It sends the coordinators' secret only to servers with a coordinator's certificate.
package raft
