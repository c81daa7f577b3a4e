package agent

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func taskClient(t *testing.T, hello *v1.Hello) v1.TaskServiceClient {
	conn, err := grpc.NewClient(hello.GetGrpcAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return v1.NewTaskServiceClient(conn)
}

func readLog(t *testing.T, client v1.TaskServiceClient, req *v1.ReadTaskLogsRequest) (lines []string, offset uint64, eof bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	stream, err := client.ReadTaskLogs(ctx, req)
	require.NoError(t, err)
	for {
		response, err := stream.Recv()
		if err == io.EOF {
			return lines, offset, eof
		}
		require.NoError(t, err)
		eof = response.GetEof()
		for _, e := range response.GetEntries() {
			prefix := ""
			if e.GetStderr() {
				prefix = "!"
			}
			lines = append(lines, prefix+e.GetLine())
			offset = e.GetOffset()
		}
	}
}

func TestLogsAreServed(t *testing.T) {
	l := newLeader(t)
	inProcess(t, testConfig(t, l))
	gate := filepath.Join(t.TempDir(), "gate")
	o := order("sh", "-c", "echo one; echo two >&2; while [ ! -e "+gate+" ]; do sleep 0.01; done; echo three")
	l.want(o)
	l.running(o.GetTask())
	client := taskClient(t, l.hello(0))
	req := func() *v1.ReadTaskLogsRequest {
		return &v1.ReadTaskLogsRequest{JobId: o.GetTask().GetJobId(), Attempt: 1}
	}
	var offset uint64
	require.Eventually(t, func() bool {
		lines, at, eof := readLog(t, client, req())
		offset = at
		return len(lines) == 2 && !eof
	}, 30*time.Second, time.Millisecond)

	follow := req()
	follow.Follow, follow.Offset = true, offset
	done := make(chan []string, 1)
	go func() {
		lines, _, eof := readLog(t, client, follow)
		done <- append(lines, strconv.FormatBool(eof))
	}()
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	require.Equal(t, []string{"three", "true"}, <-done)

	l.ended(o.GetTask())
	l.want()
	tail := req()
	n := int32(2)
	tail.Tail = &n
	lines, _, eof := readLog(t, client, tail)
	require.Len(t, lines, 2)
	require.Equal(t, "three", lines[1])
	require.True(t, eof)

	other := req()
	other.Attempt = 2
	stream, err := client.ReadTaskLogs(context.Background(), other)
	require.NoError(t, err)
	_, err = stream.Recv()
	require.ErrorContains(t, err, "node n1 has no task")
}

func TestWhatATrainingWrites(t *testing.T) {
	l := newLeader(t)
	inProcess(t, testConfig(t, l))
	gate := filepath.Join(t.TempDir(), "gate")
	o := order("sh", "-c", `
		echo '{"step": 10, "loss": 0.5}' >> $MIND_METRICS_FILE
		echo '{"step": 20, "loss": NaN}' >> $MIND_METRICS_FILE
		echo 'noise' >> $MIND_METRICS_FILE
		mkdir $MIND_CHECKPOINT_DIR/.part $MIND_CHECKPOINT_DIR/other.tmp
		echo data > $MIND_CHECKPOINT_DIR/.part/w; mkdir $MIND_CHECKPOINT_DIR/.part/sub; echo more > $MIND_CHECKPOINT_DIR/.part/sub/x
		mv $MIND_CHECKPOINT_DIR/.part $MIND_CHECKPOINT_DIR/checkpoint-20
		echo '{"event": "phase", "phase": "EVALUATING"}' >> $MIND_EVENTS_FILE
		while [ ! -e `+gate+` ]; do sleep 0.01; done
		mkdir own; echo abc > own/f
		echo '{"event": "checkpoint", "path": "'$PWD'/own", "step": 30, "metrics": {"loss": 0.1}}' >> $MIND_EVENTS_FILE
		echo '{"event": "progress", "step": 40, "total_steps": 100}' >> $MIND_EVENTS_FILE`)
	o.Spec.Job.CommandConfig.Cwd = t.TempDir()
	l.want(o)
	ref := o.GetTask()
	phase := l.reported(ref, "phase", func(r *v1.Report) bool { return r.GetPhase() != nil })
	require.Equal(t, v1.JobPhase_EVALUATING, phase.GetPhase().GetPhase())
	l.reported(ref, "progress", func(r *v1.Report) bool { return r.GetProgress().GetStep() == 20 })
	c := l.reported(ref, "checkpoint", func(r *v1.Report) bool { return r.GetCheckpoint().GetStep() == 20 }).GetCheckpoint()
	require.Equal(t, "checkpoint-20", filepath.Base(c.GetPath()))
	require.EqualValues(t, 10, c.GetSizeBytes())
	require.Len(t, c.GetManifestDigest(), 64)
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	require.Zero(t, l.ended(ref).GetExitCode())
	own := l.reported(ref, "own checkpoint", func(r *v1.Report) bool { return r.GetCheckpoint().GetStep() == 30 }).GetCheckpoint()
	require.JSONEq(t, `{"loss": 0.1}`, own.GetMetricsJson())
	l.reported(ref, "progress", func(r *v1.Report) bool {
		return r.GetProgress().GetStep() == 40 && r.GetProgress().GetTotalSteps() == 100
	})
	kinds := l.kinds(ref)
	require.Equal(t, "Ended", kinds[len(kinds)-1], "something was said after the end: %v", kinds)
	checkpoints := 0
	for _, k := range kinds {
		if k == "Checkpoint" {
			checkpoints++
		}
	}
	require.Equal(t, 2, checkpoints)

	stream, err := taskClient(t, l.hello(0)).ReadTaskMetrics(context.Background(), &v1.ReadTaskMetricsRequest{JobId: ref.GetJobId(), Attempt: 1})
	require.NoError(t, err)
	response, err := stream.Recv()
	require.NoError(t, err)
	require.Len(t, response.GetEntries(), 3)
	require.JSONEq(t, `{"step": 20, "loss": null}`, response.GetEntries()[1].GetJson())
	require.Equal(t, "noise", response.GetEntries()[2].GetJson(), "the gateway makes a line of it")
	response, err = stream.Recv()
	require.NoError(t, err)
	require.True(t, response.GetEof())

	// The next attempt uses the same directory: the existing files are not its own.
	next := order("true")
	next.Task.JobId, next.Task.Attempt = ref.GetJobId(), 2
	l.want(next)
	l.ended(next.GetTask())
	require.Equal(t, []string{"Running", "Ended"}, l.course(next.GetTask()))
}

// A power cut may destroy the record of a task's exit, and leave the record that the coordinators know the end.
func TestALogIsKeptThoughNobodyKnowsWhenItsTaskEnded(t *testing.T) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	stop := inProcess(t, cfg)
	o := order("sh", "-c", "echo kept")
	l.want(o)
	l.ended(o.GetTask())
	dir := filepath.Join(cfg.DataDir, "tasks", taskid.Of(o.GetTask()).Name())
	l.await("that the agent notes the acknowledgement", func() bool {
		spec, err := shim.ReadSpec(dir)
		return err == nil && spec.Acked
	})
	l.want()
	stop()
	require.NoError(t, os.Truncate(filepath.Join(dir, shim.ExitFile), 0))
	inProcess(t, cfg)
	lines, _, eof := readLog(t, taskClient(t, l.hello(1)), &v1.ReadTaskLogsRequest{JobId: o.GetTask().GetJobId(), Attempt: 1})
	require.Equal(t, []string{"kept"}, lines)
	require.True(t, eof)
}

func TestRetentionKeepsTheNewest(t *testing.T) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.KeepTasks = 5
	inProcess(t, cfg)
	for range 40 {
		o := order("true")
		l.want(o)
		l.ended(o.GetTask())
	}
	l.want()
	require.Eventually(t, func() bool {
		entries, err := os.ReadDir(filepath.Join(cfg.DataDir, "tasks"))
		return err == nil && len(entries) < 25
	}, 30*time.Second, time.Millisecond)
}

// metricsOf reads the metrics of a task to their end.
func metricsOf(t *testing.T, client v1.TaskServiceClient, req *v1.ReadTaskMetricsRequest) (lines []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	stream, err := client.ReadTaskMetrics(ctx, req)
	require.NoError(t, err)
	for {
		response, err := stream.Recv()
		if err == io.EOF {
			return lines
		}
		require.NoError(t, err)
		for _, e := range response.GetEntries() {
			lines = append(lines, e.GetJson())
		}
	}
}
