package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/mindcoordinator/mind/examples/stage"
	"github.com/mindcoordinator/mind/flow/check"
)

// build builds the programs of the story. It skips the test in short mode.
func build(t *testing.T) settings {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a cluster of real processes")
	}
	s := settings{Settings: stage.Settings{Steps: 200, Delay: 15 * time.Millisecond}, wanted: 4}
	dir := t.TempDir()
	here, err := os.Getwd()
	require.NoError(t, err)
	for name, path := range map[string]*string{"../../cmd/mind": &s.Mind, "../charlm": &s.Charlm} {
		built := filepath.Join(dir, filepath.Base(name))
		out, err := exec.Command("go", "build", "-o", built, name).CombinedOutput()
		require.NoError(t, err, string(out))
		*path, err = filepath.Rel(here, built) // as make gives it
		require.NoError(t, err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	return s
}

func TestDemoCore_allItsClaimsHold(t *testing.T) {
	s := build(t)
	require.NoError(t, run(t.Context(), s))
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestDemoCore_failsWhenTheTrainingDoes(t *testing.T) {
	s := build(t)
	s.Charlm = "/bin/false"
	require.Error(t, run(t.Context(), s))
}

func TestProgram_isValid(t *testing.T) {
	var object any
	require.NoError(t, yaml.Unmarshal(program, &object))
	text, err := json.Marshal(object)
	require.NoError(t, err)
	_, found := check.Source(text)
	require.Empty(t, found)
}

// Each check of the story can fail.
func TestVerify_findsWhatIsWrong(t *testing.T) {
	refuses := func(what, because string) func(string, error) {
		return func(_ string, err error) { require.ErrorContains(t, err, because, what) }
	}
	done := func() *execution {
		return &execution{ID: "exec_1", Status: "completed", Output: map[string]any{"published": true, "job_id": "job_1", "score": 2.5, "by": "ann"}}
	}
	_, err := outcome(done(), "job_1", 2.5, "ann")
	require.NoError(t, err)
	refuses("another score", "wanted completed")(outcome(done(), "job_1", 2.25, "ann"))
	refuses("another job", "wanted completed")(outcome(done(), "job_2", 2.5, "ann"))
	refuses("another user", "wanted completed")(outcome(done(), "job_1", 2.5, "bob"))
	refuses("nobody", "nobody is known to have answered")(outcome(done(), "job_1", 2.5, ""))
	e := done()
	e.Status = "failed"
	refuses("failed", "exec_1 is failed")(outcome(e, "job_1", 2.5, "ann"))

	zero, one := 0, 1
	job := func(id, step string) stage.Job {
		return stage.Job{ID: id, Status: "COMPLETED", Attempt: 1, ExitCode: &zero, Labels: map[string]string{"execution": "exec_1", "step": step}}
	}
	train, evaluate := job("job_1", "train"), job("job_2", "evaluate")
	_, err = twoJobs([]stage.Job{train, evaluate}, "exec_1", "job_1")
	require.NoError(t, err)
	refuses("no evaluation", "map[train:1]")(twoJobs([]stage.Job{train}, "exec_1", "job_1"))
	refuses("two evaluations", "evaluate:2")(twoJobs([]stage.Job{train, evaluate, job("job_3", "evaluate")}, "exec_1", "job_1"))
	refuses("two trainings", "job_3 is of the step train")(twoJobs([]stage.Job{train, evaluate, job("job_3", "train")}, "exec_1", "job_1"))
	refuses("another execution", "is not of the execution")(twoJobs([]stage.Job{train, evaluate}, "exec_2", "job_1"))
	again, failed := train, train
	again.Attempt = 2
	failed.ExitCode = &one
	refuses("two attempts", "in attempt 2")(twoJobs([]stage.Job{again, evaluate}, "exec_1", "job_1"))
	refuses("failed", "should have run once")(twoJobs([]stage.Job{failed, evaluate}, "exec_1", "job_1"))

	var asked decision
	asked.ID, asked.Execution, asked.Status, asked.Resolution = "dec_1", "exec_1", "resolved", "publish"
	asked.Votes = append(asked.Votes, struct {
		User       string `json:"user_id"`
		Resolution string `json:"resolution"`
	}{"ann", "publish"})
	_, err = oneAnswer([]decision{asked}, "dec_1", "exec_1")
	require.NoError(t, err)
	refuses("asked twice", "2 questions")(oneAnswer([]decision{asked, asked}, "dec_1", "exec_1"))
	refuses("another question", "the question is")(oneAnswer([]decision{asked}, "dec_2", "exec_1"))
	twice := asked
	twice.Votes = append(twice.Votes, twice.Votes[0])
	refuses("answered twice", "the question is")(oneAnswer([]decision{twice}, "dec_1", "exec_1"))

	var happenings []happening // the newest first
	for _, h := range [][2]string{
		{runs + "invocation.completed"},
		{"model.published"},
		{runs + "block.entered", "publish"},
		{runs + "block.entered", "ask"},
		{runs + "block.entered", "good"},
		{runs + "block.entered", "score"},
		{runs + "block.entered", "evaluate"},
		{runs + "block.entered", "train"},
		{runs + "invocation.started"},
	} {
		event := happening{Type: h[0]}
		event.Payload.Step = h[1]
		happenings = append(happenings, event)
	}
	_, err = blocks(happenings)
	require.NoError(t, err)
	refuses("published twice", "model.published happened 2 times")(blocks(append(happenings[1:2:2], happenings...)))
	refuses("a block twice", "began in the order")(blocks(append(happenings[2:3:3], happenings...)))
	refuses("never begun", "invocation.started happened 0 times")(blocks(happenings[:8]))
	refuses("tried again", "block.retrying happened")(blocks(append([]happening{{Type: runs + "block.retrying"}}, happenings...)))
}
