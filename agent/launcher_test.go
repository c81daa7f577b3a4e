package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/api/launcher"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// trainingOrder returns an order for a training by a script.
func trainingOrder(script string, change func(*v1.TaskSpec)) *v1.TaskOrder {
	o := order()
	o.Spec.Job = &v1.SubmitJobRequest{
		Name: "t",
		TrainingConfig: &v1.TrainingConfig{
			TrainingType: v1.TrainingType_SFT, BaseModel: &v1.BaseModel{ModelId: "m1"}, Environment: map[string]string{},
			Framework: &v1.Framework{Type: v1.FrameworkType_CUSTOM, CustomScriptPath: script},
		},
		DataConfig: &v1.DataConfig{Sources: []*v1.DataSource{{Path: filepath.Dir(script)}}, MaxSeqLength: 8},
	}
	if change != nil {
		change(o.Spec)
	}
	return o
}

func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	// A shim that is forked meanwhile would have the file open for writing, and exec would fail.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, []byte(text), mode))
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

// The order in which docs/use/launchers.md says that variables replace each other.
func TestLauncher_environmentOfATraining(t *testing.T) {
	l := newLeader(t)
	t.Setenv("LC_TEST", "agent")
	t.Setenv("NCCL_A", "agent")
	inProcess(t, testConfig(t, l))
	dir := t.TempDir()
	script := write(t, filepath.Join(dir, "env.sh"), `env > "$OUT"; stat -c %a "$MIND_CONFIG" > "$OUT.mode"; cp "$MIND_CONFIG" "$OUT.config"`, 0o600)
	o := trainingOrder(script, func(s *v1.TaskSpec) {
		s.Launcher = &v1.Launcher{
			Framework: "CUSTOM", Argv: []string{"{script_command}"},
			Environment: map[string]string{"LC_TEST": "launcher", "NCCL_A": "launcher", "B": "launcher", "OUT": dir + "/out", "MIND_ATTEMPT": "7", "AT": "{node_rank}/{nnodes} {model}"},
		}
		s.Job.TrainingConfig.Environment = map[string]string{"LC_TEST": "job", "B": "job", "MIND_CONFIG": "job", "WORLD_SIZE": "job"}
	})
	l.want(o)
	end := l.ended(o.GetTask())
	require.Zero(t, end.GetExitCode(), end.GetErrorMessage())
	env := map[string]string{}
	for line := range strings.Lines(read(t, dir+"/out")) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		env[name] = value
	}
	for name, want := range map[string]string{
		"LC_TEST": "job", "NCCL_A": "launcher", "B": "job", "MIND_ATTEMPT": "1", "WORLD_SIZE": "1", "AT": "0/1 m1",
	} {
		require.Equal(t, want, env[name], name)
	}
	require.True(t, filepath.IsAbs(env["MIND_CONFIG"]))
	require.Equal(t, "600\n", read(t, dir+"/out.mode"))
	require.JSONEq(t, `{"name":"t","training_config":{"training_type":"SFT","base_model":{"model_id":"m1"},
		"framework":{"type":"CUSTOM","custom_script_path":"`+script+`"},"environment":{"LC_TEST":"job","B":"job","MIND_CONFIG":"job","WORLD_SIZE":"job"}},
		"data_config":{"sources":[{"path":"`+dir+`"}],"max_seq_length":8}}`, read(t, dir+"/out.config"))
}

// gang runs a training on two nodes, each with its own agent, and returns the ends.
func gang(t *testing.T, script string, change func(*v1.TaskSpec)) (job string, ends [2]*v1.TaskEnded) {
	t.Helper()
	first := trainingOrder(script, nil)
	var leaders [2]*fakeLeader
	var orders [2]*v1.TaskOrder
	for rank := range 2 {
		leaders[rank] = newLeader(t)
		cfg := testConfig(t, leaders[rank])
		cfg.NodeID = fmt.Sprint("n", rank+1)
		inProcess(t, cfg)
		o := trainingOrder(script, func(s *v1.TaskSpec) {
			s.Job.TrainingConfig.Framework.Distributed = &v1.Distributed{Backend: "gloo"}
			s.Gpus, s.MasterPort = []int32{int32(2 * rank), 5}, int32(15_000+os.Getpid()%15_000)
			s.Peers = []*v1.TaskPeer{{NodeId: "n1", Host: "127.0.0.1"}, {NodeId: "n2", Host: "localhost"}}
			change(s)
		})
		o.Task = &v1.TaskRef{JobId: first.GetTask().GetJobId(), Attempt: 3, Rank: int32(rank), Token: first.GetTask().GetToken()}
		orders[rank] = o
	}
	for rank, l := range leaders {
		l.want(orders[rank])
	}
	for rank, l := range leaders {
		ends[rank] = l.ended(orders[rank].GetTask())
	}
	return first.GetTask().GetJobId(), ends
}

