package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/isolation"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

var killAtOnce = shim.StopRequest{}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.HasPrefix(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " Z")
}

func TestHelloTellsWhatTheNodeHas(t *testing.T) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.GPUs, cfg.Labels, cfg.Version = "4xA100,2xH100", map[string]string{"zone": "a"}, "v9"
	inProcess(t, cfg)
	hello := l.hello(0)
	require.Equal(t, "n1", hello.GetNodeId())
	require.Equal(t, "v9", hello.GetAgentVersion())
	require.Equal(t, "a", hello.GetLabels()["zone"])
	require.Contains(t, isolation.Levels(), hello.GetLabels()[isolation.Label])
	require.NotEmpty(t, hello.GetBootId())
	require.Len(t, hello.GetGpus(), 6)
	require.Equal(t, "A100", hello.GetGpus()[3].GetGpuType())
	require.Equal(t, []int32{5}, hello.GetGpus()[4].GetNvlinkPeers())
	require.True(t, hello.GetGpus()[0].GetSimulated())
	require.EqualValues(t, 64, hello.GetCpuCount())
	require.EqualValues(t, 512<<10, hello.GetMemoryMb())
	l.await("heartbeats", func() bool { return l.beats > 3 })
}

func TestAShortTaskIsReportedWhole(t *testing.T) {
	l := newLeader(t)
	inProcess(t, testConfig(t, l))
	o := order("sh", "-c", "exit 3")
	l.want(o)
	end := l.ended(o.GetTask())
	require.EqualValues(t, 3, end.GetExitCode())
	require.Equal(t, v1.ErrorType_EXIT_NONZERO, end.GetErrorType())
	require.Equal(t, []string{"Running", "Ended"}, l.course(o.GetTask()))
	// The orders change and do not contain the task any more: nothing is reported again.
	again := order("true")
	l.want(again)
	require.Zero(t, l.ended(again.GetTask()).GetExitCode())
	require.Equal(t, v1.ErrorType_UNSPECIFIED, l.ended(again.GetTask()).GetErrorType())
}

func TestMissingWorkingDirectoryIsNotAMystery(t *testing.T) {
	l := newLeader(t)
	inProcess(t, testConfig(t, l))
	o := order("true")
	o.Spec.Job.CommandConfig.Cwd = "/no/such/dir"
	l.want(o)
	end := l.ended(o.GetTask())
	require.Equal(t, v1.ErrorType_CWD_MISSING, end.GetErrorType())
	require.Contains(t, end.GetErrorMessage(), "working directory /no/such/dir does not exist on node n1")
	require.Nil(t, end.ExitCode)
}

