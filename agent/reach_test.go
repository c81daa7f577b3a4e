package agent

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// counted counts the connections that a listener takes.
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

// While nobody leads, all agents ask all coordinators again and again. None of that may cost a handshake.
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

func TestReach_silentCoordinatorsAreGivenTimeAndAskedLast(t *testing.T) {
	const usual = 2 * dialTimeout
	broken := errors.New("connection refused")
	type try struct {
		addr           string
		answered, held bool
		took           time.Duration
		why            error
	}
	for name, tc := range map[string]struct {
		tries   []try
		connect time.Duration // of c1, for the next try
		answer  time.Duration // of c1, when it is a second usually
		last    string
	}{
		"none was silent":                {nil, usual, time.Second, "c3"},
		"one refused":                    {[]try{{"c1", false, false, time.Millisecond, broken}}, usual, time.Second, "c3"},
		"one did not connect in time":    {[]try{{"c1", false, false, usual, broken}}, 2 * usual, 2 * time.Second, "c1"},
		"again":                          {[]try{{"c1", false, false, usual, broken}, {"c1", false, false, 2 * usual, broken}}, 4 * usual, 2 * time.Second, "c1"},
		"sooner than it had time for":    {[]try{{"c1", false, false, usual, broken}, {"c1", false, false, usual, broken}}, 2 * usual, 2 * time.Second, "c1"},
		"it took its time, and answered": {[]try{{"c1", true, false, usual, broken}}, usual, time.Second, "c3"},
		"it acknowledged nothing":        {[]try{{"c1", false, true, 4 * time.Second, errSilent}}, 2 * usual, 2 * time.Second, "c1"},
		"another one was silent":         {[]try{{"c2", false, false, usual, broken}}, usual, time.Second, "c2"},
		"since then a session lasted": {
			[]try{{"c1", false, false, usual, broken}, {"c2", true, true, slackKept, broken}}, usual, time.Second, "c3",
		},
		"since then a session lasted, not for long": {
			[]try{{"c1", false, false, usual, broken}, {"c2", true, true, slackKept - 1, broken}}, 2 * usual, 2 * time.Second, "c1",
		},
		"always": {
			[]try{{"c1", false, false, time.Hour, broken}, {"c1", false, false, time.Hour, broken}, {"c1", false, false, time.Hour, broken}, {"c1", false, false, time.Hour, broken}},
			8 * usual, 2 * time.Second, "c1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := reach{network: nowhere{}, creds: insecure.NewCredentials()}
			for _, try := range tc.tries {
				_, err := r.to(try.addr)
				require.NoError(t, err)
				r.tried(try.addr, try.answered, try.held, try.took, try.why)
				require.Equal(t, try.answered, r.conns[try.addr] != nil, "a connection over which nothing came is not kept")
			}
			require.Equal(t, tc.connect, r.connectTime("c1"))
			require.Equal(t, tc.answer, r.answerTime("c1", time.Second))
			list := []string{"c1", "c2", "c3"}
			r.order(list)
			require.Equal(t, tc.last, list[2])
			r.keep("")
			require.Empty(t, r.conns)
		})
	}
}

// nowhere is a network without anybody.
type nowhere struct{}

func (nowhere) Listen(string) (net.Listener, error) { return nil, errors.ErrUnsupported }
func (nowhere) Dial(context.Context, string) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}