// A gang runs under torchrun with one rendezvous for the attempt: all ranks get the same arguments, except for the
// rank.
func TestLauncher_aGangUnderTorchrun(t *testing.T) {
	dir := t.TempDir()
	script := write(t, filepath.Join(dir, "train me.py"), "", 0o600)
	write(t, filepath.Join(dir, "bin", "torchrun"), "#!/bin/sh\nprintf '%s\\n' \"$@\" > "+dir+"/argv.$MIND_NODE_RANK\n", 0o700)
	var port int32
	job, ends := gang(t, script, func(s *v1.TaskSpec) {
		port = s.GetMasterPort()
		s.Job.TrainingConfig.Environment["PATH"] = filepath.Join(dir, "bin") + ":/usr/bin:/bin"
	})
	for rank, end := range ends {
		require.Zero(t, end.GetExitCode(), end.GetErrorMessage())
		require.Equal(t, strings.Join([]string{
			"--nnodes=2", "--nproc_per_node=2", fmt.Sprintf("--node_rank=%d", rank), "--master_addr=127.0.0.1",
			fmt.Sprintf("--master_port=%d", port), "--rdzv_id=" + job + "-3", "--max_restarts=0", script, "",
		}, "\n"), read(t, fmt.Sprintf("%s/argv.%d", dir, rank)))
	}
}

// This is the same with PyTorch's torchrun, if it is installed: it accepts the arguments, the nodes find each other,
// and the ranks are those that Mind has assigned.
func TestLauncher_aGangUnderTheRealTorchrun(t *testing.T) {
	torchrun, err := exec.LookPath("torchrun")
	if err != nil || testing.Short() {
		t.Skip("no torchrun (Debian: python3-torch), or no time for it")
	}
	dir := t.TempDir()
	script := write(t, filepath.Join(dir, "train.sh"), `echo "$RANK/$WORLD_SIZE local $LOCAL_RANK/$LOCAL_WORLD_SIZE on $MIND_NODE_RANK as $TORCHELASTIC_RUN_ID" > `+dir+`/rank.$RANK`, 0o600)
	l := launcher.Builtin("CUSTOM")
	// Without these flags torch 1.13 uses a feature that Python 3.11 has removed, and Debian ships the two together.
	l.DistributedArgv = slices.Insert(l.DistributedArgv, 1, "--redirects=1", "--tee=1")
	job, ends := gang(t, script, func(s *v1.TaskSpec) {
		s.Launcher = l
		s.Job.TrainingConfig.Environment["PATH"] = filepath.Dir(torchrun) + ":/usr/bin:/bin"
	})
	for _, end := range ends {
		require.Zero(t, end.GetExitCode(), end.GetErrorMessage())
	}
	for rank := range 4 {
		require.Equal(t, fmt.Sprintf("%d/4 local %d/2 on %d as %s-3\n", rank, rank%2, rank/2, job), read(t, fmt.Sprintf("%s/rank.%d", dir, rank)))
	}
}

