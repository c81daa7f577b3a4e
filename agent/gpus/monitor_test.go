package gpus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// driver is an Inventory whose answers a test sets.
type driver struct {
	device.None
	mu    sync.Mutex
	list  []device.Device
	users map[string][]device.Process
	err   error
	call  func(string, int)
	// readings are the sensor values.
	readings []device.Reading
}

func (g *driver) List(context.Context) ([]device.Device, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.list, g.err
}

func (g *driver) Processes(_ context.Context, uuid string) ([]device.Process, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.users[uuid], g.err
}

func (g *driver) Read(context.Context) ([]device.Reading, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.readings, g.err
}

func (g *driver) OnXid(f func(string, int)) { g.call = f }

type watchedGPUs struct {
	*Monitor
	*driver
	t      *testing.T
	dir    string
	faults int
}

func config(inventory *driver, dir string) Config {
	return Config{Inventory: inventory, Dir: dir, BootID: "boot-1", Spec: "auto", Log: slog.New(slog.DiscardHandler)}
}

func watchGPUs(t *testing.T, inventory *driver, dir string) *watchedGPUs {
	monitor, err := New(config(inventory, dir))
	require.NoError(t, err)
	w := &watchedGPUs{Monitor: monitor, driver: inventory, t: t, dir: dir}
	w.OnFault(func() { w.faults++ })
	return w
}

func (w *watchedGPUs) looks(times int) {
	w.t.Helper()
	for range times {
		require.NoError(w.t, w.Look(context.Background()))
	}
}

// health lists the health of the GPUs by index.
func (w *watchedGPUs) health() []string {
	var words []string
	for _, gpu := range w.Current() {
		words = append(words, strings.TrimSpace(fmt.Sprintf("%d %s %s %s", gpu.GetIndex(), gpu.GetUuid(), gpu.GetHealth(), gpu.GetHealthReason())))
	}
	return words
}

func three() *driver {
	return &driver{list: []device.Device{{UUID: "a", Index: 0}, {UUID: "b", Index: 1}, {UUID: "c", Index: 2}}, users: map[string][]device.Process{}}
}

func TestAGPUThatVanishesKeepsItsPlace(t *testing.T) {
	w := watchGPUs(t, three(), t.TempDir())
	w.looks(1)
	require.Equal(t, "0,2", w.Visible([]int32{0, 2}))

	w.list = []device.Device{{UUID: "a", Index: 0}, {UUID: "c", Index: 1}}
	w.looks(1)
	require.Equal(t, []string{"0 a HEALTHY", "1 b QUARANTINED the driver did not list it in the last check", "2 c HEALTHY"}, w.health())
	require.Zero(t, w.faults, "one look is not enough to end a training for")
	require.True(t, w.doubtful())
	w.looks(1)
	gone := "1 b VANISHED the driver no longer lists it"
	require.Equal(t, []string{"0 a HEALTHY", gone, "2 c HEALTHY"}, w.health())
	require.Equal(t, 1, w.faults)
	require.Equal(t, "a,c", w.Visible([]int32{0, 2}))
	indices, ok := w.Indices("a,c")
	require.True(t, ok)
	require.Equal(t, []int32{0, 2}, indices)
	require.Contains(t, w.Fault([]int32{0, 1}, time.Time{}, time.Time{}), "GPU 1 (b)")
	require.Empty(t, w.Fault([]int32{0, 2}, time.Time{}, time.Time{}))

	// The next agent has the same state.
	next := watchGPUs(t, w.driver, w.dir)
	next.looks(2)
	require.Equal(t, []string{"0 a HEALTHY", gone, "2 c HEALTHY"}, next.health())
	require.Equal(t, "a,c", next.Visible([]int32{0, 2}))
	require.Zero(t, next.faults, "nothing new")

	// After a restart of the machine the driver's order of the GPUs counts.
	cfg := config(w.driver, w.dir)
	cfg.BootID = "boot-2"
	rebooted, err := New(cfg)
	require.NoError(t, err)
	require.NoError(t, rebooted.Look(context.Background()))
	require.Len(t, rebooted.Current(), 2)
	require.EqualValues(t, 1, rebooted.Current()[1].GetIndex())
}

