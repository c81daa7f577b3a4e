package taskservice

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskid"
	"github.com/mindcoordinator/mind/agent/tasklog"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

var task = taskid.ID{Job: "job_1", Attempt: 1}

// node is a node with one task, whose directory is dir.
type node struct {
	dir    string
	writer *tasklog.Writer
	life   context.Context
	stop   context.CancelFunc

	mu                        sync.Mutex
	starting, over, forgotten bool
	// asked is called by Ended.
	asked func()
}

func newNode(t *testing.T) (*node, *Service) {
	n := &node{dir: t.TempDir()}
	n.writer = tasklog.NewWriter(filepath.Join(n.dir, shim.LogDir), tasklog.Limits{})
	t.Cleanup(func() { n.writer.Close(time.Now()) })
	n.life, n.stop = context.WithCancel(t.Context())
	t.Cleanup(n.stop)
	return n, &Service{Node: "n1", Tasks: n, MetricsBytes: 1 << 20}
}

func (n *node) Find(job string, attempt, rank int32) (id taskid.ID, found, adopted bool) {
	id = taskid.ID{Job: job, Attempt: attempt, Rank: rank}
	return id, id == task, !n.starting
}

func (n *node) Ended(taskid.ID) (ended, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.asked != nil {
		n.asked()
	}
	return n.over, !n.forgotten
}

func (n *node) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

func (n *node) Dir(taskid.ID) string     { return n.dir }
func (n *node) Context() context.Context { return n.life }

// log appends lines to the log of the task.
func (n *node) log(lines ...string) {
	n.writer.Stream(tasklog.Stdout).Write(time.Now(), []byte(strings.Join(lines, "\n")+"\n"))
}

// stream collects the messages to a caller.
type stream[M proto.Message] struct {
	grpc.ServerStream
	ctx  context.Context
	mu   sync.Mutex
	sent []M
}

func (s *stream[M]) Context() context.Context { return s.ctx }

func (s *stream[M]) Send(m M) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, m)
	return nil
}

// lines returns the lines that were sent, and whether the stream has ended.
func lines(s *stream[*v1.ReadTaskLogsResponse]) (out []string, eof bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.sent {
		for _, e := range m.GetEntries() {
			out = append(out, e.GetLine())
		}
		eof = eof || m.GetEof()
	}
	return out, eof
}

func readLogs(t *testing.T, s *Service, req *v1.ReadTaskLogsRequest) (*stream[*v1.ReadTaskLogsResponse], error) {
	req.JobId, req.Attempt = task.Job, task.Attempt
	out := &stream[*v1.ReadTaskLogsResponse]{ctx: t.Context()}
	return out, s.ReadTaskLogs(req, out)
}

func requireCode(t *testing.T, want codes.Code, err error) {
	t.Helper()
	require.Equal(t, want.String(), status.Code(err).String(), "%v", err)
}

// A task may print its last lines after its reader has found no more and before the reader sees that it has ended: they
// are sent before the end.
func TestReadTaskLogs_theLastWordsComeBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, s := newNode(t)
		n.log("first")
		asked := 0
		n.asked = func() {
			if asked++; asked == 3 { // the reader saw it running twice; it ends here
				n.log("last words")
				n.over = true
			}
		}
		out, err := readLogs(t, s, &v1.ReadTaskLogsRequest{Follow: true})
		require.NoError(t, err)
		said, eof := lines(out)
		require.Equal(t, []string{"first", "last words"}, said)
		require.True(t, eof)
	})
}

// A reader that follows gets lines when they are printed; another one is told that there may be more.
func TestReadTaskLogs_follows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, s := newNode(t)
		n.log("one", "two")
		out, err := readLogs(t, s, &v1.ReadTaskLogsRequest{Tail: proto.Int32(1)})
		require.NoError(t, err)
		said, eof := lines(out)
		require.Equal(t, []string{"two"}, said)
		require.False(t, eof, "the task runs")
		require.NotNil(t, out.sent[0].Begins, "where a tail begins is said first")

		req := &v1.ReadTaskLogsRequest{JobId: task.Job, Attempt: task.Attempt, Follow: true, Offset: out.sent[0].GetBegins()}
		out = &stream[*v1.ReadTaskLogsResponse]{ctx: t.Context()}
		ended := make(chan error, 1)
		go func() { ended <- s.ReadTaskLogs(req, out) }()
		for _, line := range []string{"three", "four"} {
			n.log(line)
			time.Sleep(2 * pollMax)
			said, _ = lines(out)
			require.Equal(t, line, said[len(said)-1])
		}
		n.set(func() { n.over = true })
		require.NoError(t, <-ended)
		said, eof = lines(out)
		require.Equal(t, []string{"two", "three", "four"}, said)
		require.True(t, eof)
	})
}

