package agent

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// visitor is the client of a tunnel, over one or more streams.
type visitor struct {
	t       *testing.T
	client  v1.TaskServiceClient
	opening *v1.TunnelOpening
	user    string

	stream v1.TaskService_StreamTaskTunnelClient
	leave  context.CancelFunc
	got    [3]bytes.Buffer
	taken  uint64
	sent   uint64
	end    *v1.TunnelEnd
}

func visit(t *testing.T, client v1.TaskServiceClient, o *v1.TaskOrder, shell *v1.TunnelShell) *visitor {
	v := &visitor{t: t, client: client, user: "ann", opening: &v1.TunnelOpening{
		TunnelId: rand.Text(), JobId: o.GetTask().GetJobId(), Attempt: 1, Shell: shell,
	}}
	return v
}

// connect opens the tunnel, or goes on with it.
func (v *visitor) connect() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	v.t.Cleanup(cancel)
	v.leave = cancel
	var err error
	v.stream, err = v.client.StreamTaskTunnel(ctx)
	require.NoError(v.t, err)
	v.opening.StdoutReceived, v.opening.StderrReceived = uint64(v.got[1].Len()), uint64(v.got[2].Len())
	require.NoError(v.t, v.stream.Send(&v1.StreamTaskTunnelRequest{TenantId: "acme", UserId: v.user, Opening: v.opening}))
	m, err := v.stream.Recv()
	if err != nil {
		return err
	}
	v.opening.Resume = true
	v.taken = m.GetOutput().GetReady().GetStdinReceived()
	return nil
}

func (v *visitor) send(in *v1.TunnelInput) {
	_ = v.stream.Send(&v1.StreamTaskTunnelRequest{Input: in}) // the stream says why it has ended
}

func (v *visitor) typed(text string) {
	v.send(&v1.TunnelInput{Bytes: &v1.TunnelBytes{Offset: v.sent, Data: []byte(text)}})
	v.sent += uint64(len(text))
}

func (v *visitor) recv() error {
	m, err := v.stream.Recv()
	if err != nil {
		return err
	}
	out := m.GetOutput()
	if b := out.GetBytes(); b != nil {
		got := &v.got[b.GetChannel()]
		require.EqualValues(v.t, got.Len(), b.GetOffset(), "a gap or a repeat")
		got.Write(b.GetData())
		v.send(&v1.TunnelInput{StdoutReceived: uint64(v.got[1].Len()), StderrReceived: uint64(v.got[2].Len())})
	}
	v.taken = max(v.taken, out.GetStdinReceived())
	if v.end = out.GetEnd(); v.end != nil {
		v.send(&v1.TunnelInput{HangUp: true})
	}
	return nil
}

// until receives until something holds.
func (v *visitor) until(holds func() bool) {
	v.t.Helper()
	for !holds() {
		require.NoError(v.t, v.recv(), "so far: %.500q", v.got)
	}
}

func (v *visitor) ended() *v1.TunnelEnd {
	v.t.Helper()
	v.until(func() bool { return v.end != nil })
	return v.end
}

func (v *visitor) says(text string) {
	v.t.Helper()
	v.until(func() bool { return strings.Contains(v.got[1].String(), text) })
}

// runningTask starts a task that ends when the gate is opened.
func runningTask(t *testing.T) (l *fakeLeader, client v1.TaskServiceClient, o *v1.TaskOrder, open func()) {
	l = newLeader(t)
	inProcess(t, testConfig(t, l))
	gate := filepath.Join(t.TempDir(), "gate")
	o = order("sh", "-c", "while [ ! -e "+gate+" ]; do sleep 0.01; done")
	l.want(o)
	l.running(o.GetTask())
	return l, taskClient(t, l.hello(0)), o, func() { require.NoError(t, os.WriteFile(gate, nil, 0o600)) }
}

