package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/device/sim"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// simulate sets the faults of the simulated GPUs.
func simulate(t *testing.T, cfg Config, faults string) {
	t.Helper()
	name := filepath.Join(cfg.DataDir, sim.FaultsFile)
	require.NoError(t, os.WriteFile(name+".new", []byte(faults), 0o600))
	require.NoError(t, os.Rename(name+".new", name))
}

func onGPUs(o *v1.TaskOrder, gpus ...int32) *v1.TaskOrder {
	o.Spec.Gpus = gpus
	return o
}

// health waits until the leader knows the health of a GPU, and returns the reason.
func (l *fakeLeader) health(index int, health v1.GpuHealth_Value) string {
	l.t.Helper()
	reason := ""
	l.await(fmt.Sprintf("GPU %d %s", index, health), func() bool {
		for _, gpu := range l.gpus {
			if gpu.GetIndex() == int32(index) && gpu.GetHealth() == health {
				reason = gpu.GetHealthReason()
				return true
			}
		}
		return false
	})
	return reason
}

func (l *fakeLeader) enable(at uint64) {
	l.change(func() {
		l.enabledAt = at
		l.index++
	})
}

func TestATaskWaitsForTheTaskThatHasItsGPU(t *testing.T) {
	l := newLeader(t)
	inProcess(t, testConfig(t, l))
	dir := t.TempDir()
	gate := filepath.Join(dir, "gate")
	// The task stops only when the gate exists, and then writes a file.
	stale := onGPUs(order("sh", "-c", fmt.Sprintf("trap 'while [ ! -e %[1]s ]; do sleep 0.01; done; echo > %[2]s/over; exit 0' TERM; echo > %[2]s/up; while :; do sleep 0.01; done", gate, dir)), 0, 1)
	l.want(stale)
	require.Eventually(t, func() bool { _, err := os.Stat(dir + "/up"); return err == nil }, 30*time.Second, time.Millisecond)

	next := onGPUs(order("test", "-e", dir+"/over"), 1)
	half := onGPUs(order("test", "-e", dir+"/over"), 0)
	half.Spec.GpuFraction = 0.5
	elsewhere, onCPU := onGPUs(order("true"), 2), order("true")
	// The coordinators do not want the first task any more, but it is still running.
	l.want(next, half, elsewhere, onCPU)
	require.Zero(t, l.ended(elsewhere.GetTask()).GetExitCode(), "who waits is overtaken")
	require.Zero(t, l.ended(onCPU.GetTask()).GetExitCode())
	require.Empty(t, l.kinds(next.GetTask()))
	require.Empty(t, l.kinds(half.GetTask()))
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	l.ended(stale.GetTask())
	require.Zero(t, l.ended(next.GetTask()).GetExitCode())
	require.Zero(t, l.ended(half.GetTask()).GetExitCode())
}

func TestATaskWaitsForOneThatAnEarlierAgentLaunched(t *testing.T) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	stop := inProcess(t, cfg)
	gate := filepath.Join(t.TempDir(), "gate")
	first := onGPUs(order("sh", "-c", "while [ ! -e "+gate+" ]; do sleep 0.01; done"), 3)
	l.want(first)
	l.running(first.GetTask())
	stop()
	second := onGPUs(order("test", "-e", gate), 3)
	third := onGPUs(order("true"), 4)
	l.want(first, second, third)
	inProcess(t, cfg)
	l.ended(third.GetTask())
	require.Empty(t, l.kinds(second.GetTask()))
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	require.Zero(t, l.ended(second.GetTask()).GetExitCode())
}

func TestSharesOfAGPURunBesideEachOther(t *testing.T) {
	l := newLeader(t)
	inProcess(t, testConfig(t, l))
	var orders []*v1.TaskOrder
	for range 2 {
		o := onGPUs(order("sleep", "1000"), 0)
		o.Spec.GpuFraction = 0.5
		orders = append(orders, o)
	}
	l.want(orders...)
	l.running(orders[0].GetTask())
	l.running(orders[1].GetTask())
}