// As the help of `mind submit` says, a command that runs torchrun without flags trains together on all nodes of the
// job.
func TestTorchrunWithoutFlags(t *testing.T) {
	torchrun, err := exec.LookPath("torchrun")
	if err != nil || testing.Short() {
		t.Skip("no torchrun (Debian: python3-torch), or no time for it")
	}
	dir := t.TempDir()
	script := write(t, filepath.Join(dir, "train.sh"), `echo "$RANK/$WORLD_SIZE local $LOCAL_RANK/$LOCAL_WORLD_SIZE on $MIND_NODE_RANK as $TORCHELASTIC_RUN_ID" > `+dir+`/rank.$RANK`, 0o600)
	job, ends := gang(t, script, func(s *v1.TaskSpec) {
		s.Job.TrainingConfig = nil
		s.Job.CommandConfig = &v1.CommandConfig{
			// The first two are for torch 1.13 under Python 3.11, as above.
			Argv:        []string{"torchrun", "--redirects=1", "--tee=1", "--no_python", "/bin/sh", script},
			Environment: map[string]string{"PATH": filepath.Dir(torchrun) + ":/usr/bin:/bin"},
		}
	})
	for _, end := range ends {
		require.Zero(t, end.GetExitCode(), end.GetErrorMessage())
	}
	for rank := range 4 {
		require.Equal(t, fmt.Sprintf("%d/4 local %d/2 on %d as %s-3\n", rank, rank%2, rank/2, job), read(t, fmt.Sprintf("%s/rank.%d", dir, rank)))
	}
}

func TestLauncher_aScriptWithoutDistributedStartsOnceOnEachNode(t *testing.T) {
	dir := t.TempDir()
	script := write(t, filepath.Join(dir, "train.sh"), `echo "$MIND_NODE_RANK of $MIND_NNODES, $CUDA_VISIBLE_DEVICES" >> `+dir+`/ran.$MIND_NODE_RANK`, 0o600)
	_, ends := gang(t, script, func(s *v1.TaskSpec) { s.Job.TrainingConfig.Framework.Distributed = nil })
	for rank, end := range ends {
		require.Zero(t, end.GetExitCode(), end.GetErrorMessage())
		require.Equal(t, fmt.Sprintf("%d of 2, %d,5\n", rank, 2*rank), read(t, fmt.Sprintf("%s/ran.%d", dir, rank)))
	}
}

// The error names the script, program or module that a node lacks, as a failure of the launch and not of the program.
func TestLauncher_whatTheNodeLacks(t *testing.T) {
	l := newLeader(t)
	inProcess(t, testConfig(t, l))
	dir := t.TempDir()
	script := write(t, filepath.Join(dir, "ok.sh"), "exit 0", 0o600)
	framework := func(kind v1.FrameworkType_Value) func(*v1.TaskSpec) {
		return func(s *v1.TaskSpec) { s.Job.TrainingConfig.Framework = &v1.Framework{Type: kind} }
	}
	for name, tt := range map[string]struct {
		script string
		change func(*v1.TaskSpec)
		says   string
	}{
		"the script":          {dir + "/none.py", nil, "node n1 has no " + dir + "/none.py (custom_script_path)"},
		"a directory instead": {dir, nil, "node n1: custom_script_path " + dir + " is a directory"},
		"the program": {script, func(s *v1.TaskSpec) {
			framework(v1.FrameworkType_FSDP)(s)
			s.Job.TrainingConfig.Environment["PATH"] = "/nowhere"
		}, "node n1 has no torchrun (PATH=/nowhere): install it there, or change the launcher of FSDP"},
		"a program by path": {script, func(s *v1.TaskSpec) {
			s.Launcher = &v1.Launcher{Framework: "CUSTOM", Argv: []string{"/no/such/program"}}
		}, "node n1 has no /no/such/program"},
		"a program in its own directory": {script, func(s *v1.TaskSpec) {
			s.Launcher = &v1.Launcher{Framework: "CUSTOM", Argv: []string{"./program"}}
		}, "cannot run ./program on node n1"},
		"the script of a launcher": {script, func(s *v1.TaskSpec) {
			framework(v1.FrameworkType_FSDP)(s)
			s.Launcher = &v1.Launcher{Framework: "FSDP", Argv: []string{"/bin/sh", "{script}"}}
		}, "the launcher of FSDP runs a script"},
		"a placeholder of tomorrow": {script, func(s *v1.TaskSpec) {
			s.Launcher = &v1.Launcher{Framework: "CUSTOM", Argv: []string{"/bin/sh", "{tomorrow}"}}
		}, "from another version of mind"},
		"a variable of tomorrow": {script, func(s *v1.TaskSpec) {
			s.Launcher = &v1.Launcher{Framework: "CUSTOM", Argv: []string{"/bin/sh"}, Environment: map[string]string{"A": "{tomorrow}"}}
		}, "from another version of mind"},
		"a launcher at all": {script, func(s *v1.TaskSpec) { s.Job = &v1.SubmitJobRequest{Name: "unreadable"} }, "neither a command_config nor a training_config"},
	} {
		t.Run(name, func(t *testing.T) {
			o := trainingOrder(tt.script, tt.change)
			l.want(o)
			end := l.ended(o.GetTask())
			require.Equal(t, v1.ErrorType_LAUNCH_FAILED, end.GetErrorType(), end.GetErrorMessage())
			require.Contains(t, end.GetErrorMessage(), tt.says)
			require.Nil(t, end.ExitCode)
		})
	}
}

