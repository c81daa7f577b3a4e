package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/device"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// gpus is an inventory whose answers a test chooses.
type gpus struct {
	device.None
	mu    sync.Mutex
	list  []device.Device
	users map[string][]device.Process
	err   error
	call  func(string, int)
	// readings are what the sensors say.
	readings []device.Reading
}

func (g *gpus) List(context.Context) ([]device.Device, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.list, g.err
}

func (g *gpus) Processes(_ context.Context, uuid string) ([]device.Process, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.users[uuid], g.err
}

func (g *gpus) Read(context.Context) ([]device.Reading, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.readings, g.err
}

func (g *gpus) OnXid(f func(string, int)) { g.call = f }

type watchedGPUs struct {
	*gpuWatch
	*gpus
	t      *testing.T
	dir    string
	faults int
}

func watchGPUs(t *testing.T, inventory *gpus, dir string) *watchedGPUs {
	w := &watchedGPUs{gpuWatch: newGPUWatch(inventory, testConfig(t).Logger), gpus: inventory, t: t, dir: dir}
	w.onFault = func() { w.faults++ }
	require.NoError(t, w.load(dir, "boot-1", "auto"))
	return w
}

func (w *watchedGPUs) looks(times int) {
	w.t.Helper()
	for range times {
		require.NoError(w.t, w.look(context.Background()))
	}
}

// health lists the verdicts by index, as words.
func (w *watchedGPUs) health() []string {
	var words []string
	for _, gpu := range w.current() {
		words = append(words, strings.TrimSpace(fmt.Sprintf("%d %s %s %s", gpu.GetIndex(), gpu.GetUuid(), gpu.GetHealth(), gpu.GetHealthReason())))
	}
	return words
}

func three() *gpus {
	return &gpus{list: []device.Device{{UUID: "a", Index: 0}, {UUID: "b", Index: 1}, {UUID: "c", Index: 2}}, users: map[string][]device.Process{}}
}

func TestAGPUThatVanishesKeepsItsPlace(t *testing.T) {
	w := watchGPUs(t, three(), t.TempDir())
	w.looks(1)
	require.Equal(t, "0,2", w.visible([]int32{0, 2}))

	w.list = []device.Device{{UUID: "a", Index: 0}, {UUID: "c", Index: 1}}
	w.looks(1)
	require.Equal(t, []string{"0 a HEALTHY", "1 b QUARANTINED the driver did not list it just now", "2 c HEALTHY"}, w.health())
	require.Zero(t, w.faults, "one look is not enough to end a training for")
	require.True(t, w.doubtful())
	w.looks(1)
	gone := "1 b VANISHED the driver does not list it any more"
	require.Equal(t, []string{"0 a HEALTHY", gone, "2 c HEALTHY"}, w.health())
	require.Equal(t, 1, w.faults)
	require.Equal(t, "a,c", w.visible([]int32{0, 2}))
	indices, ok := w.indices("a,c")
	require.True(t, ok)
	require.Equal(t, []int32{0, 2}, indices)
	require.Contains(t, w.fault([]int32{0, 1}, time.Time{}, time.Time{}), "GPU 1 (b)")
	require.Empty(t, w.fault([]int32{0, 2}, time.Time{}, time.Time{}))

	// The next agent knows it, too.
	next := watchGPUs(t, w.gpus, w.dir)
	next.looks(2)
	require.Equal(t, []string{"0 a HEALTHY", gone, "2 c HEALTHY"}, next.health())
	require.Equal(t, "a,c", next.visible([]int32{0, 2}))
	require.Zero(t, next.faults, "nothing new")

	// After a restart of the machine the driver's own order holds.
	rebooted := newGPUWatch(w.gpus, testConfig(t).Logger)
	require.NoError(t, rebooted.load(w.dir, "boot-2", "auto"))
	require.NoError(t, rebooted.look(context.Background()))
	require.Len(t, rebooted.current(), 2)
	require.EqualValues(t, 1, rebooted.current()[1].GetIndex())
}

func TestAnotherGPUInThePlaceOfOneThatVanished(t *testing.T) {
	w := watchGPUs(t, three(), t.TempDir())
	w.looks(1)
	w.list = []device.Device{{UUID: "a", Index: 0}, {UUID: "new", Index: 1}, {UUID: "c", Index: 2}}
	w.looks(3)
	require.Equal(t, []string{"0 a HEALTHY", "1 new HEALTHY", "2 c HEALTHY"}, w.health())
}

