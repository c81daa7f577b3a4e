package launch

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/outputs"
	"github.com/mindcoordinator/mind/agent/private"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// A training names any text as its model, and a checkpoint lies where its job has put it.
func TestOpened_onlyDirectoriesForData(t *testing.T) {
	top := t.TempDir()
	for _, dir := range []string{"roots/a", "elsewhere", "agent/outputs", "roots/hidden"} {
		require.NoError(t, os.MkdirAll(filepath.Join(top, dir), 0o755))
	}
	hidden := private.New(filepath.Join(top, "agent"), filepath.Join(top, "roots", "hidden"))
	defer hidden.Close()
	require.NoError(t, os.Symlink(filepath.Join(top, "elsewhere"), filepath.Join(top, "roots", "link")))
	l := Launcher{Node: "n1", Outputs: outputs.New(filepath.Join(top, "agent")), Roots: []string{filepath.Join(top, "roots")}, Private: hidden}
	own := l.Outputs.Tenant("t")
	for path, opens := range map[string]bool{
		"roots/a": true, "roots/none": true, "roots": true,
		"roots/link": false, "roots/hidden": false, "roots/hidden/x": false, "elsewhere": false, "agent": false, "agent/key": false, ".": false,
	} {
		want := []string{own}
		if opens {
			want = append(want, filepath.Join(top, path))
		}
		require.Equal(t, want, l.opened(&v1.TaskSpec{TenantId: "t"}, nil, filepath.Join(top, path)), path)
	}
	require.Equal(t, []string{own}, l.opened(&v1.TaskSpec{TenantId: "t"}, nil, "", "roots/a", "owner/model"))
}

// The directories of an attempt have names that its job knows before: an earlier attempt may put a link there.
func TestDenied_anOutputDirectoryThatLeadsElsewhere(t *testing.T) {
	top := t.TempDir()
	hidden := private.New(filepath.Join(top, "agent"))
	defer hidden.Close()
	require.NoError(t, os.MkdirAll(filepath.Join(top, "agent"), 0o755))
	l := Launcher{Node: "n1", Outputs: outputs.New(filepath.Join(top, "agent")), Private: hidden}
	spec := &v1.TaskSpec{TenantId: "t", Job: &v1.SubmitJobRequest{OutputConfig: &v1.OutputConfig{OutputDir: top + "/out"}}}
	dirs := []string{top + "/out/job_1/attempt-2", top + "/out/job_1/checkpoints"}
	denied := func() string {
		granted, why := l.granted(taskid.ID{Job: "job_1", Attempt: 2}, t.TempDir(), spec, shim.Spec{Dirs: dirs})
		if why != "" {
			require.Empty(t, granted)
		}
		return why
	}
	require.Empty(t, denied())
	require.NoError(t, os.MkdirAll(top+"/real/job_1", 0o755))
	require.NoError(t, os.Symlink(top+"/real", top+"/out"))
	require.Empty(t, denied(), "a link of the operator or the user above them")
	granted, _ := l.granted(taskid.ID{Job: "job_1", Attempt: 2}, t.TempDir(), spec, shim.Spec{Dirs: dirs})
	require.Equal(t, []string{top + "/real/job_1/attempt-2", top + "/real/job_1/checkpoints"}, granted, "as they were judged")
	for _, name := range []string{"attempt-2", "checkpoints"} {
		at := top + "/real/job_1/" + name
		require.NoError(t, os.Symlink(top+"/real", at))
		require.Contains(t, denied(), "output directory "+top+"/out/job_1/"+name+" lies in a directory of the agent")
		require.NoError(t, os.Remove(at))
	}
	require.NoError(t, os.RemoveAll(top+"/real/job_1"))
	require.NoError(t, os.Symlink("/etc", top+"/real/job_1"))
	require.NotEmpty(t, denied())
}
