package client

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/devcluster/testrun"
)

// silentUntil returns the behaviour of a coordinator that does not answer until well is set.
func silentUntil(well *atomic.Bool) (serve func(context.Context, *member) error, health func(context.Context) (*healthpb.HealthCheckResponse, error)) {
	serve = func(ctx context.Context, m *member) error {
		if well.Load() {
			return leads(ctx, m)
		}
		return wedged(ctx, m)
	}
	health = func(ctx context.Context) (*healthpb.HealthCheckResponse, error) {
		if !well.Load() {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
	}
	return serve, health
}

// firstOf opens a stream and returns the address of the coordinator that answers.
func firstOf(ctx context.Context, c *Client) (string, error) {
	s, err := c.Jobs().StreamJobLogs(ctx, &v1.StreamJobLogsRequest{})
	if err != nil {
		return "", err
	}
	m, err := s.Recv()
	if err != nil {
		return "", err
	}
	return m.Entries[0].Message, nil
}

func TestNewStream_noneOpensAtACoordinatorThatIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		var well atomic.Bool
		serve, health := silentUntil(&well)
		a := f.add("a:1", serve)
		a.health = health
		b, c := f.add("b:1", leads), f.add("c:1", leads)
		client := f.dial(t, three)
		var lost time.Duration
		for range 60 {
			start := time.Now()
			_, err := firstOf(within(t, 30*time.Second), client)
			require.NoError(t, err)
			lost += time.Since(start)
			time.Sleep(time.Second)
		}
		require.Zero(t, a.calls.Load())
		require.Positive(t, b.calls.Load())
		require.Positive(t, c.calls.Load())
		require.LessOrEqual(t, lost, 8*time.Second, "it is asked more and more seldom")

		well.Store(true)
		require.Eventually(t, func() bool {
			_, err := firstOf(within(t, 30*time.Second), client)
			return err == nil && a.calls.Load() > 0
		}, 2*maxIllSilent, time.Second, "when it answers again, it is used again")
	})
}

func TestNewStream_whoDoesNotServeIsTheLastToBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a := f.add("a:1", leads)
		a.health = func(context.Context) (*healthpb.HealthCheckResponse, error) {
			return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_NOT_SERVING}, nil
		}
		b := f.add("b:1", leads)
		client := f.dial(t, three) // nobody at c:1
		for range 6 {
			who, err := firstOf(within(t, 10*time.Second), client)
			require.NoError(t, err)
			require.Equal(t, "b:1", who)
		}
		b.server.Stop()
		synctest.Wait() // until the client knows, it would open a stream there, which breaks
		who, err := firstOf(within(t, 10*time.Second), client)
		require.NoError(t, err)
		require.Equal(t, "a:1", who, "better than nobody")
	})
}

// A coordinator that answers a health check with an error is alive: its version may lack the service, or it refuses the
// caller.
func TestNewStream_anyAnswerIsOne(t *testing.T) {
	for _, code := range []codes.Code{codes.Unimplemented, codes.Unauthenticated, codes.PermissionDenied} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			f.add("a:1", leads).health = func(context.Context) (*healthpb.HealthCheckResponse, error) {
				return nil, grpcstatus.Error(code, "no")
			}
			who, err := firstOf(within(t, 10*time.Second), f.dial(t, Config{Addrs: []string{"a:1"}}))
			require.NoError(t, err)
			require.Equal(t, "a:1", who)
		})
	}
}

func TestInvoke_aSilentOneIsAskedMoreAndMoreSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		var well atomic.Bool
		serve, _ := silentUntil(&well)
		a := f.add("a:1", serve)
		f.add("b:1", func(ctx context.Context, _ *member) error { return answers(ctx, "7", "") }) // names no leader
		client := f.dial(t, Config{Addrs: []string{"a:1", "b:1"}})
		for range 60 {
			_, _, err := submit(client, within(t, 30*time.Second), "k")
			require.NoError(t, err)
			time.Sleep(time.Second)
		}
		require.LessOrEqual(t, a.calls.Load(), int64(9))
		well.Store(true)
		require.Eventually(t, func() bool {
			before := a.calls.Load()
			_, _, err := submit(client, within(t, 30*time.Second), "k")
			return err == nil && a.calls.Load() > before
		}, 2*maxIllSilent, time.Second)
		require.Zero(t, (*client.targets.Load())[0].silent.Load(), "and what was is forgotten")
	})
}

// severed is a connection on which nothing arrives any more when still is set, although it stays open.
type severed struct {
	net.Conn
	still *atomic.Bool
	ended context.Context
	end   context.CancelFunc // gRPC may close a connection from two goroutines at once
}

func (s severed) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if s.still.Load() && err == nil {
		<-s.ended.Done()
		return 0, net.ErrClosed
	}
	return n, err
}

func (s severed) Write(b []byte) (int, error) {
	if s.still.Load() {
		return len(b), nil
	}
	return s.Conn.Write(b)
}

