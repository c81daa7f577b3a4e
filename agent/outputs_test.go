package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/outputs"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func TestJobsThatWriteNothingLeaveNoDirectory(t *testing.T) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	inProcess(t, cfg)
	outputs := filepath.Join(cfg.DataDir, outputs.Folder)
	var orders []*v1.TaskOrder
	for i := range 60 {
		o := order("sh", "-c", `[ -d "$MIND_OUTPUT_DIR" ] && [ -d "$MIND_CHECKPOINT_DIR" ] && [ "$PWD" = / ]`)
		o.Spec.TenantId, o.Spec.Job.CommandConfig.Cwd = "acme", "/"
		switch i % 6 {
		case 1:
			o.Spec.Job.CommandConfig.Cwd = "/no/such/folder"
		case 2:
			o.Spec.Job.CommandConfig.Argv = []string{"/no/such/program"}
		case 3:
			o.Spec.TenantId = "../../etc" // a tenant's name need not be a valid folder name
		case 4:
			o.Spec.Job.CommandConfig.Cwd, o.Spec.Job.CommandConfig.Argv = "", []string{"sh", "-c", `[ "$PWD" = "$MIND_OUTPUT_DIR" ]`}
		case 5:
			o.Spec.Job.CommandConfig.Cwd, o.Spec.Job.OutputConfig = "", &v1.OutputConfig{OutputDir: "../runs/../a/b"}
			o.Spec.Job.CommandConfig.Argv = []string{"sh", "-c", `[ -d "$MIND_OUTPUT_DIR" ] && [ -d "$MIND_CHECKPOINT_DIR" ]`}
		}
		orders = append(orders, o)
	}
	l.want(orders...)
	for i, o := range orders {
		end := l.ended(o.GetTask())
		require.Equal(t, i%6 == 1 || i%6 == 2, end.ExitCode == nil, "%d: %s", i, end.GetErrorMessage())
		require.Zero(t, end.GetExitCode(), "%d: %s", i, end.GetErrorMessage())
	}
	left := found(t, outputs)
	require.Len(t, left, 2, "the folders of two tenants: %v", left)
	require.Contains(t, left, "acme")
}

func TestWhatAJobWroteStays(t *testing.T) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	inProcess(t, cfg)
	one, two := order("sh", "-c", "echo x > $MIND_OUTPUT_DIR/f"), order("sh", "-c", "mkdir $MIND_CHECKPOINT_DIR/c")
	one.Spec.TenantId, two.Spec.TenantId = "acme", "acme"
	l.want(one, two)
	l.ended(one.GetTask())
	l.ended(two.GetTask())
	require.ElementsMatch(t, []string{
		"acme", "acme/" + one.GetTask().GetJobId() + ".attempt-1", "acme/" + one.GetTask().GetJobId() + ".attempt-1/f",
		"acme/" + two.GetTask().GetJobId() + ".checkpoints", "acme/" + two.GetTask().GetJobId() + ".checkpoints/c",
	}, found(t, filepath.Join(cfg.DataDir, outputs.Folder)))
}

func TestEmptyDirectoriesOfEarlierAgentsAreRemoved(t *testing.T) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	outputs := filepath.Join(cfg.DataDir, outputs.Folder)
	stop := inProcess(t, cfg)
	gate := filepath.Join(t.TempDir(), "gate")
	o := order("sh", "-c", `while [ ! -e `+gate+` ]; do sleep 0.01; done; [ -d "$MIND_OUTPUT_DIR" ] && mkdir "$MIND_CHECKPOINT_DIR/c"`)
	o.Spec.TenantId = "acme"
	l.want(o)
	l.running(o.GetTask())
	stop()
	for _, name := range []string{"job_1.attempt-1", "job_1.checkpoints", "acme/job_2.attempt-7", "acme/job_2.checkpoints", ".going-acme-job_3.checkpoints/x"} {
		require.NoError(t, os.MkdirAll(filepath.Join(outputs, name), 0o700))
	}
	kept := []string{"acme", "acme/" + o.GetTask().GetJobId() + ".attempt-1", "acme/" + o.GetTask().GetJobId() + ".checkpoints"}
	for _, name := range []string{"mine", "acme/mine", "acme/job_4.checkpoints/c", "job_5.attempt-1/f", "job_6.attempt-x"} {
		require.NoError(t, os.MkdirAll(filepath.Join(outputs, name), 0o700))
		kept = append(kept, name)
	}
	kept = append(kept, "acme/job_4.checkpoints", "job_5.attempt-1")
	inProcess(t, cfg)
	require.Eventually(t, func() bool { return len(found(t, outputs)) == len(kept) }, 30*time.Second, time.Millisecond)
	require.ElementsMatch(t, kept, found(t, outputs))
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	require.Zero(t, l.ended(o.GetTask()).GetExitCode())
}

// found lists the contents of a directory, with paths relative to it.
func found(t *testing.T, dir string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the file is being removed
		}
		if rel, _ := filepath.Rel(dir, path); rel != "." {
			names = append(names, rel)
		}
		return err
	}))
	return names
}

// A node asks the coordinators, one after the other, which outputs are still needed.
func TestOutputsAreAskedFor(t *testing.T) {
	mute, l := newLeader(t), newLeader(t)
	mute.server.Stop()
	a, _ := opened(t, testConfig(t, mute, l))
	_, err := a.sessions.NeededOutputs(t.Context(), []string{"job_1"})
	require.Error(t, err, "nobody says what is needed")
	var asked *v1.GetNeededOutputsRequest
	l.change(func() {
		l.needed = func(req *v1.GetNeededOutputsRequest) *v1.GetNeededOutputsResponse {
			asked = req
			return &v1.GetNeededOutputsResponse{UnfinishedJobIds: []string{"job_1"}}
		}
	})
	needed, err := a.sessions.NeededOutputs(t.Context(), []string{"job_1", "job_2"})
	require.NoError(t, err)
	require.Equal(t, []string{"job_1"}, needed.GetUnfinishedJobIds())
	l.change(func() {
		require.Equal(t, "n1", asked.GetNodeId())
		require.Equal(t, []string{"job_1", "job_2"}, asked.GetJobIds())
	})
}
