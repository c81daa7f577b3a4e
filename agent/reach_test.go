package agent

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
)

// counted counts the connections that a listener accepts.
type counted struct {
	net.Listener
	taken atomic.Int64
}

func (c *counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.taken.Add(1)
	}
	return conn, err
}

// While there is no leader, all agents ask all coordinators repeatedly. Repeated questions must not cost a handshake.
func TestReach_asksAgainOverTheSameConnection(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	door := &counted{Listener: listener}
	var asked atomic.Int64
	l := serveLeader(t, door, 1, grpc.StreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		asked.Add(1)
		return handler(srv, ss)
	}))
	l.change(func() { l.refuse = l.addr })
	inProcess(t, testConfig(t, l))
	require.Eventually(t, func() bool { return asked.Load() >= 6 }, 30*time.Second, time.Millisecond)
	l.change(func() { l.refuse = "" })
	l.await("a heartbeat", func() bool { return l.beats > 0 })
	require.EqualValues(t, 1, door.taken.Load())
}