func TestTunnel_aCommandWithoutATerminal(t *testing.T) {
	_, client, o, _ := runningTask(t)
	v := visit(t, client, o, &v1.TunnelShell{Command: []string{"sh", "-c", `cat; echo oops >&2; echo $MIND_JOB_ID; exit 7`}})
	require.NoError(t, v.connect())
	v.typed("hello\n")
	v.send(&v1.TunnelInput{Bytes: &v1.TunnelBytes{Offset: v.sent, Eof: true}})
	require.EqualValues(t, 7, v.ended().GetExitCode())
	require.Equal(t, "hello\n"+o.GetTask().GetJobId()+"\n", v.got[1].String())
	require.Equal(t, "oops\n", v.got[2].String())
}

func TestTunnel_aTerminal(t *testing.T) {
	_, client, o, _ := runningTask(t)
	v := visit(t, client, o, &v1.TunnelShell{
		Command: []string{"sh", "-i"}, Terminal: true, Term: "xterm-test", Size: &v1.TunnelSize{Rows: 10, Columns: 40},
	})
	require.NoError(t, v.connect())
	v.typed("stty size; echo $TERM; tty\n")
	v.says("10 40\r\nxterm-test\r\n/dev/pts/")
	v.send(&v1.TunnelInput{Size: &v1.TunnelSize{Rows: 33, Columns: 101}})
	v.typed("stty size\n")
	v.says("33 101")
	v.typed("sh -c 'trap \"echo caught; exit 3\" INT; echo is $((40+2)); while :; do sleep 0.01; done'\n")
	v.says("is 42")
	v.typed("\x03") // Ctrl-C
	v.says("caught")
	v.typed("exit 5\n")
	require.EqualValues(t, 5, v.ended().GetExitCode())
}

// pump sends data as far as it may, and receives meanwhile; between, if set, is called after each message.
func (v *visitor) pump(data []byte, between func()) {
	eof := false
	for v.end == nil {
		for v.sent < uint64(len(data)) && v.sent < v.taken+256<<10 {
			n := min(uint64(len(data)), v.taken+256<<10, v.sent+32<<10)
			v.send(&v1.TunnelInput{Bytes: &v1.TunnelBytes{Offset: v.sent, Data: data[v.sent:n]}})
			v.sent = n
		}
		if v.sent == uint64(len(data)) && !eof {
			eof = true
			v.send(&v1.TunnelInput{Bytes: &v1.TunnelBytes{Offset: v.sent, Eof: true}})
		}
		require.NoError(v.t, v.recv())
		if between != nil && v.end == nil {
			before := v.stream
			if between(); v.stream != before {
				v.sent, eof = v.taken, false
			}
		}
	}
}

func randomBytes(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.Read(data)
	return data
}

func TestTunnel_bytesAreExact(t *testing.T) {
	_, client, o, _ := runningTask(t)
	data := randomBytes(4 << 20)
	v := visit(t, client, o, &v1.TunnelShell{Command: []string{"cat"}})
	require.NoError(t, v.connect())
	v.pump(data, nil)
	require.Zero(t, v.end.GetExitCode())
	require.Equal(t, sha256.Sum256(data), sha256.Sum256(v.got[1].Bytes()))
}

func TestTunnel_goesOnWithoutGapOrRepeat(t *testing.T) {
	_, client, o, _ := runningTask(t)
	data := randomBytes(2 << 20)
	v := visit(t, client, o, &v1.TunnelShell{Command: []string{"cat"}})
	require.NoError(t, v.connect())
	messages, breaks := 0, 0
	v.pump(data, func() {
		if messages++; messages%5 == 0 {
			breaks++
			v.leave()
			require.NoError(t, v.connect())
		}
	})
	require.Greater(t, breaks, 3)
	require.Equal(t, sha256.Sum256(data), sha256.Sum256(v.got[1].Bytes()))
}

