package raft_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
	"github.com/mindcoordinator/mind/pki"
)

// peersOf is a coordinator, or a server that answers in its place.
type peersOf struct {
	v1.UnimplementedOperatorServiceServer
	asked chan struct{}
}

func (p *peersOf) ListPeers(context.Context, *v1.ListPeersRequest) (*v1.ListPeersResponse, error) {
	p.asked <- struct{}{}
	return &v1.ListPeersResponse{AnsweredBy: "c1"}, nil
}

// The secret is sent to coordinators only: an agent on the same machine, which also has a certificate for the host, may
// have taken the port of a coordinator that is down.
func TestRaft_speaksToCoordinatorsOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	clitest.Done(t, "tls", "init", "--dir", dir)
	clitest.Done(t, "tls", "issue", "--dir", dir, "--role", "coordinator", "--id", "c1", "--host", "127.0.0.1")
	clitest.Done(t, "tls", "issue", "--dir", dir, "--role", "agent", "--id", "n1", "--host", "127.0.0.1")
	clitest.Done(t, "tls", "issue", "--dir", dir, "--role", "operator")
	for id, code := range map[string]int{"c1": 0, "n1": 1} {
		config, err := pki.FilesOf(dir, id).ServerTLS()
		require.NoError(t, err)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		answering := &peersOf{asked: make(chan struct{}, 1)}
		server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)))
		v1.RegisterOperatorServiceServer(server, answering)
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(server.Stop)
		_, stderr, got := clitest.Run(t, "raft", "peers", "--coordinators", listener.Addr().String(), "--secret", "s3cret", "--timeout", "500ms",
			"--cert", filepath.Join(dir, "operator.pem"), "--key", filepath.Join(dir, "operator-key.pem"), "--ca", filepath.Join(dir, "ca.pem"))
		require.Equal(t, code, got, stderr)
		require.Len(t, answering.asked, 1-code)
	}
}

func TestRaft_saysWhatIsMissing(t *testing.T) {
	clitest.NewGateway(t)
	health := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(health.Close)
	here := strings.TrimPrefix(health.URL, "http://")
	for _, c := range []struct{ flags, says string }{
		{"--coordinators 127.0.0.1:1 --ca ca.pem", "--cert is missing: --cert, --key and --ca go together"},
		{"--coordinators 127.0.0.1:1 --cert a.pem --ca ca.pem", "--key is missing"},
		{"--coordinators 127.0.0.1:1 --timeout 1s", "check that a majority of them runs"},
		{"--coordinators " + here + " --timeout 1s", "takes grpc_addr of coordinators, not the address of the gateway"},
		{"--coordinators " + clitest.HangingUp(t) + " --timeout 1s", "they may ask for a certificate"},
	} {
		require.Contains(t, clitest.Fails(t, append([]string{"raft", "peers"}, strings.Fields(c.flags)...)...), c.says, c.flags)
	}
}
