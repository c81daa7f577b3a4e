package launch

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/agent/outputs"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func TestModules(t *testing.T) {
	for line, want := range map[string][]string{
		"python3 -m mind_runner train":                              {"mind_runner"},
		"/opt/venv/bin/python3.11 -u -m a.b.c":                      {"a"},
		"python3 -m deepspeed.launcher.launch --module mind_runner": {"deepspeed", "mind_runner"},
		"torchrun --nnodes=2 -m mind_runner train":                  {"mind_runner"},
		"torchrun --nnodes=2 train.py -m other":                     nil,
		"python3 train.py -m other":                                 nil,
		"python3 -m":                                                nil,
		"python3 -m ../x":                                           nil,
		"/bin/sh -m mind_runner":                                    nil,
	} {
		require.Equal(t, want, modules(strings.Fields(line)), line)
	}
}

func TestInterpreterOf(t *testing.T) {
	dir := t.TempDir()
	l := lacking{env: &environment{}}
	l.env.set("PATH", dir)
	python := write(t, filepath.Join(dir, "python3"), "", 0o700)
	for head, want := range map[string]string{
		"#!" + python + "\nimport x": python, "#! " + python + " -u\n": python, "#!/usr/bin/env python3\n": python,
		"#!/bin/sh\n": "", "import x": "", "": "", "#!\n": "", "#!/usr/bin/env\n": "", "\x7fELF": "",
	} {
		require.Equal(t, want, l.interpreterOf(write(t, filepath.Join(dir, "torchrun"), head, 0o600)), head)
	}
	require.Empty(t, l.interpreterOf(filepath.Join(dir, "none")))
}

func TestDeepspeedWorld(t *testing.T) {
	for name, tt := range map[string]struct {
		p    place
		want string
	}{
		"one GPU":    {place{nodes: 1, perNode: 1, visible: "3"}, `{"rank-0":[3]}`},
		"two nodes":  {place{nodes: 2, perNode: 2, visible: "3,5", id: taskid.ID{Rank: 1}}, `{"rank-0":[0,1],"rank-1":[3,5]}`},
		"by uuid":    {place{nodes: 1, perNode: 2, visible: "GPU-a,GPU-b"}, `{"rank-0":["GPU-a","GPU-b"]}`},
		"nothing":    {place{nodes: 1, perNode: 1}, `{"rank-0":[0]}`},
		"many nodes": {place{nodes: 11, perNode: 1, visible: "7", id: taskid.ID{Rank: 10}}, `{"rank-0":[0],"rank-1":[0],"rank-2":[0],"rank-3":[0],"rank-4":[0],"rank-5":[0],"rank-6":[0],"rank-7":[0],"rank-8":[0],"rank-9":[0],"rank-10":[7]}`},
	} {
		data, err := base64.URLEncoding.DecodeString(tt.p.deepspeedWorld())
		require.NoError(t, err, name)
		require.Equal(t, tt.want, string(data), name) // in the order of the ranks, which deepspeed requires
		require.True(t, json.Valid(data))
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), mode))
	return path
}

// The job has chosen the Python: the agent, which may be root, must not run it.
func TestSpec_theAgentDoesNotRunThePythonOfAJob(t *testing.T) {
	dir := t.TempDir()
	ran := filepath.Join(dir, "ran")
	python := write(t, filepath.Join(dir, "python3"), "#!/bin/sh\necho > "+ran+"\nexit 93\n", 0o700)
	write(t, filepath.Join(dir, "torchrun"), "#!"+python+"\n", 0o700)
	for _, program := range []string{"python3", "torchrun"} {
		l := Launcher{Node: "n1", Visible: func([]int32) string { return "" }, Outputs: outputs.New(t.TempDir())}
		s := l.Spec(taskid.ID{Job: "job_1", Attempt: 1}, t.TempDir(), &v1.TaskSpec{
			Job:      &v1.SubmitJobRequest{TrainingConfig: &v1.TrainingConfig{Framework: &v1.Framework{Type: v1.FrameworkType_FSDP}, Environment: map[string]string{"PATH": dir}}},
			Launcher: &v1.Launcher{Framework: "FSDP", Argv: []string{program, "-m", "mind_runner", "train"}},
		}, nil)
		require.Empty(t, s.Refusal)
		require.NoFileExists(t, ran)
		require.Equal(t, python, s.Probe[0])
		require.Equal(t, []string{"mind_runner"}, s.Probe[3:])
		require.Equal(t, []string{"node n1 has no Python module mind_runner, the runner of trainings and evaluations: install it for the python3 of the job, or change the launcher of FSDP (mind launchers show FSDP)"}, s.Lacks)
	}
}

// To open a FIFO for reading waits until another process writes to it.
func TestInterpreterOf_aFIFOHasNone(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "torchrun")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	require.Empty(t, lacking{env: &environment{}}.interpreterOf(fifo))
}