func (s severed) Close() error {
	s.end()
	return s.Conn.Close()
}

// An open stream whose connection stops delivering ends with an error, and the next stream is opened elsewhere.
func TestNewStream_aChannelThatStandsStillHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		open := func(ctx context.Context, _ *member) error {
			<-ctx.Done()
			return ctx.Err()
		}
		f.add("a:1", open)
		f.add("b:1", leads)
		var still atomic.Bool
		client, err := Dial(Config{Addrs: []string{"a:1", "b:1"}, DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				conn, err := f.members[addr].lis.DialContext(ctx)
				if err != nil || addr != "a:1" {
					return conn, err
				}
				ended, end := context.WithCancel(context.Background())
				return severed{Conn: conn, still: &still, ended: ended, end: end}, nil
			}),
		}})
		require.NoError(t, err)
		defer func() { require.NoError(t, client.Close()) }()
		var s grpc.ServerStreamingClient[v1.StreamJobLogsResponse]
		for f.members["a:1"].calls.Load() == 0 { // until a stream is open there
			s, err = client.Jobs().StreamJobLogs(within(t, time.Hour), &v1.StreamJobLogsRequest{})
			require.NoError(t, err)
			synctest.Wait()
		}
		still.Store(true)
		start := time.Now()
		_, err = s.Recv()
		require.Equal(t, codes.Unavailable, grpcstatus.Code(err), "%v", err)
		require.LessOrEqual(t, time.Since(start), KeepaliveTime+3*time.Second)
		for range 6 {
			who, err := firstOf(within(t, time.Minute), client)
			require.NoError(t, err)
			require.Equal(t, "b:1", who)
			time.Sleep(2 * time.Second)
		}
		still.Store(false)
		require.Eventually(t, func() bool {
			before := f.members["a:1"].calls.Load()
			_, err := firstOf(within(t, 2*time.Second), client)
			return err != nil && f.members["a:1"].calls.Load() > before
		}, time.Minute, time.Second, "it is used again")
	})
}

// serveAlone is the environment variable that makes this test binary serve as a coordinator.
const serveAlone = "MIND_TEST_SERVE_ALONE"

func TestMain(m *testing.M) {
	if os.Getenv(serveAlone) == "" {
		os.Exit(testrun.Main(m.Run))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	alone := &member{addr: listener.Addr().String(), serve: leads}
	server := grpc.NewServer(ServerKeepalive()...)
	v1.RegisterJobServiceServer(server, jobService{member: alone})
	healthpb.RegisterHealthServer(server, healthService{member: alone})
	fmt.Println(alone.addr)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends when the parent ends
		server.Stop()
	}()
	_ = server.Serve(listener)
}

// The kernel accepts connections for a coordinator whose process is stopped. The client must not open streams there,
// and must use the coordinator again when it continues.
func TestNewStream_aProcessThatIsStopped(t *testing.T) {
	var addrs []string
	var processes []*os.Process
	for range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), serveAlone+"=1")
		cmd.Stderr = os.Stderr
		_, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		addr, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		addrs, processes = append(addrs, strings.TrimSpace(addr)), append(processes, cmd.Process)
	}
	client, err := Dial(Config{Addrs: addrs})
	require.NoError(t, err)
	defer client.Close()
	stopped := "none yet"
	// seen opens streams until one coordinator has answered twice, and returns all that answered.
	var failed error // of the last stream that failed
	seen := func() map[string]bool {
		who := map[string]bool{}
		for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
			s, err := client.Jobs().StreamJobLogs(within(t, 2*time.Minute), &v1.StreamJobLogsRequest{})
			if err != nil {
				failed = err
				continue // on a machine that stands still for a second no coordinator answers in time
			}
			m, err := s.Recv()
			if err != nil {
				// Keepalive ends a stream at the stopped coordinator, and on a machine that stands still a stream at
				// any coordinator.
				at, ok := peer.FromContext(s.Context())
				require.True(t, ok, err)
				require.NotEqual(t, stopped, at.Addr.String(), err)
				failed = err
				continue
			}
			if who[m.Entries[0].Message] {
				return who
			}
			who[m.Entries[0].Message] = true
		}
		return who
	}
	until := func(want func(map[string]bool) bool) {
		for end := time.Now().Add(2 * time.Minute); !want(seen()); {
			require.True(t, time.Now().Before(end), "it never came to what was awaited; the last stream that failed: %v", failed)
		}
	}
	for _, addr := range addrs {
		until(func(who map[string]bool) bool { return who[addr] })
	}
	stopped = addrs[0]
	require.NoError(t, processes[0].Signal(syscall.SIGSTOP))
	time.Sleep(freshFor) // afterwards it has to answer a health check first
	for range 9 {
		require.NotContains(t, seen(), addrs[0])
	}
	require.NoError(t, processes[0].Signal(syscall.SIGCONT))
	until(func(who map[string]bool) bool { return who[addrs[0]] })
}