func TestAGPUInUseIsSetAsideUntilItIsEmpty(t *testing.T) {
	w := watchGPUs(t, three(), t.TempDir())
	w.looks(1)
	w.users["b"] = []device.Process{{Pid: 7}}
	w.use("b", "process 7 (x) uses it")
	w.looks(1)
	require.Equal(t, "1 b QUARANTINED process 7 (x) uses it", w.health()[1])
	require.Equal(t, "0 a HEALTHY", w.health()[0])
	require.Zero(t, w.faults)
	next := watchGPUs(t, w.gpus, w.dir)
	require.Equal(t, "1 b QUARANTINED process 7 (x) uses it", next.health()[1], "before the driver was asked")
	w.users["b"] = nil
	w.looks(1)
	require.Equal(t, "1 b HEALTHY", w.health()[1])
}

func TestADriverThatDoesNotAnswerSetsAsideAndEndsNothing(t *testing.T) {
	w := watchGPUs(t, three(), t.TempDir())
	w.looks(1)
	w.err = fmt.Errorf("%w: no answer within 8s", device.ErrHung)
	require.Error(t, w.look(context.Background()))
	require.Equal(t, []string{"0 a QUARANTINED driver does not answer", "1 b QUARANTINED driver does not answer", "2 c QUARANTINED driver does not answer"}, w.health())
	require.Zero(t, w.faults)
	require.Empty(t, w.fault([]int32{0, 1, 2}, time.Time{}, time.Time{}))

	// An agent that starts meanwhile knows what there was.
	next := watchGPUs(t, w.gpus, w.dir)
	next.begin(context.Background())
	require.Equal(t, w.health(), next.health())

	w.err = nil
	w.looks(1)
	require.Equal(t, []string{"0 a HEALTHY", "1 b HEALTHY", "2 c HEALTHY"}, w.health(), "by itself")

	w.err = errors.New("unknown error")
	for range failingLooks - 1 {
		require.Error(t, w.look(context.Background()))
		require.Equal(t, "0 a HEALTHY", w.health()[0], "a failed question is no verdict")
	}
	require.Error(t, w.look(context.Background()))
	require.Equal(t, "0 a QUARANTINED driver fails: unknown error", w.health()[0])
	w.err = nil
	w.looks(1)
	require.Equal(t, "0 a HEALTHY", w.health()[0])
}

func TestAFaultStaysUntilTheNodeIsEnabled(t *testing.T) {
	w := watchGPUs(t, three(), t.TempDir())
	w.enabled(10)
	w.looks(1)
	w.heard("c", 13)
	require.Equal(t, "2 c HEALTHY", w.health()[2], "a program may cause it")
	w.heard("c", 79)
	ill := "2 c QUARANTINED Xid 79: GPU has fallen off the bus"
	require.Equal(t, ill, w.health()[2])
	require.Equal(t, 1, w.faults)
	w.heard("c", 48)
	require.Equal(t, 1, w.faults, "once")

	ecc := device.Device{UUID: "a", Health: device.Quarantined, Fault: true, HealthReason: "2 uncorrected memory errors since the last reset"}
	w.list[0] = ecc
	w.looks(2)
	require.Equal(t, 2, w.faults)

	next := watchGPUs(t, w.gpus, w.dir)
	require.Equal(t, w.health(), next.health(), "before the driver was asked")
	next.enabled(10)
	next.looks(2)
	require.Equal(t, ill, next.health()[2], "nobody enabled the node")
	require.Zero(t, next.faults)

	// The operator enables the node: what is well comes back.
	next.enabled(20)
	next.looks(1)
	require.Equal(t, "2 c HEALTHY", next.health()[2])
	require.Equal(t, "0 a QUARANTINED "+ecc.HealthReason+" (verified when the node was enabled: "+ecc.HealthReason+")", next.health()[0])

	// That was for this time only.
	next.list = []device.Device{{UUID: "a", Index: 0}, {UUID: "b", Index: 1}, {UUID: "c", Index: 2}}
	next.looks(2)
	require.Equal(t, v1.GpuHealth_QUARANTINED, next.current()[0].GetHealth())
	next.enabled(30)
	next.users["a"] = []device.Process{{Pid: 9}}
	next.looks(1)
	require.Contains(t, next.health()[0], "process 9 uses it")
	next.users["a"] = nil
	next.enabled(31)
	next.looks(1)
	require.Equal(t, []string{"0 a HEALTHY", "1 b HEALTHY", "2 c HEALTHY"}, next.health())
}

