package agent

import (
	"crypto/rand"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// TestTunnel_taskThatListens is no test: it is the program of a task, which answers each connection with what it gets.
func TestTunnel_taskThatListens(t *testing.T) {
	file := os.Getenv("TUNNEL_LISTENS")
	if file == "" {
		t.Skip("this is the program of a task")
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file+".part", []byte(strconv.Itoa(lis.Addr().(*net.TCPAddr).Port)), 0o600))
	require.NoError(t, os.Rename(file+".part", file))
	for {
		conn, err := lis.Accept()
		require.NoError(t, err)
		buf := make([]byte, 1024)
		n, _ := conn.Read(buf)
		_, _ = conn.Write(append([]byte("got "), buf[:n]...))
		_ = conn.Close()
	}
}

func TestTunnel_ports(t *testing.T) {
	l := newLeader(t)
	inProcess(t, testConfig(t, l))
	file := t.TempDir() + "/port"
	o := order(os.Args[0], "-test.run=TestTunnel_taskThatListens")
	o.Spec.Job.CommandConfig.Environment = map[string]string{"TUNNEL_LISTENS": file}
	l.want(o)
	l.running(o.GetTask())
	var port int
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(file)
		port, _ = strconv.Atoi(string(text))
		return err == nil
	}, 30*time.Second, time.Millisecond)
	client := taskClient(t, l.hello(0))
	at := func(port int) *visitor {
		v := visit(t, client, o, nil)
		v.opening = &v1.TunnelOpening{TunnelId: rand.Text(), JobId: o.GetTask().GetJobId(), Attempt: 1, Port: int32(port)}
		return v
	}
	v := at(port)
	require.NoError(t, v.connect())
	v.typed("hello")
	v.ended()
	require.Equal(t, "got hello", v.got[1].String())

	other, err := net.Listen("tcp", "127.0.0.1:0") // of this process, which is the agent
	require.NoError(t, err)
	defer other.Close()
	for _, port := range []int{other.Addr().(*net.TCPAddr).Port, 1, 70000} {
		err := at(port).connect()
		require.Contains(t, []codes.Code{codes.FailedPrecondition, codes.InvalidArgument}, status.Code(err), "%v", err)
	}
}
