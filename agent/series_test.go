package agent

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/device"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// seriesOf reads the series of a task by name.
func seriesOf(t *testing.T, client v1.TaskServiceClient, ref *v1.TaskRef) map[string]*v1.MetricSeries {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	answer, err := client.ReadTaskSeries(ctx, &v1.ReadTaskSeriesRequest{JobId: ref.GetJobId(), Attempt: 1, Points: 100})
	require.NoError(t, err)
	byName := make(map[string]*v1.MetricSeries)
	for _, one := range answer.GetSeries() {
		byName[one.GetName()] = one
	}
	return byName
}

// values returns the values of a series that is short enough to have all of them.
func values(one *v1.MetricSeries) (all []float64) {
	for _, p := range one.GetPoints() {
		all = append(all, p.GetLast())
	}
	return all
}

// The agent is killed while a task writes; the next agent continues with the saved series, and each line counts once.
func TestSeries_surviveTheAgent(t *testing.T) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	first := process(t, cfg)
	gates := filepath.Join(t.TempDir(), "gate")
	o := order("sh", "-c", `
		echo '{"step": 1, "loss": 4}' >> $MIND_METRICS_FILE
		echo '{"step": 2, "loss": 3}' >> $MIND_METRICS_FILE
		while [ ! -e `+gates+`1 ]; do sleep 0.01; done
		echo '{"step": 3, "loss": NaN}' >> $MIND_METRICS_FILE
		echo '{"step": 4, "loss": 1}' >> $MIND_METRICS_FILE
		touch `+gates+`2
		while [ ! -e `+gates+`3 ]; do sleep 0.01; done
		echo '{"step": 5, "loss": 0.5, "eval": {"loss": 2}}' >> $MIND_METRICS_FILE`)
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
	has(1, 4, 3, 1)
	require.NoError(t, os.WriteFile(gates+"3", nil, 0o600))
	require.Zero(t, l.ended(o.GetTask()).GetExitCode())
	has(1, 4, 3, 1, 0.5)
	all := seriesOf(t, taskClient(t, l.hello(1)), o.GetTask())
	require.Len(t, all, 2)
	require.EqualValues(t, 1, all["loss"].GetNotFinite())
	require.EqualValues(t, 5, all["loss"].GetPoints()[3].GetStep())
	require.Equal(t, []float64{2}, values(all["eval.loss"]))
}

// realGPUs is an Inventory of two GPUs that do not count as simulated.
type realGPUs struct{ device.None }

func (realGPUs) List(context.Context) ([]device.Device, error) {
	return []device.Device{{UUID: "GPU-a", Type: "H100", NUMA: -1}, {UUID: "GPU-b", Index: 1, Type: "H100", NUMA: -1}}, nil
}

func (realGPUs) Read(context.Context) ([]device.Reading, error) {
	return []device.Reading{
		{UUID: "GPU-a", Utilization: 0.25, MemoryUsed: 1 << 30, Celsius: 40, Watts: 100},
		{UUID: "GPU-b", Utilization: 0.75, MemoryUsed: 2 << 30, Celsius: -1, Watts: 200},
	}, nil
}

func TestSeries_ofTheTasksGPUs(t *testing.T) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.Machine.Devices = realGPUs{}
	stop := inProcess(t, cfg)
	o := onGPUs(order("sleep", "1000"), 1)
	l.want(o)
	l.running(o.GetTask())
	client := taskClient(t, l.hello(0))
	require.Eventually(t, func() bool { return len(seriesOf(t, client, o.GetTask())) > 0 }, time.Minute, 10*time.Millisecond)
	stop() // the next agent has the same series

	cfg.Metrics = nil
	inProcess(t, cfg)
	client = taskClient(t, l.hello(1))
	require.Eventually(t, func() bool { return len(seriesOf(t, client, o.GetTask())) == 3 }, time.Minute, 10*time.Millisecond)
	found := seriesOf(t, client, o.GetTask())
	require.Equal(t, 0.75, values(found["gpu1.utilization_ratio"])[0])
	require.Equal(t, float64(2<<30), values(found["gpu1.memory_used_bytes"])[0])
	require.Equal(t, 200.0, values(found["gpu1.power_watts"])[0])
	require.NotContains(t, found, "gpu1.temperature_celsius", "it cannot be read")
	l.want()
}