func TestAFaultBeforeTheFirstOrdersIsNotForgivenByAnOldEnable(t *testing.T) {
	w := watchGPUs(t, three(), t.TempDir())
	w.looks(1)
	w.heard("a", 79)
	w.enabled(55) // long ago
	w.looks(1)
	require.Equal(t, v1.GpuHealth_QUARANTINED, w.current()[0].GetHealth())
	w.enabled(56)
	w.looks(1)
	require.Equal(t, v1.GpuHealth_HEALTHY, w.current()[0].GetHealth())
}

func TestARecordOfANewerAgentIsNotMisread(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, gpusFile), []byte(`{"version": 2}`), 0o600))
	w := newGPUWatch(three(), testConfig(t).Logger)
	require.ErrorContains(t, w.load(dir, "boot-1", "auto"), "version 2")
}

// An agent that is killed before it has written a record of doubt leaves one that is damaged, not none.
func TestADamagedRecordStaysUntilItIsReplaced(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, gpusFile), []byte(`{"ver`), 0o600))
	for range 3 {
		record, _, ok, err := readGPUs(dir)
		require.NoError(t, err)
		require.True(t, ok)
		require.NotEmpty(t, record.Doubt)
	}
}

// A power cut under an earlier version could leave the record empty. A GPU that failed must not come back because of that.
func TestADamagedRecordSetsAllGPUsAsideUntilTheNodeIsEnabled(t *testing.T) {
	for _, damaged := range []string{"", `{"ver`, "\x00\x00\x00\x00"} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, gpusFile), []byte(damaged), 0o600))
		w := watchGPUs(t, three(), dir)
		text, err := os.ReadFile(filepath.Join(dir, gpusFile+damagedSuffix))
		require.NoError(t, err)
		require.Equal(t, damaged, string(text), "kept for whoever wants to look at it")
		// The agent is restarted before the driver has answered: the doubt stays.
		w = watchGPUs(t, three(), dir)
		w.looks(1)
		aside := func() (n int) {
			for _, gpu := range w.current() {
				if gpu.GetHealth() == v1.GpuHealth_QUARANTINED {
					require.Contains(t, gpu.GetHealthReason(), "mind enable")
					n++
				}
			}
			return n
		}
		require.Equal(t, 3, aside())
		require.Zero(t, w.faults, "what runs on them goes on")
		require.Empty(t, w.fault([]int32{0, 1, 2}, time.Time{}, time.Time{}))
		w.enabled(20) // long ago
		w = watchGPUs(t, w.gpus, dir)
		w.looks(2)
		require.Equal(t, 3, aside())
		w.list = []device.Device{{UUID: "a", Index: 0}, {UUID: "b", Index: 1}, {UUID: "c", Index: 2, Fault: true, HealthReason: "ill"}}
		w.enabled(21)
		w.looks(1)
		require.Equal(t, []string{"0 a HEALTHY", "1 b HEALTHY"}, w.health()[:2])
		require.Equal(t, v1.GpuHealth_QUARANTINED, w.current()[2].GetHealth())
		w.list = three().list
		w.looks(5)
		require.Equal(t, v1.GpuHealth_QUARANTINED, w.current()[2].GetHealth(), "it had failed when it was verified")
	}
}