func TestAnotherGPUInThePlaceOfOneThatVanished(t *testing.T) {
	w := watchGPUs(t, three(), t.TempDir())
	w.looks(1)
	w.list = []device.Device{{UUID: "a", Index: 0}, {UUID: "new", Index: 1}, {UUID: "c", Index: 2}}
	w.looks(3)
	require.Equal(t, []string{"0 a HEALTHY", "1 new HEALTHY", "2 c HEALTHY"}, w.health())
}

func slice(parent string, index, gi int) device.Device {
	return device.Device{UUID: fmt.Sprintf("MIG-%s%d", parent, gi), Index: index, Slice: &device.Slice{Profile: "1g.10gb", Parent: parent, GPUInstance: gi}}
}

// A GPU that an operator divides has not failed, and neither has a slice that is taken away. A GPU that failed stays quarantined
// in each of its parts.
func TestAGPUThatIsDividedHasNotFailed(t *testing.T) {
	w := watchGPUs(t, three(), t.TempDir())
	w.looks(1)
	require.Equal(t, "0,1", w.Visible([]int32{0, 1}))
	w.list = []device.Device{{UUID: "a", Index: 0}, {UUID: "c", Index: 2}, slice("b", 10, 1), slice("b", 11, 2)}
	w.looks(3)
	require.Equal(t, []string{"0 a HEALTHY", "2 c HEALTHY", "10 MIG-b1 HEALTHY", "11 MIG-b2 HEALTHY"}, w.health())
	require.Equal(t, "MIG-b2", w.Visible([]int32{11}))
	require.Equal(t, "a", w.Visible([]int32{0}), "CUDA numbers GPUs otherwise when there are slices")
	require.Equal(t, []string{"a", "b/2/0"}, w.Places([]int32{0, 11}))
	require.Zero(t, w.faults)

	w.list = []device.Device{{UUID: "a", Index: 0}, {UUID: "c", Index: 2}, slice("b", 11, 2)}
	w.looks(3)
	require.Equal(t, []string{"0 a HEALTHY", "2 c HEALTHY", "11 MIG-b2 HEALTHY"}, w.health())
	require.Zero(t, w.faults)

	w.call("b", 79)
	require.Equal(t, 1, w.faults)
	require.Contains(t, w.health()[2], "11 MIG-b2 QUARANTINED")
	w.list = []device.Device{{UUID: "a", Index: 0}, {UUID: "b", Index: 1}, {UUID: "c", Index: 2}}
	w.looks(3)
	require.Contains(t, w.health()[1], "1 b QUARANTINED")
	require.Len(t, w.health(), 3)
	require.Equal(t, 1, w.faults)
}

// A divided GPU that is gone has failed in all its slices.
func TestADividedGPUThatVanishes(t *testing.T) {
	w := watchGPUs(t, three(), t.TempDir())
	whole := []device.Device{{UUID: "a", Index: 0}, slice("b", 10, 1), slice("b", 11, 2), slice("b", 12, 3)}
	w.list = whole
	w.looks(1)
	w.list = whole[:1]
	w.looks(3)
	for i, name := range []string{"10 MIG-b1", "11 MIG-b2", "12 MIG-b3"} {
		require.Equal(t, name+" VANISHED the driver no longer lists it", w.health()[1+i])
	}
	w.list = whole
	w.looks(2)
	for _, health := range w.health()[1:] {
		require.Contains(t, health, "QUARANTINED", "until an operator has looked")
	}
}

func TestAGPUInUseIsQuarantinedUntilItIsEmpty(t *testing.T) {
	w := watchGPUs(t, three(), t.TempDir())
	w.looks(1)
	w.users["b"] = []device.Process{{Pid: 7}}
	w.use("b", "process 7 (x) uses it")
	w.looks(1)
	require.Equal(t, "1 b QUARANTINED process 7 (x) uses it", w.health()[1])
	require.Equal(t, "0 a HEALTHY", w.health()[0])
	require.Zero(t, w.faults)
	next := watchGPUs(t, w.driver, w.dir)
	require.Equal(t, "1 b QUARANTINED process 7 (x) uses it", next.health()[1], "before the driver was asked")
	w.users["b"] = nil
	w.looks(1)
	require.Equal(t, "1 b HEALTHY", w.health()[1])
}

