package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// found lists what is in a directory and below, relative to it.
func found(t *testing.T, dir string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it is being removed
		}
		if rel, _ := filepath.Rel(dir, path); rel != "." {
			names = append(names, rel)
		}
		return err
	}))
	return names
}

func TestJobsThatWriteNothingLeaveNoDirectory(t *testing.T) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	inProcess(t, cfg)
	outputs := filepath.Join(cfg.DataDir, outputsFolder)
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
			o.Spec.TenantId = "../../etc" // names of tenants need not be those of folders
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
	}, found(t, filepath.Join(cfg.DataDir, outputsFolder)))
}

// Two tasks of a job, as of two attempts, share its checkpoint directory: the end of one must not take it from the other.
func TestADirectoryThatAnotherTaskUsesStays(t *testing.T) {
	dir := t.TempDir()
	o := newOutputs(Config{DataDir: dir})
	at := func(name string) string { return filepath.Join(dir, outputsFolder, name) }
	first := []string{at("t/base/job_1/attempt-1"), at("t/base/job_1/checkpoints")}
	second := []string{at("t/base/job_1/attempt-2"), at("t/base/job_1/checkpoints")}
	for _, d := range slices.Concat(first, second) {
		require.NoError(t, os.MkdirAll(d, 0o700))
	}
	o.use(first)
	o.use(second)
	o.leave(first, true)
	require.NoDirExists(t, first[0])
	require.DirExists(t, second[1])
	require.NoError(t, o.unused(second[1], func() error { t.Error("it is used"); return nil }))
	o.leave(second, false)
	require.DirExists(t, second[1], "the agent stops, and the task goes on")
	o.use(second)
	o.leave(second, true)
	require.Equal(t, []string{"t"}, found(t, at("")))
	require.Empty(t, o.users)

	elsewhere := filepath.Join(dir, "elsewhere", "job_1", "attempt-1")
	require.NoError(t, os.MkdirAll(elsewhere, 0o700))
	o.use([]string{elsewhere})
	o.leave([]string{elsewhere}, true)
	require.DirExists(t, elsewhere, "what a user has named is the user's")
}

func TestEmptyDirectoriesOfEarlierAgentsAreRemoved(t *testing.T) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	outputs := filepath.Join(cfg.DataDir, outputsFolder)
	stop := inProcess(t, cfg)
	gate := filepath.Join(t.TempDir(), "gate")
	o := order("sh", "-c", `while [ ! -e `+gate+` ]; do sleep 0.01; done; [ -d "$MIND_OUTPUT_DIR" ] && mkdir "$MIND_CHECKPOINT_DIR/c"`)
	o.Spec.TenantId = "acme"
	l.want(o)
	l.running(o.GetTask())
	stop()
	for _, name := range []string{"job_1.attempt-1", "job_1.checkpoints", "acme/job_2.attempt-7", "acme/job_2.checkpoints", goingPrefix + "acme-job_3.checkpoints/x"} {
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

// A tenant may have the name of a job's directory. Its folder is none.
func TestTheFolderOfATenantIsNotTakenForThatOfAJob(t *testing.T) {
	cfg := Config{DataDir: t.TempDir()}
	for _, tenant := range []string{"acme", "job_1.attempt-1", "job_1.checkpoints", "job_1", "../..", ".going-x"} {
		own := filepath.Join(cfg.outputsOf(tenant), "job_2.attempt-1")
		require.NoError(t, os.MkdirAll(own, 0o700))
		require.Contains(t, newOutputs(cfg).list(), own, tenant)
	}
}

func TestOldOutputsAreRemovedUnlessTheyAreNeeded(t *testing.T) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	outputs := filepath.Join(cfg.DataDir, outputsFolder)
	long := time.Now().Add(-48 * time.Hour)
	touch := func(name string, at time.Time) {
		path := filepath.Join(outputs, name)
		write(t, path, "x", 0o600)
		for ; path != outputs; path = filepath.Dir(path) {
			require.NoError(t, os.Chtimes(path, at, at))
		}
	}
	for _, name := range []string{"t/job_1.attempt-1/f", "t/job_1.checkpoints/c-1/f", "t/job_2.attempt-1/f", "t/job_2.checkpoints/c-1/f", "job_3.attempt-1/f", "t/job_4.attempt-1/f", "t/job_6.checkpoints/c-1/f", "t/mine/f"} {
		touch(name, long)
	}
	touch("t/job_5.attempt-1/deep/er/new", time.Now())
	require.NoError(t, os.Chtimes(filepath.Join(outputs, "t/job_5.attempt-1"), long, long))
	before := found(t, outputs)
	a, stop := opened(t, cfg)
	defer stop()

	a.sweepOutputs(t.Context(), 24*time.Hour)
	require.Equal(t, before, found(t, outputs), "nobody says what is needed")
	var asked []string
	l.change(func() {
		l.needed = func(req *v1.GetNeededOutputsRequest) *v1.GetNeededOutputsResponse {
			asked = req.GetJobIds()
			return &v1.GetNeededOutputsResponse{UnfinishedJobIds: []string{"job_4"}, CheckpointPaths: []string{
				filepath.Join(outputs, "t/job_2.checkpoints/c-1"),
				filepath.Join(outputs, "t/job_6.checkpoints/c-2"), // of another node, at the same path
			}}
		}
	})
	a.sweepOutputs(t.Context(), 0)
	require.Equal(t, before, found(t, outputs), "without a bound they are kept for ever")
	a.outputs.use([]string{filepath.Join(outputs, "job_3.attempt-1")})
	a.sweepOutputs(t.Context(), 24*time.Hour)
	l.change(func() { require.ElementsMatch(t, []string{"job_1", "job_2", "job_3", "job_4", "job_6"}, asked) })
	require.DirExists(t, filepath.Join(outputs, "job_3.attempt-1"), "a task uses it")
	a.outputs.leave([]string{filepath.Join(outputs, "job_3.attempt-1")}, false)
	a.sweepOutputs(t.Context(), 24*time.Hour)
	require.ElementsMatch(t, []string{
		"t", "t/job_2.checkpoints", "t/job_2.checkpoints/c-1", "t/job_2.checkpoints/c-1/f", "t/job_4.attempt-1", "t/job_4.attempt-1/f", "t/mine", "t/mine/f",
		"t/job_5.attempt-1", "t/job_5.attempt-1/deep", "t/job_5.attempt-1/deep/er", "t/job_5.attempt-1/deep/er/new",
	}, found(t, outputs))
}