// The runner is looked for before it is started, and started where it is found.
func TestLauncher_theRunner(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	l := newLeader(t)
	inProcess(t, testConfig(t, l))
	dir := t.TempDir()
	evaluation := func(pythonPath string) *v1.TaskOrder {
		o := order()
		o.Spec.Job = &v1.SubmitJobRequest{EvaluationConfig: &v1.EvaluationConfig{ModelUri: "m"}}
		o.Spec.ModelPath = dir
		// The arguments after the first one here are the job's, so the modules are found through the launcher's
		// variables.
		o.Spec.Launcher = &v1.Launcher{
			Framework: "EVALUATION", Argv: []string{python, "-m", "mind_runner", "evaluate", "--config", "{config}"},
			Environment: map[string]string{"PYTHONPATH": pythonPath, "OUT": dir + "/out"},
		}
		return o
	}
	without, with := evaluation("/nowhere"), evaluation(dir)
	write(t, filepath.Join(dir, "mind_runner", "__main__.py"),
		"import json, os, sys\nopen(os.environ['OUT'], 'w').write(json.dumps([sys.argv[1:3], json.load(open(sys.argv[3])), sys.argv[3] == os.environ['MIND_CONFIG']]))", 0o600)
	write(t, filepath.Join(dir, "mind_runner", "__init__.py"), "", 0o600)
	l.want(without, with)
	end := l.ended(without.GetTask())
	require.Equal(t, v1.ErrorType_LAUNCH_FAILED, end.GetErrorType(), end.GetErrorMessage())
	require.Contains(t, end.GetErrorMessage(), "node n1 has no Python module mind_runner, the runner of trainings and evaluations")
	end = l.ended(with.GetTask())
	require.Zero(t, end.GetExitCode(), end.GetErrorMessage())
	require.JSONEq(t, `[["evaluate", "--config"], {"evaluation_config": {"model_uri": "m"}}, true]`, read(t, dir+"/out"))
}

// The notice of a pause goes to the workers, which can save their state, and not to the launcher above them.
func TestLauncher_workersAreToldBeforeAStop(t *testing.T) {
	l := newLeader(t)
	inProcess(t, testConfig(t, l))
	dir := t.TempDir()
	script := write(t, filepath.Join(dir, "train.sh"), `trap 'echo saved > $D/saved; exit 21' USR1; echo > $D/up; while :; do sleep 0.01; done`, 0o600)
	write(t, filepath.Join(dir, "bin", "torchrun"), "#!/bin/sh\n/bin/sh "+script+"\nexit $?\n", 0o700)
	o := trainingOrder(script, func(s *v1.TaskSpec) {
		s.Job.TrainingConfig.Framework.Distributed = &v1.Distributed{}
		s.Job.TrainingConfig.Environment = map[string]string{"D": dir, "PATH": filepath.Join(dir, "bin") + ":/usr/bin:/bin"}
	})
	l.want(o)
	l.running(o.GetTask())
	require.Eventually(t, func() bool { _, err := os.Stat(dir + "/up"); return err == nil }, time.Minute, time.Millisecond)
	l.want(stopped(o, v1.StopReason_PAUSE, 60))
	require.EqualValues(t, 21, l.ended(o.GetTask()).GetExitCode())
	require.Equal(t, "saved\n", read(t, dir+"/saved"))
}
