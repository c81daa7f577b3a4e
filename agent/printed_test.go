package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// A script that was not written for Mind prints the lines of nanoGPT and tqdm. Its agent is killed meanwhile, and each
// line counts once.
func TestPrinted_numbersSurviveTheAgent(t *testing.T) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	first := process(t, cfg)
	gates := filepath.Join(t.TempDir(), "gate")
	o := order("sh", "-c", `
		echo 'iter 1: loss 4.0, time 12.30ms, mfu -100.00%'
		echo 'iter 2: loss 3.0, time 12.30ms, mfu 1.25%'
		while [ ! -e `+gates+`1 ]; do sleep 0.01; done
		echo 'step 3: train loss 2.5, val loss 2.75'
		echo 'iter 3: loss 2.0, time 12.30ms, mfu 1.25%' >&2
		touch `+gates+`2
		while [ ! -e `+gates+`3 ]; do sleep 0.01; done
		printf '\r 50%%|##  | 4/8 [00:01<00:01, 1.00it/s, loss=1.5]\r 50%%|##  | 5/8 [00:01<00:01, 1.00it/s, loss=1.0]'`)
	l.want(o)
	l.running(o.GetTask())
	has := func(hello int, want ...float64) {
		t.Helper()
		client := taskClient(t, l.hello(hello))
		require.Eventually(t, func() bool { return len(values(seriesOf(t, client, o.GetTask())["loss"])) == len(want) }, 30*time.Second, 10*time.Millisecond)
		require.Equal(t, want, values(seriesOf(t, client, o.GetTask())["loss"]))
	}
	has(0, 4, 3)
	require.NoError(t, first.Process.Kill())
	_ = first.Wait()
	require.NoError(t, os.WriteFile(gates+"1", nil, 0o600))
	require.Eventually(t, func() bool { _, err := os.Stat(gates + "2"); return err == nil }, 30*time.Second, time.Millisecond)
	process(t, cfg)
	has(1, 4, 3, 2)
	require.NoError(t, os.WriteFile(gates+"3", nil, 0o600))
	require.Zero(t, l.ended(o.GetTask()).GetExitCode())
	has(1, 4, 3, 2, 1.5, 1)
	all := seriesOf(t, taskClient(t, l.hello(1)), o.GetTask())
	require.Equal(t, []float64{2.75}, values(all["val_loss"]))
	require.Equal(t, []float64{1.25, 1.25}, values(all["mfu"]))
	require.EqualValues(t, 5, all["loss"].GetPoints()[4].GetStep())
}

// A pattern that cannot be read is said to the task's user.
func TestPrinted_aWrongPatternIsSaid(t *testing.T) {
	l := newLeader(t)
	inProcess(t, testConfig(t, l))
	o := order("sh", "-c", "echo step=1 loss=1; exec sleep 1000")
	o.Spec.GetJob().GetCommandConfig().Environment = map[string]string{"MIND_METRICS_PATTERN": "loss ("}
	l.want(o)
	l.running(o.GetTask())
	client := taskClient(t, l.hello(0))
	require.Eventually(t, func() bool {
		lines, _, _ := readLog(t, client, &v1.ReadTaskLogsRequest{JobId: o.GetTask().GetJobId(), Attempt: 1})
		return strings.Contains(strings.Join(lines, "\n"), "mind: no metrics are read from what this task prints: read MIND_METRICS_PATTERN: error parsing regexp")
	}, 30*time.Second, 10*time.Millisecond)
	l.want()
}