func TestAGPUThatFailsEndsItsTaskAndStaysAside(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault, reason string
		health        v1.GpuHealth_Value
	}{
		"xid":    {"xid 79", "Xid 79: GPU has fallen off the bus", v1.GpuHealth_QUARANTINED},
		"ecc":    {"ecc", "2 uncorrected memory errors since the last reset", v1.GpuHealth_QUARANTINED},
		"vanish": {"vanish", "the driver no longer lists it", v1.GpuHealth_VANISHED},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLeader(t)
			l.enabledAt = 10
			cfg := testConfig(t, l)
			stop := inProcess(t, cfg)
			hurt := onGPUs(order("sh", "-c", "trap '' TERM; while :; do sleep 0.01; done"), 0, 1)
			well, cpu := onGPUs(order("sleep", "1000"), 2), order("sleep", "1000")
			l.want(hurt, well, cpu)
			pids := []int{l.running(hurt.GetTask()), l.running(well.GetTask()), l.running(cpu.GetTask())}
			simulate(t, cfg, `{"1": "`+c.fault+`", "2": "xid 13"}`)
			end := l.ended(hurt.GetTask())
			require.Equal(t, v1.ErrorType_GPU_FAULT, end.GetErrorType())
			require.Equal(t, "GPU 1 (GPU-sim-n1-1): "+c.reason+" (node n1)", end.GetErrorMessage())
			require.False(t, alive(pids[0]))
			require.True(t, alive(pids[1]))
			require.True(t, alive(pids[2]))
			require.Equal(t, c.reason, l.health(1, c.health))

			// Neither time nor a new agent ends the quarantine, and no task is launched on the GPU.
			stop()
			late := onGPUs(order("true"), 1)
			l.want(well, cpu, late)
			inProcess(t, cfg)
			end = l.ended(late.GetTask())
			require.Equal(t, v1.ErrorType_DRAINED, end.GetErrorType(), "it costs no retry")
			require.Equal(t, "not launched: GPU 1 (GPU-sim-n1-1): "+c.reason+" (node n1)", end.GetErrorMessage())
			require.NotContains(t, l.kinds(late.GetTask()), "Running")
			require.True(t, alive(pids[1]))

			// An operator who enables the node too early sees why the GPU stays quarantined.
			l.enable(20)
			l.await("the verification", func() bool {
				return strings.Contains(l.gpus[1].GetHealthReason(), "verified when the node was enabled") || c.fault == "vanish"
			})
			simulate(t, cfg, `{}`)
			l.enable(30)
			l.health(1, v1.GpuHealth_HEALTHY)
			fine := onGPUs(order("true"), 1)
			l.want(well, cpu, fine)
			require.Zero(t, l.ended(fine.GetTask()).GetExitCode())
			require.True(t, alive(pids[1]))
		})
	}
}

func TestAProgramThatNoticesFirstIsNotToBlame(t *testing.T) {
	withoutWalls(t, "a task makes no files in its directory")
	l := newLeader(t)
	cfg := testConfig(t, l)
	inProcess(t, cfg)
	file := filepath.Join(cfg.DataDir, sim.FaultsFile)
	crash := func(code int) *v1.TaskOrder {
		return order("sh", "-c", fmt.Sprintf(`echo '{"4": "xid 48"}' > %[1]s.new; mv %[1]s.new %[1]s; exit %d`, file, code))
	}
	bad, cpu := onGPUs(crash(1), 4), crash(1)
	l.want(bad)
	end := l.ended(bad.GetTask())
	require.Equal(t, v1.ErrorType_GPU_FAULT, end.GetErrorType())
	require.EqualValues(t, 1, end.GetExitCode())
	l.want(cpu)
	require.Equal(t, v1.ErrorType_EXIT_NONZERO, l.ended(cpu.GetTask()).GetErrorType(), "it has no GPU")
	// A task that finished its work is not reported as failed.
	good := onGPUs(order("sh", "-c", fmt.Sprintf(`echo '{"5": "xid 48"}' > %[1]s.new; mv %[1]s.new %[1]s`, file)), 5)
	l.want(good)
	require.Equal(t, v1.ErrorType_UNSPECIFIED, l.ended(good.GetTask()).GetErrorType())
	// A GPU that failed long after the end of a task does not count as the cause.
	other := onGPUs(order("sh", "-c", "exit 1"), 6)
	l.want(other)
	require.Equal(t, v1.ErrorType_EXIT_NONZERO, l.ended(other.GetTask()).GetErrorType())
}

func TestAForeignProcessKeepsAGPUFromBeingGivenOn(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	cfg := testConfig(t, l)
	inProcess(t, cfg)
	foreign := exec.Command("sleep", "12345")
	require.NoError(t, foreign.Start())
	t.Cleanup(func() {
		_ = foreign.Process.Kill()
		_ = foreign.Wait()
	})
	simulate(t, cfg, fmt.Sprintf(`{"3": "stuck-process %d"}`, foreign.Process.Pid))
	o, beside := onGPUs(order("true"), 3), onGPUs(order("true"), 4)
	l.want(o, beside)
	require.Zero(t, l.ended(beside.GetTask()).GetExitCode())
	end := l.ended(o.GetTask())
	require.Equal(t, v1.ErrorType_DRAINED, end.GetErrorType(), "it costs no retry")
	reason := fmt.Sprintf("process %d (sleep 12345) uses it, which belongs to no task", foreign.Process.Pid)
	require.Equal(t, "not launched: GPU 3 (GPU-sim-n1-3): "+reason+" (node n1)", end.GetErrorMessage())
	require.NotContains(t, l.kinds(o.GetTask()), "Running")
	require.Equal(t, reason, l.health(3, v1.GpuHealth_QUARANTINED))
	require.True(t, alive(foreign.Process.Pid), "it is not ours to kill")

	require.NoError(t, foreign.Process.Kill())
	_ = foreign.Wait()
	l.health(3, v1.GpuHealth_HEALTHY)
	again := onGPUs(order("true"), 3)
	l.want(again)
	require.Zero(t, l.ended(again.GetTask()).GetExitCode())
}