// envOf runs env as a task and returns what it printed.
func envOf(t *testing.T, change func(*v1.TaskSpec)) map[string]string {
	t.Helper()
	l := newLeader(t)
	cfg := testConfig(t, l)
	inProcess(t, cfg)
	out := filepath.Join(t.TempDir(), "env")
	o := order("sh", "-c", `test -d "$MIND_OUTPUT_DIR" && test -d "$MIND_CHECKPOINT_DIR" && env -0 > `+out)
	change(o.Spec)
	l.want(o)
	end := l.ended(o.GetTask())
	require.Zero(t, end.GetExitCode(), end.GetErrorMessage())
	data, err := os.ReadFile(out)
	require.NoError(t, err)
	env := make(map[string]string)
	for entry := range strings.SplitSeq(string(data), "\x00") {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	require.Equal(t, o.GetTask().GetJobId(), env["MIND_JOB_ID"])
	require.True(t, strings.HasPrefix(env["MIND_METRICS_FILE"], cfg.DataDir))
	require.True(t, strings.HasPrefix(env["MIND_EVENTS_FILE"], cfg.DataDir))
	return env
}

func TestTheTaskKnowsItsPlace(t *testing.T) {
	t.Setenv("MIND_API_SECRET", "hunter2")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
	t.Run("gang", func(t *testing.T) {
		dir := t.TempDir()
		env := envOf(t, func(s *v1.TaskSpec) {
			s.Gpus = []int32{2, 5}
			s.Peers = []*v1.TaskPeer{{NodeId: "n7", Host: "10.0.0.7"}, {NodeId: "n1", Host: "10.0.0.1"}}
			s.ResumeFrom = "/ckpt/checkpoint-5"
			s.Job.OutputConfig = &v1.OutputConfig{OutputDir: dir}
			s.Job.CommandConfig.Environment = map[string]string{"A": "b", "MIND_ATTEMPT": "99", "MIND_GATES": "forged", "MIND_MODEL_PATH": "forged"}
		})
		for name, want := range map[string]string{
			"CUDA_VISIBLE_DEVICES": "2,5", "MIND_ATTEMPT": "1", "MIND_NODE_RANK": "0", "MIND_NNODES": "2", "MIND_GPUS_PER_NODE": "2",
			"MASTER_ADDR": "10.0.0.7", "MASTER_PORT": "15001", "MIND_RESUME_FROM": "/ckpt/checkpoint-5", "A": "b",
			"PET_NNODES": "2", "PET_NODE_RANK": "0", "PET_NPROC_PER_NODE": "2", "PET_MASTER_ADDR": "10.0.0.7", "PET_MASTER_PORT": "15001",
			"PET_RDZV_ID": env["MIND_JOB_ID"] + "-1",
		} {
			require.Equal(t, want, env[name], name)
		}
		noRank(t, env)
		require.Equal(t, filepath.Join(dir, env["MIND_JOB_ID"], "attempt-1"), env["MIND_OUTPUT_DIR"])
		require.NotContains(t, env, "MIND_API_SECRET")
		require.NotContains(t, env, "MIND_GATES", "a job cannot say that it has passed a gate")
		require.NotContains(t, env, "MIND_MODEL_PATH")
		require.NotContains(t, env, "AWS_SECRET_ACCESS_KEY")
	})
	t.Run("CPU only", func(t *testing.T) {
		env := envOf(t, func(*v1.TaskSpec) {})
		value, set := env["CUDA_VISIBLE_DEVICES"]
		require.True(t, set)
		require.Empty(t, value)
		require.NotContains(t, env, "MIND_RESUME_FROM")
		noRank(t, env)
		require.Equal(t, "1", env["PET_NPROC_PER_NODE"])
	})
	t.Run("one process on each of several nodes", func(t *testing.T) {
		for _, gpus := range [][]int32{nil, {3}} {
			env := envOf(t, func(s *v1.TaskSpec) {
				s.Gpus, s.Peers = gpus, []*v1.TaskPeer{{NodeId: "n1", Host: "10.0.0.1"}, {NodeId: "n7", Host: "10.0.0.7"}}
				s.Job.CommandConfig.Environment = map[string]string{"RANK": "7", "PET_NPROC_PER_NODE": "3"}
			})
			for name, want := range map[string]string{"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "PET_NPROC_PER_NODE": "3"} {
				require.Equal(t, want, env[name], name)
			}
		}
	})
}

// Where MPS runs, it holds the processes of a job to its share of a GPU, whatever the job sets.
func TestAShareOfAGPUHasLimitsWhereMPSRuns(t *testing.T) {
	belowFull(t, "MPS cannot be reached there")
	pipes := t.TempDir()
	t.Setenv("CUDA_MPS_PIPE_DIRECTORY", pipes)
	share := func(fraction float64) map[string]string {
		return envOf(t, func(s *v1.TaskSpec) {
			s.Gpus, s.GpuFraction = []int32{3}, fraction
			s.Job.CommandConfig.Environment = map[string]string{"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "100"}
		})
	}
	without := share(0.25)
	require.Equal(t, "100", without["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"])
	require.NotContains(t, without, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT")
	require.NoError(t, os.WriteFile(filepath.Join(pipes, "nvidia-cuda-mps-control.pid"), []byte("1\n"), 0o600))
	for name, want := range map[string]string{
		"CUDA_VISIBLE_DEVICES": "3", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "12.5", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=10194M", "CUDA_MPS_PIPE_DIRECTORY": pipes,
	} {
		require.Equal(t, want, share(0.125)[name], name)
	}
	require.NotContains(t, share(1), "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "a whole GPU has no limit")
}

// noRank checks that a task has no variable of a rank: some of them alone would mislead programs.
func noRank(t *testing.T, env map[string]string) {
	t.Helper()
	for _, name := range []string{"RANK", "LOCAL_RANK", "WORLD_SIZE"} {
		require.NotContains(t, env, name)
	}
}

func TestTrainingJobs(t *testing.T) {
	l := newLeader(t)
	inProcess(t, testConfig(t, l))
	dir := t.TempDir()
	script := filepath.Join(dir, "train.sh")
	require.NoError(t, os.WriteFile(script, []byte(`grep -q '"model_id":"m1"' "$MIND_CONFIG" && grep -q '"training_type":"SFT"' "$MIND_CONFIG" && exit 11`), 0o644))
	custom := order()
	custom.Spec.Job = &v1.SubmitJobRequest{TrainingConfig: &v1.TrainingConfig{
		TrainingType: v1.TrainingType_SFT, BaseModel: &v1.BaseModel{ModelId: "m1"},
		Framework: &v1.Framework{Type: v1.FrameworkType_CUSTOM, CustomScriptPath: script},
	}}
	other := order()
	other.Spec.Job = &v1.SubmitJobRequest{TrainingConfig: &v1.TrainingConfig{Framework: &v1.Framework{Type: v1.FrameworkType_DEEPSPEED}}}
	l.want(custom, other)
	require.EqualValues(t, 11, l.ended(custom.GetTask()).GetExitCode(), l.ended(custom.GetTask()).GetErrorMessage())
	end := l.ended(other.GetTask())
	require.Equal(t, v1.ErrorType_LAUNCH_FAILED, end.GetErrorType())
	require.Contains(t, end.GetErrorMessage(), "DEEPSPEED")
}

func TestStopOrders(t *testing.T) {
	l := newLeader(t)
	inProcess(t, testConfig(t, l))
	up := filepath.Join(t.TempDir(), "up")
	polite := order("sh", "-c", `trap 'exit 21' USR1; trap 'exit 22' TERM; echo > `+up+`; while :; do sleep 0.01; done`)
	l.want(polite)
	l.running(polite.GetTask())
	require.Eventually(t, func() bool { _, err := os.Stat(up); return err == nil }, 30*time.Second, time.Millisecond)
	l.want(stopped(polite, v1.StopReason_PREEMPT, 30))
	require.EqualValues(t, 21, l.ended(polite.GetTask()).GetExitCode(), "preemption gives notice")

	sleeper := order("sleep", "1000")
	l.want(sleeper)
	l.running(sleeper.GetTask())
	l.want(stopped(sleeper, v1.StopReason_CANCEL, 30))
	require.EqualValues(t, 143, l.ended(sleeper.GetTask()).GetExitCode(), "cancel does not")

	unwanted := order("sleep", "1000")
	l.want(unwanted)
	pid := l.running(unwanted.GetTask())
	l.want()
	require.EqualValues(t, 143, l.ended(unwanted.GetTask()).GetExitCode())
	require.False(t, alive(pid))

	never := order("sh", "-c", "exit 1")
	l.want(stopped(never, v1.StopReason_CANCEL, 30))
	end := l.ended(never.GetTask())
	require.Nil(t, end.ExitCode)
	require.Contains(t, end.GetErrorMessage(), "before it was launched")
	// The orders contain it again, as from a leader that missed the report: its end is reported again, and it does not
	// run.
	l.want(never)
	require.NotContains(t, l.kinds(never.GetTask()), "Running")
}

func TestTheAgentIsKilledAndTheJobDoesNotNotice(t *testing.T) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	dir := t.TempDir()
	gate := func(name string, code int) *v1.TaskOrder {
		return order("sh", "-c", fmt.Sprintf("while [ ! -e %s/%s ]; do sleep 0.01; done; exit %d", dir, name, code))
	}
	meanwhile, later := gate("meanwhile", 41), gate("later", 42)
	first := process(t, cfg)
	l.want(meanwhile, later)
	l.running(meanwhile.GetTask())
	pid := l.running(later.GetTask())
	require.NoError(t, first.Process.Kill())
	_ = first.Wait()

	require.NoError(t, os.WriteFile(filepath.Join(dir, "meanwhile"), nil, 0o600))
	exit := filepath.Join(cfg.DataDir, "tasks", taskid.Of(meanwhile.GetTask()).Name(), shim.ExitFile)
	require.Eventually(t, func() bool { _, err := os.Stat(exit); return err == nil }, 30*time.Second, time.Millisecond)
	require.True(t, alive(pid))

	l.change(func() { l.reports = nil })
	process(t, cfg)
	require.EqualValues(t, 41, l.ended(meanwhile.GetTask()).GetExitCode())
	require.Equal(t, pid, l.running(later.GetTask()))
	require.Len(t, l.hello(1).GetTasks(), 2)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "later"), nil, 0o600))
	require.EqualValues(t, 42, l.ended(later.GetTask()).GetExitCode())
	require.NotContains(t, l.kinds(later.GetTask()), "Starting", "it was launched again")
}

