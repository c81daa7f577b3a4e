package agent

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gossip"
	"github.com/mindcoordinator/mind/pki"
)

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

func TestHealthAndMetrics(t *testing.T) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.GPUs, cfg.HTTPAddr = "2xH100", "127.0.0.1:0"
	inProcess(t, cfg)
	o := order("true")
	l.want(o)
	l.ended(o.GetTask())
	base := "http://" + l.hello(0).GetHttpAddr()
	code, _ := get(t, base+"/health")
	require.Equal(t, http.StatusOK, code)
	code, _ = get(t, base+"/health/ready")
	require.Equal(t, http.StatusOK, code)
	_, body := get(t, base+"/metrics")
	for !strings.Contains(body, "mind_gpu_utilization_ratio{") {
		time.Sleep(10 * time.Millisecond) // no event signals that the sensors were read
		_, body = get(t, base+"/metrics")
	}
	for _, want := range []string{
		`mind_gpu_utilization_ratio{gpu="1",model="NVIDIA H100 80GB HBM3",uuid="GPU-sim-n1-1"} 0`, "mind_gpu_memory_used_bytes{", "mind_gpu_temperature_celsius{",
		"mind_gpu_power_watts{", "mind_gpu_xid_errors_total{", `mind_agent_tasks_ended_total{how="succeeded"} 1`, "mind_agent_launch_seconds_count 1", "mind_agent_in_session 1",
		"mind_agent_lease_age_seconds ", "mind_agent_running_on 0", "mind_agent_relayed_total 0",
	} {
		require.Contains(t, body, want)
	}
	l.server.Stop()
	require.Eventually(t, func() bool {
		code, _ := get(t, base+"/health/ready")
		return code == http.StatusServiceUnavailable
	}, 30*time.Second, time.Millisecond)
}

func TestOnlyCoordinatorsComeIn(t *testing.T) {
	dir := t.TempDir()
	ca, err := pki.CreateCA(dir)
	require.NoError(t, err)
	issue := func(id, role string) pki.Files {
		files, err := ca.Issue(dir, id, role)
		require.NoError(t, err)
		return files
	}
	serverTLS, err := issue("c1", pki.RoleCoordinator).ServerTLS()
	require.NoError(t, err)
	l := newLeader(t, grpc.Creds(credentials.NewTLS(serverTLS)))
	cfg := testConfig(t, l)
	cfg.TLS = issue("n1", pki.RoleAgent)
	inProcess(t, cfg)
	o := order("sh", "-c", "echo hello")
	l.want(o)
	l.ended(o.GetTask())

	read := func(files pki.Files) error {
		clientTLS, err := files.ClientTLS()
		require.NoError(t, err)
		conn, err := grpc.NewClient(l.hello(0).GetGrpcAddr(), grpc.WithTransportCredentials(credentials.NewTLS(clientTLS)))
		require.NoError(t, err)
		defer conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		stream, err := v1.NewTaskServiceClient(conn).ReadTaskLogs(ctx, &v1.ReadTaskLogsRequest{JobId: o.GetTask().GetJobId(), Attempt: 1})
		if err != nil {
			return err
		}
		_, err = stream.Recv()
		return err
	}
	require.NoError(t, read(issue("c2", pki.RoleCoordinator)))
	require.Equal(t, codes.Unavailable, status.Code(read(issue("gw", pki.RoleGateway))), "a gateway was let in")
	require.Equal(t, codes.PermissionDenied, status.Code(read(issue("n2", pki.RoleAgent))), "another agent was let in")
}

func TestAnImpostorIsNoCoordinator(t *testing.T) {
	dir := t.TempDir()
	ca, err := pki.CreateCA(dir)
	require.NoError(t, err)
	files, err := ca.Issue(dir, "n2", pki.RoleAgent)
	require.NoError(t, err)
	serverTLS, err := files.ServerTLS()
	require.NoError(t, err)
	impostor := newLeader(t, grpc.Creds(credentials.NewTLS(serverTLS)))
	coordinator, err := ca.Issue(dir, "c1", pki.RoleCoordinator)
	require.NoError(t, err)
	realTLS, err := coordinator.ServerTLS()
	require.NoError(t, err)
	l := newLeader(t, grpc.Creds(credentials.NewTLS(realTLS)))
	cfg := testConfig(t, impostor, l)
	cfg.TLS, err = ca.Issue(dir, "n1", pki.RoleAgent)
	require.NoError(t, err)
	inProcess(t, cfg)
	l.hello(0)
	require.Zero(t, impostor.said())
}

func TestTheAgentIsSeenInGossip(t *testing.T) {
	t.Parallel()
	pool, err := gossip.Start(gossip.Config{Name: "c1", Role: pki.RoleCoordinator, Bind: "127.0.0.1:0", SecretKey: []byte(strings.Repeat("k", 32))})
	require.NoError(t, err)
	t.Cleanup(func() { _ = pool.Leave(context.Background()) })
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.GossipAddr, cfg.GossipJoin, cfg.GossipKey = "127.0.0.1:0", []string{pool.Addr()}, []byte(strings.Repeat("k", 32))
	stop := inProcess(t, cfg)
	state := func() gossip.State {
		for _, m := range pool.Members() {
			if m.Name == "n1" && m.Role == pki.RoleAgent {
				return m.State
			}
		}
		return ""
	}
	require.Eventually(t, func() bool { return state() == gossip.Alive }, 30*time.Second, time.Millisecond)
	stop()
	require.Eventually(t, func() bool { return state() == gossip.Left }, 30*time.Second, time.Millisecond)
}

func TestConfigurationFaultsAreAllNamed(t *testing.T) {
	err := Run(context.Background(), Config{CPUs: -1})
	for _, want := range []string{"node id", "data directory", "coordinator", "cpus"} {
		require.ErrorContains(t, err, want)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.GRPCAddr = listener.Addr().String()
	require.ErrorContains(t, Run(context.Background(), cfg), "listen for coordinators")
	cfg = testConfig(t, l)
	cfg.GPUs = "8H100"
	require.ErrorContains(t, Run(context.Background(), cfg), "want COUNTxMODEL")
}