func TestADriverThatDoesNotAnswerSetsAsideAndEndsNothing(t *testing.T) {
	w := watchGPUs(t, three(), t.TempDir())
	w.looks(1)
	w.err = fmt.Errorf("%w: no answer within 8s", device.ErrHung)
	require.Error(t, w.Look(context.Background()))
	require.Equal(t, []string{"0 a QUARANTINED driver does not answer", "1 b QUARANTINED driver does not answer", "2 c QUARANTINED driver does not answer"}, w.health())
	require.Zero(t, w.faults)
	require.Empty(t, w.Fault([]int32{0, 1, 2}, time.Time{}, time.Time{}))

	// An agent that starts meanwhile has the GPUs from the record.
	next := watchGPUs(t, w.driver, w.dir)
	next.Begin(context.Background())
	require.Equal(t, w.health(), next.health())

	w.err = nil
	w.looks(1)
	require.Equal(t, []string{"0 a HEALTHY", "1 b HEALTHY", "2 c HEALTHY"}, w.health(), "by itself")

	w.err = errors.New("unknown error")
	for range failingLooks - 1 {
		require.Error(t, w.Look(context.Background()))
		require.Equal(t, "0 a HEALTHY", w.health()[0], "a failed call says nothing about the GPU")
	}
	require.Error(t, w.Look(context.Background()))
	require.Equal(t, "0 a QUARANTINED driver fails: unknown error", w.health()[0])
	w.err = nil
	w.looks(1)
	require.Equal(t, "0 a HEALTHY", w.health()[0])
}

func TestAFaultStaysUntilTheNodeIsEnabled(t *testing.T) {
	w := watchGPUs(t, three(), t.TempDir())
	w.Enabled(10)
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

	next := watchGPUs(t, w.driver, w.dir)
	require.Equal(t, w.health(), next.health(), "before the driver was asked")
	next.Enabled(10)
	next.looks(2)
	require.Equal(t, ill, next.health()[2], "nobody enabled the node")
	require.Zero(t, next.faults)

	// The operator enables the node: healthy GPUs return to service.
	next.Enabled(20)
	next.looks(1)
	require.Equal(t, "2 c HEALTHY", next.health()[2])
	require.Equal(t, "0 a QUARANTINED "+ecc.HealthReason+" (verified when the node was enabled: "+ecc.HealthReason+")", next.health()[0])

	// This was a single release: a later fault quarantines a GPU again.
	next.list = []device.Device{{UUID: "a", Index: 0}, {UUID: "b", Index: 1}, {UUID: "c", Index: 2}}
	next.looks(2)
	require.Equal(t, v1.GpuHealth_QUARANTINED, next.Current()[0].GetHealth())
	next.Enabled(30)
	next.users["a"] = []device.Process{{Pid: 9}}
	next.looks(1)
	require.Contains(t, next.health()[0], "process 9 uses it")
	next.users["a"] = nil
	next.Enabled(31)
	next.looks(1)
	require.Equal(t, []string{"0 a HEALTHY", "1 b HEALTHY", "2 c HEALTHY"}, next.health())
}

func TestAFaultBeforeTheFirstOrdersIsNotForgivenByAnOldEnable(t *testing.T) {
	w := watchGPUs(t, three(), t.TempDir())
	w.looks(1)
	w.heard("a", 79)
	w.Enabled(55) // long ago
	w.looks(1)
	require.Equal(t, v1.GpuHealth_QUARANTINED, w.Current()[0].GetHealth())
	w.Enabled(56)
	w.looks(1)
	require.Equal(t, v1.GpuHealth_HEALTHY, w.Current()[0].GetHealth())
}

func TestARecordOfANewerAgentIsNotMisread(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, RecordFile), []byte(`{"version": 2}`), 0o600))
	_, err := New(config(three(), dir))
	require.ErrorContains(t, err, "version 2")
}

