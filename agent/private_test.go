package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/outputs"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// A job of one tenant names files of another tenant in every possible way. The agent does not use or register them,
// says so in the task's log, and reports it for the audit log.
func TestNoJobReachesAnotherTenantsFilesThroughItsAgent(t *testing.T) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	elsewhere := t.TempDir()
	cfg.PrivateDirs = []string{elsewhere}
	inProcess(t, cfg)
	alpha := filepath.Join(cfg.DataDir, outputs.Folder, "alpha", "job_9.attempt-1")
	write(t, filepath.Join(alpha, "c1", "weights"), "alpha's", 0o600)
	write(t, filepath.Join(elsewhere, "c1", "weights"), "the operator's", 0o600)
	links := t.TempDir()
	require.NoError(t, os.Symlink(alpha, filepath.Join(links, "alpha")))

	beta := func(cwd, script string) *v1.TaskOrder {
		o := order("sh", "-c", script)
		o.Spec.TenantId, o.Spec.Job.CommandConfig.Cwd = "beta", cwd
		return o
	}
	register := func(path string) string {
		return fmt.Sprintf(`echo '{"event":"checkpoint","path":"%s","step":1}' >> $MIND_EVENTS_FILE; sleep 0.6`, path)
	}
	var told []string
	for _, cwd := range []string{alpha, alpha + "/../job_9.attempt-1", filepath.Join(links, "alpha"), cfg.DataDir, filepath.Join(cfg.DataDir, "tasks"), elsewhere} {
		o := beta(cwd, "exit 0")
		l.want(o)
		end := l.ended(o.GetTask())
		require.Equal(t, v1.ErrorType_LAUNCH_FAILED, end.GetErrorType(), cwd)
		require.Contains(t, end.GetErrorMessage(), "working directory "+filepath.Clean(cwd)+" lies in a directory of the agent of node")
		told = append(told, "working directory of "+o.GetTask().GetJobId())
	}
	into := beta("", "exit 0")
	into.Spec.Job.OutputConfig = &v1.OutputConfig{OutputDir: filepath.Join(cfg.DataDir, outputs.Folder, "alpha")}
	l.want(into)
	require.Contains(t, l.ended(into.GetTask()).GetErrorMessage(), "output directory")
	require.NoDirExists(t, filepath.Join(cfg.DataDir, outputs.Folder, "alpha", into.GetTask().GetJobId()))
	told = append(told, "output directory of "+into.GetTask().GetJobId())

	work := t.TempDir()
	for name, script := range map[string]string{
		"by its path":      register(filepath.Join(alpha, "c1")),
		"by a link":        "ln -s " + alpha + " here; " + register("here/c1"),
		"by dots":          register("../../" + filepath.Join("..", "..", "..", "..", "..", "..", "..", alpha, "c1")),
		"in its own":       "cd $MIND_CHECKPOINT_DIR; ln -s " + alpha + "/c1 c1; " + register("$MIND_CHECKPOINT_DIR/c1"),
		"what contains it": register(filepath.Dir(cfg.DataDir)),
		"the operator's":   register(filepath.Join(elsewhere, "c1")),
		"the tasks":        register("$(dirname $MIND_EVENTS_FILE)"),
	} {
		for _, cwd := range []string{work, filepath.Dir(cfg.DataDir)} {
			o := beta(cwd, script)
			l.want(o)
			require.Zero(t, l.ended(o.GetTask()).GetExitCode(), "%s: %s", name, l.ended(o.GetTask()).GetErrorMessage())
			require.NotContains(t, l.kinds(o.GetTask()), "Checkpoint", "%s in %s", name, cwd)
		}
		require.NoError(t, os.RemoveAll(filepath.Join(work, "here")))
		require.NoError(t, os.RemoveAll(filepath.Join(filepath.Dir(cfg.DataDir), "here")))
	}
	own := beta(work, `mkdir -p $MIND_OUTPUT_DIR/c1; echo x > $MIND_OUTPUT_DIR/c1/weights; echo "{\"event\":\"checkpoint\",\"path\":\"$MIND_OUTPUT_DIR/c1\",\"step\":1}" >> $MIND_EVENTS_FILE; sleep 0.6`)
	l.want(own)
	require.Zero(t, l.ended(own.GetTask()).GetExitCode())
	require.Contains(t, l.kinds(own.GetTask()), "Checkpoint", "its own")

	for _, what := range told {
		l.denied(what)
	}
}
