package launch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/isolation"
	"github.com/mindcoordinator/mind/agent/outputs"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// specOf returns the PATH and the refusal of a task on a node whose agent has the PATH /agent.
func specOf(t *testing.T, of *v1.TaskSpec) (path, refusal string) {
	t.Helper()
	t.Setenv("PATH", "/agent")
	dirs := outputs.New(t.TempDir())
	l := Launcher{Node: "n1", Visible: func([]int32) string { return "" }, Outputs: dirs}
	s := l.Spec(taskid.ID{Job: "job_1", Attempt: 1}, t.TempDir(), of, nil)
	for _, entry := range s.Env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			path = value
		}
	}
	return path, s.Refusal
}

func TestSpec_pythonsOfAJobComeFirst(t *testing.T) {
	venv, conda := t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(venv, "bin"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(conda, "bin"), 0o700))
	for name, c := range map[string]struct {
		job  map[string]string
		want string
	}{
		"none":                         {map[string]string{"A": "b"}, "/agent"},
		"a virtual environment":        {map[string]string{"VIRTUAL_ENV": venv}, venv + "/bin:/agent"},
		"an environment of conda":      {map[string]string{"CONDA_PREFIX": conda}, conda + "/bin:/agent"},
		"one within the other":         {map[string]string{"CONDA_PREFIX": conda, "VIRTUAL_ENV": venv}, venv + "/bin:" + conda + "/bin:/agent"},
		"the job has a PATH":           {map[string]string{"VIRTUAL_ENV": venv, "PATH": "/own"}, "/own"},
		"the job has a PATH, not this": {map[string]string{"VIRTUAL_ENV": venv + "/none", "PATH": "/own"}, "/own"},
		"no place on a node":           {map[string]string{"VIRTUAL_ENV": ".venv", "CONDA_PREFIX": ""}, "/agent"},
	} {
		path, refusal := specOf(t, &v1.TaskSpec{Job: &v1.SubmitJobRequest{CommandConfig: &v1.CommandConfig{Argv: []string{"x"}, Environment: c.job}}})
		require.Equal(t, c.want, path, name)
		require.Empty(t, refusal, name)
	}

	_, refusal := specOf(t, &v1.TaskSpec{Job: &v1.SubmitJobRequest{CommandConfig: &v1.CommandConfig{Argv: []string{"x"}, Environment: map[string]string{"VIRTUAL_ENV": "/no/venv"}}}})
	require.Equal(t, "node n1 has no /no/venv/bin (VIRTUAL_ENV): make the environment there, or where every node has it (a shared file system)", refusal)
}

// An environment whose Python cannot start would have the job run with that of the node.
func TestSpec_aPythonThatCannotStartIsRefused(t *testing.T) {
	for want, make := range map[string]func(python string) error{
		"it is a link to /no/python3.11, which the node does not have": func(python string) error { return os.Symlink("/no/python3.11", python) },
		"it is not a program": func(python string) error { return os.WriteFile(python, nil, 0o600) },
		"":                    func(python string) error { return os.WriteFile(python, nil, 0o700) },
	} {
		venv := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(venv, "bin"), 0o700))
		require.NoError(t, make(filepath.Join(venv, "bin", "python")))
		_, refusal := specOf(t, &v1.TaskSpec{Job: &v1.SubmitJobRequest{CommandConfig: &v1.CommandConfig{Argv: []string{"x"}, Environment: map[string]string{"VIRTUAL_ENV": venv}}}})
		if want == "" {
			require.Empty(t, refusal)
			continue
		}
		require.Contains(t, refusal, "node n1 cannot start "+venv+"/bin/python (VIRTUAL_ENV): "+want+". Make the environment")
	}
}

// The environment of a job wins over that of its launcher, also over a PATH of the launcher.
func TestSpec_pythonsOfATraining(t *testing.T) {
	venv, own := t.TempDir(), t.TempDir()
	for _, dir := range []string{venv, own} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
		write(t, filepath.Join(dir, "bin", "trainer"), "#!/bin/sh\n", 0o700)
	}
	training := func(launcher, job map[string]string) *v1.TaskSpec {
		return &v1.TaskSpec{
			Job:      &v1.SubmitJobRequest{TrainingConfig: &v1.TrainingConfig{Framework: &v1.Framework{Type: v1.FrameworkType_FSDP}, Environment: job}},
			Launcher: &v1.Launcher{Framework: "FSDP", Argv: []string{"trainer"}, Environment: launcher},
		}
	}
	path, refusal := specOf(t, training(map[string]string{"VIRTUAL_ENV": venv}, nil))
	require.Equal(t, venv+"/bin:/agent", path)
	require.Empty(t, refusal)
	path, refusal = specOf(t, training(map[string]string{"VIRTUAL_ENV": venv, "PATH": "/launcher"}, map[string]string{"VIRTUAL_ENV": own}))
	require.Equal(t, own+"/bin:/launcher", path)
	require.Empty(t, refusal)
	_, refusal = specOf(t, training(nil, map[string]string{"VIRTUAL_ENV": "/no/venv"}))
	require.Contains(t, refusal, "node n1 has no /no/venv/bin (VIRTUAL_ENV)")
	path, refusal = specOf(t, training(map[string]string{"VIRTUAL_ENV": "/no/venv"}, map[string]string{"VIRTUAL_ENV": own}))
	require.Equal(t, own+"/bin:/agent", path)
	require.Empty(t, refusal, "the job has another one")
}

func TestInherited_thePageNamesEachVariable(t *testing.T) {
	page, err := os.ReadFile("../../docs/use/environments.md")
	require.NoError(t, err)
	for _, name := range inherited {
		require.Contains(t, string(page), "`"+name+"`")
	}
	for _, prefix := range inheritedPrefixes {
		require.Contains(t, string(page), "`"+prefix+"*`")
	}
	require.Contains(t, string(page), "`"+defaultPath+"`")
}

// The agent may look into directories that the user of a job cannot enter.
func TestSpec_anEnvironmentIsLookedAtWithTheRightsOfTheUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	closed := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(closed, "venv", "bin"), 0o755))
	l := Launcher{Node: "n1", Users: users(t), Outputs: outputs.New(t.TempDir())}
	env := &environment{}
	for _, there := range []string{"venv", "none"} {
		env.set("VIRTUAL_ENV", filepath.Join(closed, there))
		var s shim.Spec
		require.Empty(t, l.becomeUser(&s, env, "t"))
		require.Equal(t, "node n1 cannot look into "+closed+"/"+there+"/bin (VIRTUAL_ENV): permission denied; let the user of the job read it",
			l.enterPythons(&s, env, nil, map[string]string{"VIRTUAL_ENV": filepath.Join(closed, there)}))
	}
}

func users(t *testing.T) *isolation.Users {
	t.Helper()
	all, err := isolation.OpenUsers(isolation.UsersConfig{ByTenant: map[string]string{"t": "4321:4322"}})
	require.NoError(t, err)
	return all
}