// An agent that is killed before it has replaced a damaged record leaves the damaged one.
func TestADamagedRecordStaysUntilItIsReplaced(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, RecordFile), []byte(`{"ver`), 0o600))
	for range 3 {
		record, _, ok, err := readGPUs(dir)
		require.NoError(t, err)
		require.True(t, ok)
		require.NotEmpty(t, record.Doubt)
	}
}

// A power cut under an earlier version could leave the record empty. A GPU that failed must not return to service
// because of that.
func TestADamagedRecordSetsAllGPUsAsideUntilTheNodeIsEnabled(t *testing.T) {
	for _, damaged := range []string{"", `{"ver`, "\x00\x00\x00\x00"} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, RecordFile), []byte(damaged), 0o600))
		w := watchGPUs(t, three(), dir)
		text, err := os.ReadFile(filepath.Join(dir, RecordFile+damagedSuffix))
		require.NoError(t, err)
		require.Equal(t, damaged, string(text), "kept for inspection")
		// The agent is restarted before the driver has answered: the doubt stays.
		w = watchGPUs(t, three(), dir)
		w.looks(1)
		aside := func() (n int) {
			for _, gpu := range w.Current() {
				if gpu.GetHealth() == v1.GpuHealth_QUARANTINED {
					require.Contains(t, gpu.GetHealthReason(), "mind enable")
					n++
				}
			}
			return n
		}
		require.Equal(t, 3, aside())
		require.Zero(t, w.faults, "what runs on them goes on")
		require.Empty(t, w.Fault([]int32{0, 1, 2}, time.Time{}, time.Time{}))
		w.Enabled(20) // long ago
		w.commit()    // as Run does
		w = watchGPUs(t, w.driver, dir)
		w.looks(2)
		require.Equal(t, 3, aside())
		w.list = []device.Device{{UUID: "a", Index: 0}, {UUID: "b", Index: 1}, {UUID: "c", Index: 2, Fault: true, HealthReason: "ill"}}
		w.Enabled(21)
		w.looks(1)
		require.Equal(t, []string{"0 a HEALTHY", "1 b HEALTHY"}, w.health()[:2])
		require.Equal(t, v1.GpuHealth_QUARANTINED, w.Current()[2].GetHealth())
		w.list = three().list
		w.looks(5)
		require.Equal(t, v1.GpuHealth_QUARANTINED, w.Current()[2].GetHealth(), "it had failed when it was verified")
	}
}

// Each reading is reported once, with the index for leases; values that a sensor does not have are omitted.
func TestSamples_areToldOnce(t *testing.T) {
	inventory := three()
	w := watchGPUs(t, inventory, t.TempDir())
	w.looks(1)
	inventory.readings = []device.Reading{
		{UUID: "b", Utilization: 0.756, MemoryUsed: 40000 << 20}, {UUID: "a", Utilization: -1, MemoryUsed: -1}, {UUID: "stranger", Utilization: 1},
	}
	none, told := w.SamplesSince(0)
	require.Empty(t, none, "nothing was read yet")
	w.sample(t.Context())
	got, told := w.SamplesSince(told)
	require.Len(t, got, 2)
	require.Equal(t, "index:1 utilization_percent:76 memory_used_mb:40000", strings.ReplaceAll(got[0].String(), "  ", " "))
	require.Nil(t, got[1].UtilizationPercent)
	require.Nil(t, got[1].MemoryUsedMb)
	require.Zero(t, got[1].GetIndex())
	again, told := w.SamplesSince(told)
	require.Empty(t, again)
	w.sample(t.Context())
	another, _ := w.SamplesSince(0)
	require.Len(t, another, 2, "another session is told")
	newer, told := w.SamplesSince(told)
	require.Len(t, newer, 2)
	inventory.mu.Lock()
	inventory.err = errors.New("driver gone")
	inventory.mu.Unlock()
	w.sample(t.Context())
	none, _ = w.SamplesSince(told)
	require.Empty(t, none)
}