// What the GPUs do is told once for each reading, by the index that leases know; what a sensor does not say is left out.
func TestSamples_areToldOnce(t *testing.T) {
	inventory := three()
	w := watchGPUs(t, inventory, t.TempDir())
	w.looks(1)
	inventory.readings = []device.Reading{
		{UUID: "b", Utilization: 0.756, MemoryUsed: 40000 << 20}, {UUID: "a", Utilization: -1, MemoryUsed: -1}, {UUID: "stranger", Utilization: 1},
	}
	none, told := w.samplesSince(0)
	require.Empty(t, none, "nothing was read yet")
	w.sample(t.Context())
	got, told := w.samplesSince(told)
	require.Len(t, got, 2)
	require.Equal(t, "index:1 utilization_percent:76 memory_used_mb:40000", strings.ReplaceAll(got[0].String(), "  ", " "))
	require.Nil(t, got[1].UtilizationPercent)
	require.Nil(t, got[1].MemoryUsedMb)
	require.Zero(t, got[1].GetIndex())
	again, told := w.samplesSince(told)
	require.Empty(t, again)
	w.sample(t.Context())
	another, _ := w.samplesSince(0)
	require.Len(t, another, 2, "another session is told")
	newer, told := w.samplesSince(told)
	require.Len(t, newer, 2)
	inventory.mu.Lock()
	inventory.err = errors.New("driver gone")
	inventory.mu.Unlock()
	w.sample(t.Context())
	none, _ = w.samplesSince(told)
	require.Empty(t, none)
}

func TestTheMetricOfGPUsSetAside(t *testing.T) {
	w := watchGPUs(t, three(), t.TempDir())
	w.looks(1)
	w.heard("b", 79)
	registry := prometheus.NewRegistry()
	registry.MustRegister(quarantineCollector{w.gpuWatch})
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1)
	require.Equal(t, "mind_gpu_quarantined", families[0].GetName())
	aside := make(map[string]float64)
	for _, m := range families[0].GetMetric() {
		for _, label := range m.GetLabel() {
			if label.GetName() == "uuid" {
				aside[label.GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	require.Equal(t, map[string]float64{"a": 0, "b": 1, "c": 0}, aside)
}

func TestHoldings(t *testing.T) {
	whole, other, half := holding{gpus: []int32{0, 1}}, holding{gpus: []int32{2}}, holding{gpus: []int32{1}, shared: true}
	for _, c := range []struct {
		a, b holding
		want bool
	}{
		{whole, whole, true},
		{whole, other, false},
		{whole, half, true},
		{half, half, false},
		{half, other, false},
		{holding{}, whole, false},
		{holding{unknown: true}, whole, true},
		{holding{unknown: true}, half, true},
		{holding{unknown: true}, holding{}, false},
	} {
		require.Equal(t, c.want, c.a.excludes(c.b), "%v %v", c.a, c.b)
		require.Equal(t, c.want, c.b.excludes(c.a), "%v %v", c.b, c.a)
	}
}

func TestWhoseAProcessIs(t *testing.T) {
	dir := t.TempDir()
	start := func(env string) *exec.Cmd {
		cmd := exec.Command("sleep", "1000")
		cmd.Env = []string{env}
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		return cmd
	}
	ours := start("MIND_METRICS_FILE=" + dir + "/tasks/job_1.1.0.5/metrics.jsonl")
	neighbour := start("MIND_METRICS_FILE=/elsewhere/tasks/job_1.1.0.5/metrics.jsonl")
	w := &who{tasks: dir + "/tasks", pids: map[int]command{}}
	// A child that was forked has the environment of its parent until it execs.
	require.Eventually(t, func() bool {
		task, ok := w.owner(ours.Process.Pid)
		return ok && task == "job_1.1.0.5"
	}, 30*time.Second, time.Millisecond)
	_, ok := w.owner(neighbour.Process.Pid)
	require.False(t, ok)
	// By the session, unless it is younger than the end of the task.
	session, _, ok := sessionOf(os.Getpid())
	require.True(t, ok)
	w.pids[session] = command{"job_2.1.0.6", time.Now().Add(time.Hour)}
	task, ok := w.owner(neighbour.Process.Pid)
	require.True(t, ok)
	require.Equal(t, "job_2.1.0.6", task)
	w.pids[session] = command{"job_2.1.0.6", time.Now().Add(-time.Hour)}
	_, ok = w.owner(neighbour.Process.Pid)
	require.False(t, ok, "the number was given to another")

	w.kill(neighbour.Process.Pid, "job_1.1.0.5")
	require.False(t, dead(neighbour.Process.Pid), "it is not of that task")
	w.kill(ours.Process.Pid, "job_1.1.0.5")
	require.Eventually(t, func() bool { return dead(ours.Process.Pid) }, 30*time.Second, time.Millisecond)
}