func TestWhatATaskLeftIsKilledBeforeItsGPUIsGivenOn(t *testing.T) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	inProcess(t, cfg)
	first := onGPUs(order("true"), 3)
	l.want(first)
	l.ended(first.GetTask())
	// This is like a process that has escaped from its shim.
	left := exec.Command("sleep", "1000")
	left.Env = []string{"MIND_METRICS_FILE=" + filepath.Join(cfg.DataDir, "tasks", taskid.Of(first.GetTask()).Name(), shim.MetricsFile)}
	require.NoError(t, left.Start())
	reaped := make(chan struct{})
	go func() {
		defer close(reaped)
		_ = left.Wait()
	}()
	t.Cleanup(func() { _ = left.Process.Kill() })
	simulate(t, cfg, fmt.Sprintf(`{"3": "stuck-process %d"}`, left.Process.Pid))
	second := onGPUs(order("true"), 3)
	l.want(second)
	end := l.ended(second.GetTask())
	require.Equal(t, v1.ErrorType_UNSPECIFIED, end.GetErrorType(), end.GetErrorMessage())
	<-reaped
}

func TestAHangingDriverHangsNothing(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	cfg := testConfig(t, l)
	stop := inProcess(t, cfg)
	o, cpu := onGPUs(order("sleep", "1000"), 0), order("true")
	l.want(o)
	pid := l.running(o.GetTask())
	simulate(t, cfg, `{"driver": "hang"}`)
	require.Equal(t, "driver does not answer", l.health(5, v1.GpuHealth_QUARANTINED))
	// An agent that starts meanwhile works, has its GPUs from the record, and adopts its task.
	stop()
	inProcess(t, cfg)
	require.Len(t, l.hello(1).GetGpus(), 8)
	require.Equal(t, v1.GpuHealth_QUARANTINED, l.hello(1).GetGpus()[5].GetHealth())
	blind := onGPUs(order("true"), 1)
	l.want(o, cpu, blind)
	require.Zero(t, l.ended(cpu.GetTask()).GetExitCode())
	end := l.ended(blind.GetTask())
	require.Equal(t, v1.ErrorType_DRAINED, end.GetErrorType())
	require.Contains(t, end.GetErrorMessage(), "the driver does not answer")
	require.True(t, alive(pid))
	simulate(t, cfg, `{}`)
	l.health(5, v1.GpuHealth_HEALTHY)
	require.True(t, alive(pid))
	l.want(stopped(o, v1.StopReason_CANCEL, 30))
	require.EqualValues(t, 143, l.ended(o.GetTask()).GetExitCode())
}

func TestTheCauseOfAnEndSurvivesTheAgent(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.deaf = true
	cfg := testConfig(t, l)
	first := process(t, cfg)
	o := onGPUs(order("sleep", "1000"), 1)
	l.want(o)
	l.running(o.GetTask())
	simulate(t, cfg, `{"1": "xid 79"}`)
	require.Equal(t, v1.ErrorType_GPU_FAULT, l.ended(o.GetTask()).GetErrorType())
	require.NoError(t, first.Process.Kill())
	_ = first.Wait()
	// The shim's record, which it writes after it sent the exit to the agent, has the stop but no reason.
	var data []byte
	require.Eventually(t, func() (ok bool) {
		var err error
		data, err = os.ReadFile(filepath.Join(cfg.DataDir, "tasks", taskid.Of(o.GetTask()).Name(), shim.ExitFile))
		return err == nil && len(data) > 0
	}, 30*time.Second, time.Millisecond)
	require.NotContains(t, string(data), "GPU_FAULT")

	l.change(func() { l.reports, l.deaf = nil, false })
	process(t, cfg)
	end := l.ended(o.GetTask())
	require.Equal(t, v1.ErrorType_GPU_FAULT, end.GetErrorType())
	require.Contains(t, end.GetErrorMessage(), "Xid 79")
	require.Contains(t, l.health(1, v1.GpuHealth_QUARANTINED), "Xid 79")
	require.False(t, l.hello(1).GetGpus()[1].GetHealth() == v1.GpuHealth_HEALTHY)
}

func TestAStopThatComesWhileAGPUIsVerifiedIsNotLost(t *testing.T) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	inProcess(t, cfg)
	foreign := exec.Command("sleep", "1000")
	require.NoError(t, foreign.Start())
	t.Cleanup(func() { _ = foreign.Process.Kill() })
	simulate(t, cfg, fmt.Sprintf(`{"3": "stuck-process %d"}`, foreign.Process.Pid))
	o, other := onGPUs(order("true"), 3), order("true")
	l.want(o)
	l.reported(o.GetTask(), "starting", func(r *v1.Report) bool { return r.GetStarting() != nil })
	l.want(stopped(o, v1.StopReason_CANCEL, 30), other)
	l.ended(other.GetTask()) // so the agent has the orders
	require.NoError(t, foreign.Process.Kill())
	_ = foreign.Wait()
	end := l.ended(o.GetTask())
	require.Equal(t, v1.ErrorType_DRAINED, end.GetErrorType())
	require.Nil(t, end.ExitCode)
	require.NotContains(t, l.kinds(o.GetTask()), "Running")
}