// The goroutine that owns the tasks calls Current and Enabled, so these must not wait for a disk.
func TestNobodyWhoOnlyAsksWaitsForTheDisk(t *testing.T) {
	w := watchGPUs(t, three(), t.TempDir())
	w.looks(1)
	w.saving.Lock() // as while a write hangs
	failing := make(chan struct{})
	go func() {
		defer close(failing)
		w.heard("b", 79)
	}()
	require.Eventually(t, func() bool {
		w.Monitor.mu.Lock()
		defer w.Monitor.mu.Unlock()
		return len(w.aside) == 1
	}, 30*time.Second, time.Millisecond)
	w.Enabled(5)
	require.Equal(t, "1 b HEALTHY", w.health()[1], "nobody is told what is not on disk")
	require.Empty(t, w.Fault([]int32{1}, time.Time{}, time.Time{}), "nor that a task failed for it")
	w.saving.Unlock()
	<-failing
	require.Contains(t, w.health()[1], "QUARANTINED")
	require.NotEmpty(t, w.Fault([]int32{1}, time.Time{}, time.Time{}))
	record, _, _, err := readGPUs(w.dir)
	require.NoError(t, err)
	require.Len(t, record.Quarantined, 1)
	require.Equal(t, 1, w.faults)
}

// The metrics have the values of the last check: a scrape does not ask the driver, which may not answer. If it did not
// answer the check, they are omitted.
func TestTheMetricsOfTheSensors(t *testing.T) {
	inventory := three()
	inventory.readings = []device.Reading{{UUID: "b", Utilization: 0.75, MemoryUsed: 1 << 30, Celsius: -1, Watts: 300}}
	w := watchGPUs(t, inventory, t.TempDir())
	w.looks(1)
	registry := prometheus.NewRegistry()
	registry.MustRegister(w.Collectors()[0])
	scrape := func() map[string]float64 {
		inventory.mu.Lock() // the driver does not answer meanwhile
		defer inventory.mu.Unlock()
		families, err := registry.Gather()
		require.NoError(t, err)
		found := make(map[string]float64)
		for _, family := range families {
			for _, m := range family.GetMetric() {
				found[family.GetName()] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		return found
	}
	require.Empty(t, scrape())
	w.sample(t.Context())
	want := map[string]float64{"mind_gpu_utilization_ratio": 0.75, "mind_gpu_memory_used_bytes": 1 << 30, "mind_gpu_power_watts": 300, "mind_gpu_xid_errors_total": 0}
	require.Equal(t, want, scrape())
	fail := func(err error) {
		inventory.mu.Lock()
		defer inventory.mu.Unlock()
		inventory.err = err
	}
	fail(device.ErrHung)
	require.Equal(t, want, scrape())
	require.Error(t, w.Look(t.Context()))
	require.Empty(t, scrape(), "nobody knows any more")
	fail(nil)
	w.looks(1)
	w.sample(t.Context())
	require.Equal(t, want, scrape())
	fail(device.ErrHung)
	w.sample(t.Context())
	require.Empty(t, scrape())
}

func TestTheMetricOfQuarantinedGPUs(t *testing.T) {
	w := watchGPUs(t, three(), t.TempDir())
	w.looks(1)
	w.heard("b", 79)
	registry := prometheus.NewRegistry()
	registry.MustRegister(asideCollector{w.Monitor})
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

func TestWhoseAProcessIs(t *testing.T) {
	dir := t.TempDir()
	start := func(env string) *exec.Cmd {
		cmd := exec.Command("sleep", "1000")
		cmd.Env = []string{env, "TMPDIR=" + os.TempDir()}
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		return cmd
	}
	ours := start("MIND_METRICS_FILE=" + dir + "/tasks/job_1.1.0.5/metrics.jsonl")
	neighbour := start("MIND_METRICS_FILE=/elsewhere/tasks/job_1.1.0.5/metrics.jsonl")
	w := &whose{tasks: dir + "/tasks", pids: map[int]command{}}
	// A child that was forked has the environment of its parent until it execs.
	require.Eventually(t, func() bool {
		task, ok := w.owner(ours.Process.Pid)
		return ok && task == "job_1.1.0.5"
	}, 30*time.Second, time.Millisecond)
	_, ok := w.owner(neighbour.Process.Pid)
	require.False(t, ok)
	// The task is found by the session, unless the session began after the end of the task.
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