// A task that is not known yet does not count as missing, a removed log does not count as complete, and an agent that
// stops returns an error that says so.
func TestReadTaskLogs_saysWhyItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, s := newNode(t)
		n.starting = true
		_, err := readLogs(t, s, &v1.ReadTaskLogsRequest{})
		requireCode(t, codes.Unavailable, err)
		n.starting = false
		requireCode(t, codes.NotFound, s.ReadTaskLogs(&v1.ReadTaskLogsRequest{JobId: "job_2", Attempt: 1}, nil))

		ends := map[string]struct {
			how  func(cancel func())
			code codes.Code
		}{
			"the caller goes":            {func(cancel func()) { cancel() }, codes.Canceled},
			"the directory was removed":  {func(func()) { n.set(func() { n.forgotten = true }) }, codes.NotFound},
			"the agent stops, and knows": {func(func()) { n.set(func() { n.forgotten = false }); n.stop() }, codes.Unavailable},
		}
		for _, name := range []string{"the caller goes", "the directory was removed", "the agent stops, and knows"} {
			n.set(func() { n.forgotten = false })
			ctx, cancel := context.WithCancel(t.Context())
			out, ended := &stream[*v1.ReadTaskLogsResponse]{ctx: ctx}, make(chan error, 1)
			go func() {
				ended <- s.ReadTaskLogs(&v1.ReadTaskLogsRequest{JobId: task.Job, Attempt: 1, Follow: true}, out)
			}()
			synctest.Wait() // the reader follows
			ends[name].how(cancel)
			err := <-ended
			require.Equal(t, ends[name].code.String(), status.Code(err).String(), "%s: %v", name, err)
			_, eof := lines(out)
			require.False(t, eof, name)
			cancel()
		}
	})
}

// An ended task whose directory is gone has no complete output, although the agent still knows the task.
func TestReadTaskLogs_directoryRemovedBehindTheAgent(t *testing.T) {
	n, s := newNode(t)
	n.log("hello")
	n.over = true
	require.NoError(t, os.RemoveAll(n.dir))
	out, err := readLogs(t, s, &v1.ReadTaskLogsRequest{})
	requireCode(t, codes.NotFound, err)
	_, eof := lines(out)
	require.False(t, eof)
}

// No message is larger than the usual limit, however long the lines are.
func TestReadTaskLogs_messagesAreBounded(t *testing.T) {
	n, s := newNode(t)
	var long []string
	for i := range 200 {
		long = append(long, fmt.Sprintf("%03d %s", i, strings.Repeat("x", 32<<10)))
	}
	n.log(long...)
	n.over = true
	out, err := readLogs(t, s, &v1.ReadTaskLogsRequest{})
	require.NoError(t, err)
	said, eof := lines(out)
	require.Equal(t, long, said)
	require.True(t, eof)
	require.Greater(t, len(out.sent), 5)
	for _, m := range out.sent {
		require.Less(t, proto.Size(m), 2*maxEntryBytes)
	}
}

func readMetrics(t *testing.T, s *Service, offset uint64) (texts []string, next uint64) {
	t.Helper()
	out := &stream[*v1.ReadTaskMetricsResponse]{ctx: t.Context()}
	require.NoError(t, s.ReadTaskMetrics(&v1.ReadTaskMetricsRequest{JobId: task.Job, Attempt: 1, Offset: offset}, out))
	for _, m := range out.sent {
		for _, e := range m.GetEntries() {
			texts, next = append(texts, e.GetJson()), e.GetOffset()
		}
	}
	return texts, next
}

// A reader continues where it was. Each reader is told once that the rest of the file is not read, even if it resumes.
func TestReadTaskMetrics_upToTheLimit(t *testing.T) {
	n, s := newNode(t)
	n.over = true
	path := filepath.Join(n.dir, shim.MetricsFile)
	require.NoError(t, os.WriteFile(path, []byte("{\"step\":1}\n{\"step\":2}\n"), 0o600))
	texts, next := readMetrics(t, s, 0)
	require.Equal(t, []string{`{"step":1}`, `{"step":2}`}, texts)
	texts, _ = readMetrics(t, s, next)
	require.Empty(t, texts)
	texts, _ = readMetrics(t, s, next/2)
	require.Equal(t, []string{`{"step":2}`}, texts)

	s.MetricsBytes = int64(next)
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString("{\"step\":3}\n")
	require.NoError(t, err)
	require.NoError(t, file.Close())
	texts, last := readMetrics(t, s, next)
	require.Len(t, texts, 1)
	require.Contains(t, texts[0], "metrics_bytes")
	texts, _ = readMetrics(t, s, last)
	require.Empty(t, texts, "it was said")
}

// If a task puts something else in place of its metrics file, the node does not read it, and an entry says so.
func TestReadTaskMetrics_whatIsNoFileIsNotRead(t *testing.T) {
	n, s := newNode(t)
	n.over = true
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("hunter2\n"), 0o600))
	require.NoError(t, os.Symlink(secret, filepath.Join(n.dir, shim.MetricsFile)))
	texts, _ := readMetrics(t, s, 0)
	require.Len(t, texts, 1)
	require.Contains(t, texts[0], "mind: the metrics of the task are not read")
	require.NotContains(t, texts[0], "hunter2")
}
