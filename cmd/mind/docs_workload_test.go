package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The example in docs/use/workloads.md works as described, and the page names every variable of a task.
func TestDocs_theExampleOfAWorkload(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a cluster")
	}
	page, err := os.ReadFile("../../docs/use/workloads.md")
	require.NoError(t, err)
	script := regexp.MustCompile("(?s)```sh[^\n]*\n(#!/bin/sh\n# train.sh.*?)```").FindSubmatch(page)
	require.NotNil(t, script)
	dir := t.TempDir()
	gate, evaluate := filepath.Join(dir, "gate"), filepath.Join(dir, "evaluate.sh")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "train.sh"), script[1], 0o600))
	require.NoError(t, os.WriteFile(evaluate, []byte("#!/bin/sh\nenv\nuntil [ -e "+gate+" ]; do sleep 0.1; done\n"), 0o700))

	d := startDev(t, "--coordinators", "1", "--agents", "1")
	stdout, stderr, code := d.cli(t, "submit", "--name", "train", "--cwd", dir, "--env", "EVALUATE="+evaluate, "--gpu-fraction", "0.5", "--", "sh", "train.sh")
	require.Zero(t, code, stderr)
	id := strings.TrimSpace(stdout)
	var job struct {
		Status   string
		Progress struct {
			Step  int
			Total int `json:"total_steps"`
		}
	}
	for end := time.Now().Add(time.Minute); job.Status != "EVALUATING" || job.Progress.Step != 10; time.Sleep(50 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "it never evaluates: %+v", job)
		stdout, stderr, code = d.cli(t, "job", id, "-o", "json")
		require.Zero(t, code, stderr)
		require.NoError(t, json.Unmarshal([]byte(stdout), &job))
	}
	require.Equal(t, 10, job.Progress.Total)
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	stdout, stderr, code = d.cli(t, "logs", "-f", id)
	require.Zero(t, code, stderr)
	for _, line := range strings.Split(stdout, "\n") {
		if name, _, ok := strings.Cut(line, "="); ok && regexp.MustCompile(`^(MIND|CUDA|MASTER|WORLD)_`).MatchString(name) {
			require.Contains(t, string(page), fmt.Sprintf("`%s`", name))
		}
	}
	require.Contains(t, stdout, "MIND_GPU_FRACTION=0.5")

	stdout, stderr, code = d.cli(t, "job", id)
	require.Zero(t, code, stderr)
	require.Regexp(t, `(?m)^status +COMPLETED$`, stdout)
	stdout, _, _ = d.cli(t, "metrics", id)
	require.Regexp(t, `(?m)^step +10\nloss +0.9$`, stdout)
	stdout, _, _ = d.cli(t, "checkpoints", id, "-o", "json")
	var kept struct {
		Checkpoints []struct {
			Step    int
			Path    string
			Metrics map[string]float64
		}
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &kept))
	require.Len(t, kept.Checkpoints, 3)
	steps := map[string]int{}
	for _, c := range kept.Checkpoints {
		steps[filepath.Base(c.Path)] = c.Step
		if filepath.Base(c.Path) == "final" {
			require.Equal(t, map[string]float64{"score": 0.9}, c.Metrics)
		}
	}
	require.Equal(t, map[string]int{"checkpoint-5": 5, "checkpoint-10": 10, "final": 10}, steps)
	d.stop(t)
}
