package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// A report that cannot be encoded would end every session.
func TestAnEventThatNobodyCanTellHoldsUpNothing(t *testing.T) {
	withoutWalls(t, "a task makes no files in its directory")
	l := newLeader(t)
	inProcess(t, testConfig(t, l))
	o := order("sh", "-c", `mkdir c; echo x > c/f
		printf '{"event": "checkpoint", "path": "c", "metrics": {"a": "\377"}}\n' >> $MIND_EVENTS_FILE
		printf '{"event": "evaluation_result", "benchmark": "\377", "metrics": {"a": 1}}\n' >> $MIND_EVENTS_FILE
		printf 'GPU \377\n' > $(dirname $MIND_EVENTS_FILE)/gpu-fault
		printf '{"event": "phase", "phase": "EVALUATING"}\n' >> $MIND_EVENTS_FILE
		sleep 0.6; exit 3`)
	o.Spec.Job.CommandConfig.Cwd = t.TempDir()
	l.want(o)
	require.Contains(t, l.ended(o.GetTask()).GetErrorMessage(), "GPU \uFFFD")
	require.Contains(t, l.kinds(o.GetTask()), "Phase")
	next := order("true")
	l.want(next)
	require.Zero(t, l.ended(next.GetTask()).GetExitCode())
}

// The end of a task is reported, and the next task launched, whatever the first left in place of its files.
func TestTheEndOfATaskIsToldWhateverItLeaves(t *testing.T) {
	withoutWalls(t, "a task makes no files in its directory")
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.MetricsBytes, cfg.EventsBytes = 1<<20, 1<<20
	stop := inProcess(t, cfg)
	secret := secretOf(t)
	orders := []*v1.TaskOrder{}
	for _, attack := range []string{
		`truncate -s 30G $MIND_METRICS_FILE $MIND_EVENTS_FILE`,
		`ln -s ` + secret + ` $MIND_METRICS_FILE; ln -s ` + secret + ` $MIND_EVENTS_FILE`,
		`mkfifo $MIND_METRICS_FILE $MIND_EVENTS_FILE`,
		`mkdir $MIND_METRICS_FILE $MIND_EVENTS_FILE`,
		`head -c 20000000 /dev/urandom > $MIND_METRICS_FILE; head -c 20000000 /dev/zero > $MIND_EVENTS_FILE`,
		`cd $(dirname $MIND_METRICS_FILE); for f in reports archived.json withdrawn gpu-fault baseline.json registered; do ln -sf ` + secret + ` $f; done`,
		`cd $(dirname $MIND_METRICS_FILE); for f in reports archived.json baseline.json registered; do rm -f $f; mkfifo $f; done`,
		`cd $(dirname $MIND_METRICS_FILE); rm task; mkfifo task exit.json`,
		`cd $(dirname $MIND_METRICS_FILE); mkdir -p exit.json/x reports/x withdrawn/x`,
		`cd $(dirname $MIND_METRICS_FILE); rm task; ln -s ` + secret + ` task; ln -s ` + secret + ` exit.json; ln -s ` + secret + ` exit.json.new`,
		`mkfifo $MIND_CHECKPOINT_DIR/fifo; ln -s / $MIND_CHECKPOINT_DIR/root; mkdir $MIND_CHECKPOINT_DIR/tmp-c; ln -s / $MIND_CHECKPOINT_DIR/tmp-c/root; mv $MIND_CHECKPOINT_DIR/tmp-c $MIND_CHECKPOINT_DIR/c`,
		`rmdir $MIND_CHECKPOINT_DIR; ln -s / $MIND_CHECKPOINT_DIR`,
	} {
		orders = append(orders, order("sh", "-c", attack+"; exit 3"))
	}
	l.want(orders...)
	for i, o := range orders {
		require.EqualValues(t, 3, l.ended(o.GetTask()).GetExitCode(), "attack %d: %s", i, l.ended(o.GetTask()).GetErrorMessage())
	}
	text, err := os.ReadFile(secret)
	require.NoError(t, err)
	require.Contains(t, string(text), "666666666")
	require.NotContains(t, string(text), "acked", "nothing was written through a link")
	for _, o := range orders {
		require.NotContains(t, fmt.Sprint(l.kinds(o.GetTask())), "Phase", "the secret was read")
	}

	// The next agent adopts the tasks, and serves the files that they left.
	l.want()
	stop()
	inProcess(t, cfg)
	client := taskClient(t, l.hello(1))
	for i, o := range orders {
		lines := metricsOf(t, client, &v1.ReadTaskMetricsRequest{JobId: o.GetTask().GetJobId(), Attempt: 1})
		require.NotContains(t, strings.Join(lines, "\n"), "666666666", "attack %d", i)
		require.False(t, slices.ContainsFunc(lines, func(line string) bool { return len(line) > 8<<10 }), "attack %d", i)
		_, _, eof := readLog(t, client, &v1.ReadTaskLogsRequest{JobId: o.GetTask().GetJobId(), Attempt: 1})
		require.True(t, eof, "attack %d", i)
	}
	require.Equal(t, []string{"mind: the metrics of the task are not read: it is not a regular file"}, metricsOf(t, client, &v1.ReadTaskMetricsRequest{JobId: orders[1].GetTask().GetJobId(), Attempt: 1}))
	sparse := metricsOf(t, client, &v1.ReadTaskMetricsRequest{JobId: orders[0].GetTask().GetJobId(), Attempt: 1})
	require.Equal(t, []string{"mind: the task's metrics are longer than 1 MiB: the rest is not read (metrics_bytes of the agent)"}, sparse)
}

func TestWhatIsNotReadIsSaidInTheTasksLog(t *testing.T) {
	withoutWalls(t, "a task makes no files in its directory")
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.EventsBytes = 1 << 20
	inProcess(t, cfg)
	gate := filepath.Join(t.TempDir(), "gate")
	o := order("sh", "-c", `head -c 2000000 /dev/zero | tr '\0' '\n' >> $MIND_EVENTS_FILE; mkfifo $MIND_METRICS_FILE
		echo first; while [ ! -e `+gate+` ]; do sleep 0.01; done; echo last`)
	l.want(o)
	l.running(o.GetTask())
	client := taskClient(t, l.hello(0))
	req := &v1.ReadTaskLogsRequest{JobId: o.GetTask().GetJobId(), Attempt: 1}
	want := []string{
		"!mind: events.jsonl of this task is longer than 1 MiB: the rest is not read (events_bytes of the agent)",
		"!mind: metrics.jsonl of this task is not read: it is not a regular file",
	}
	require.Eventually(t, func() bool {
		lines, _, _ := readLog(t, client, req)
		return len(lines) == 3 && slices.Equal(lines[1:], want)
	}, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	l.ended(o.GetTask())
	lines, _, eof := readLog(t, client, req)
	require.True(t, eof)
	require.Equal(t, append(append([]string{"first"}, want...), "last"), lines, "said once")
}

// secretOf makes a file that tasks may not read. It contains a step and a phase that no task reports, so that a report
// shows if it was read.
func secretOf(t *testing.T) (name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(name, []byte(`{"step": 666666666, "event": "phase", "phase": "EXPORTING"}`+"\n"), 0o600))
	return name
}