func TestAgentsKilledAllTheTimeRunEveryTaskOnce(t *testing.T) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	dir := t.TempDir()
	var orders []*v1.TaskOrder
	for range 60 {
		o := order()
		o.Spec.Job.CommandConfig.Argv = []string{"sh", "-c", fmt.Sprintf("echo x >> %s/%s; exit 7", dir, o.GetTask().GetJobId())}
		orders = append(orders, o)
	}
	l.want(orders...)
	ends := func() int {
		n := make(map[string]bool)
		for _, r := range l.reports {
			if r.GetEnded() != nil {
				n[r.GetTask().GetJobId()] = true
			}
		}
		return len(n)
	}
	for round := 1; round <= 5; round++ {
		cmd := process(t, cfg)
		l.await("progress", func() bool { return ends() >= min(60, round*10) })
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
	}
	process(t, cfg)
	for _, o := range orders {
		require.EqualValues(t, 7, l.ended(o.GetTask()).GetExitCode(), l.ended(o.GetTask()).GetErrorMessage())
		data, err := os.ReadFile(filepath.Join(dir, o.GetTask().GetJobId()))
		require.NoError(t, err)
		require.Equal(t, "x\n", string(data), "ran %d times", len(data)/2)
	}
}

func TestStopOfTheAgentLeavesTasksAlone(t *testing.T) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	stop := inProcess(t, cfg)
	o := order("sleep", "1000")
	l.want(o)
	pid := l.running(o.GetTask())
	stop()
	require.True(t, alive(pid))
}

