package jobs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSubmitRequest_venv(t *testing.T) {
	got, err := requestOf(t, "--venv", ".venv", "--env", "A=b", "--", "python", "train.py")
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"python","command_config":{"argv":["python","train.py"],"cwd":"/here","environment":{"A":"b","VIRTUAL_ENV":"/here/.venv"}}}`, got)

	conda := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(conda, "conda-meta"), 0o700))
	file := filepath.Join(t.TempDir(), "job.yaml")
	require.NoError(t, os.WriteFile(file, []byte("name: t\ntraining_config: {training_type: LORA, environment: {A: b, VIRTUAL_ENV: /old}}\n"), 0o600))
	got, err = requestOf(t, "-f", file, "--venv", conda+"/")
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"t","training_config":{"training_type":"LORA","environment":{"A":"b","CONDA_PREFIX":"`+conda+`"}}}`, got)
}

func TestSubmitRequest_auto(t *testing.T) {
	got, err := requestOf(t, "--auto", "--env", "A=b", "--venv", ".venv", "--", "python", "train.py")
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"python","command_config":{"argv":["python","train.py"],"cwd":"/here","environment":{"A":"b","MIND_AUTO":"1","VIRTUAL_ENV":"/here/.venv"}}}`, got)
	_, err = requestOf(t, "--auto=false", "--", "true")
	require.NoError(t, err)
}

func TestSubmit_warnsOfAVenvWithoutPython(t *testing.T) {
	dir := t.TempDir()
	var said strings.Builder
	o := &SubmitOptions{venv: dir}
	o.WarnOfVenv(&said, nil)
	require.Equal(t, "mind: warning: --venv: this machine has no "+dir+"/bin/python; the job needs it on its nodes\n", said.String())
	said.Reset()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", "python"), nil, 0o700))
	o.WarnOfVenv(&said, nil)
	(&SubmitOptions{}).WarnOfVenv(&said, []string{"sh"})
	require.Empty(t, said.String())
}

func TestSubmit_warnsOfAProgramOfTheTerminalsVenv(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", "python"), []byte("#!/bin/sh\n"), 0o700))
	t.Setenv("VIRTUAL_ENV", dir)
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	warned := func(o SubmitOptions, argv ...string) string {
		var said strings.Builder
		o.WarnOfVenv(&said, argv)
		return said.String()
	}
	require.Equal(t, "mind: warning: python is that of "+dir+" here, and the job does not see this environment: add --venv "+dir+"\n", warned(SubmitOptions{}, "python", "train.py"))
	require.Empty(t, warned(SubmitOptions{}, "sh", "-c", "python train.py"))
	require.Empty(t, warned(SubmitOptions{}, "/usr/bin/python"))
	require.Empty(t, warned(SubmitOptions{venv: dir}, "python"))
	require.Empty(t, warned(SubmitOptions{env: []string{"PATH=/opt/bin"}}, "python"))
	require.Empty(t, warned(SubmitOptions{}))
}