func TestTunnel_anotherConnectionTakesOver(t *testing.T) {
	_, client, o, _ := runningTask(t)
	v := visit(t, client, o, &v1.TunnelShell{Command: []string{"cat"}})
	require.NoError(t, v.connect())
	first := v.stream
	require.NoError(t, v.connect())
	v.typed("x")
	v.says("x")
	for {
		if _, err := first.Recv(); err != nil {
			require.Equal(t, codes.FailedPrecondition, status.Code(err))
			break
		}
	}
	v.user = "eve"
	require.Equal(t, codes.NotFound, status.Code(v.connect()), "the tunnel of another user")
}

func pidIn(t *testing.T, text string) int {
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	require.NoError(t, err)
	return pid
}

func TestTunnel_endsWithItsTask(t *testing.T) {
	belowFull(t, "the numbers of its processes are those of its namespace")
	l, client, o, open := runningTask(t)
	v := visit(t, client, o, &v1.TunnelShell{Command: []string{"sh", "-c", `trap "" TERM HUP; echo $$; while :; do sleep 0.01; done`}})
	require.NoError(t, v.connect())
	v.says("\n")
	pid := pidIn(t, v.got[1].String())
	require.True(t, alive(pid))
	open()
	v.ended()
	exit := l.ended(o.GetTask())
	require.Zero(t, exit.GetExitCode(), "the shell has no part in the task's end")
	require.Eventually(t, func() bool { return !alive(pid) }, 10*time.Second, time.Millisecond)
	again := visit(t, client, o, &v1.TunnelShell{Command: []string{"true"}})
	err := again.connect()
	require.Equal(t, codes.FailedPrecondition, status.Code(err), "%v", err)
}

func TestTunnel_hangingUpEndsTheShell(t *testing.T) {
	belowFull(t, "the numbers of its processes are those of its namespace")
	_, client, o, _ := runningTask(t)
	v := visit(t, client, o, &v1.TunnelShell{Command: []string{"sh", "-c", `trap "" TERM HUP; echo $$; sleep 1000 & wait`}})
	require.NoError(t, v.connect())
	v.says("\n")
	pid := pidIn(t, v.got[1].String())
	v.send(&v1.TunnelInput{HangUp: true})
	require.Eventually(t, func() bool { return !alive(pid) }, 30*time.Second, time.Millisecond)
}

func TestTunnel_whatCannotStart(t *testing.T) {
	_, client, o, _ := runningTask(t)
	for command, want := range map[string]string{"no-such-program": `program "no-such-program" was not found`, "/etc/passwd": "is not executable"} {
		err := visit(t, client, o, &v1.TunnelShell{Command: []string{command}}).connect()
		require.Equal(t, codes.FailedPrecondition, status.Code(err), "%v", err)
		require.ErrorContains(t, err, want)
	}
}

func TestTunnel_limits(t *testing.T) {
	_, client, o, _ := runningTask(t)
	var all []*visitor
	for range 16 {
		v := visit(t, client, o, &v1.TunnelShell{Command: []string{"cat"}})
		require.NoError(t, v.connect())
		all = append(all, v)
	}
	err := visit(t, client, o, &v1.TunnelShell{Command: []string{"cat"}}).connect()
	require.Equal(t, codes.ResourceExhausted, status.Code(err), "%v", err)
	for i, v := range all {
		v.typed(fmt.Sprint(i))
		v.says(fmt.Sprint(i))
		v.send(&v1.TunnelInput{HangUp: true})
	}
	require.Eventually(t, func() bool {
		return visit(t, client, o, &v1.TunnelShell{Command: []string{"cat"}}).connect() == nil
	}, 30*time.Second, time.Millisecond)
	over := visit(t, client, o, &v1.TunnelShell{Command: []string{"sleep", "100"}})
	require.NoError(t, over.connect())
	over.typed(strings.Repeat("x", 512<<10))
	for err = nil; err == nil; err = over.recv() {
	}
	require.Equal(t, codes.InvalidArgument, status.Code(err))
}