func TestStopTasksOnExitLeavesNoProcess(t *testing.T) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.StopTasksOnExit, cfg.StopGrace = true, 50*time.Millisecond
	stop := inProcess(t, cfg)
	stubborn, easy := order("sh", "-c", "trap '' TERM; while :; do sleep 0.01; done"), order("sleep", "1000")
	l.want(stubborn, easy)
	pids := []int{l.running(stubborn.GetTask()), l.running(easy.GetTask())}
	stop()
	for _, pid := range pids {
		require.False(t, alive(pid))
	}
	entries, err := os.ReadDir(filepath.Join(cfg.DataDir, "tasks"))
	require.NoError(t, err)
	require.Len(t, entries, 2)
}

func TestTheAgentFindsTheNextLeader(t *testing.T) {
	old, next := newLeader(t), newLeader(t)
	next.term = 2
	old.refuse = "" // leads
	next.refuse = old.addr
	cfg := testConfig(t, old, next)
	inProcess(t, cfg)
	o := order("sleep", "1000")
	old.want(o)
	old.running(o.GetTask())
	next.change(func() { next.refuse, next.orders, next.index = "", []*v1.TaskOrder{o}, 1 })
	old.server.Stop()
	require.Len(t, next.hello(0).GetTasks(), 1)
	next.want(stopped(o, v1.StopReason_CANCEL, 1))
	next.ended(o.GetTask())
}

func TestUnacknowledgedReportsAreSentAgain(t *testing.T) {
	old, next := newLeader(t), newLeader(t)
	next.term, next.refuse = 2, old.addr
	old.deaf = true
	inProcess(t, testConfig(t, old, next))
	o := order("sh", "-c", "exit 5")
	old.want(o)
	old.ended(o.GetTask())
	next.change(func() { next.refuse = "" })
	old.server.Stop()
	require.EqualValues(t, 5, next.ended(o.GetTask()).GetExitCode())
	require.Equal(t, []string{"Running", "Ended"}, next.course(o.GetTask()))
}

func TestManyTasksAtOnce(t *testing.T) {
	l := newLeader(t)
	inProcess(t, testConfig(t, l))
	var orders []*v1.TaskOrder
	for range 100 {
		orders = append(orders, order("true"))
	}
	l.want(orders...)
	for _, o := range orders {
		require.Zero(t, l.ended(o.GetTask()).GetExitCode())
	}
}

func TestOneAgentAtATime(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	cfg := testConfig(t, l)
	inProcess(t, cfg)
	l.hello(0)
	require.ErrorContains(t, Run(context.Background(), cfg), "in use by another agent")
}

func TestASignalToTheAgentIsACleanStop(t *testing.T) {
	l := newLeader(t)
	cmd := process(t, testConfig(t, l))
	l.hello(0)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
}
