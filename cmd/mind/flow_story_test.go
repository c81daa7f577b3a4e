package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// killLeader kills the coordinator that leads, and waits until three are there again.
func (d *mindDev) killLeader(t *testing.T) {
	t.Helper()
	stdout, stderr, code := d.cli(t, "raft", "peers")
	require.Zero(t, code, stderr)
	for line := range strings.Lines(stdout) {
		id, rest, _ := strings.Cut(line, " ")
		if !strings.Contains(rest, " leader ") {
			continue
		}
		for _, c := range d.pids(t).Coordinators {
			if c.ID == id {
				d.kill(t, c.Pid)
				return
			}
		}
	}
	require.Fail(t, "there is no leader", stdout)
}

// A drawing is kept, changed, deployed and run, and the leader dies in front of each of these: nothing is lost, the job is made once, and
// the result is that of the answer.
func TestFlow_survivesTheDeathOfLeaders(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a cluster")
	}
	dir := t.TempDir()
	ends := filepath.Join(dir, "end")
	job, err := json.Marshal(map[string]any{"command_config": map[string]any{
		"argv": []string{"sh", "-c", "while [ ! -e " + ends + " ]; do sleep 0.05; done"}, "cwd": dir,
	}})
	require.NoError(t, err)
	drawing := `{"name": "Release", "version": "1.0.0", "config": {}, "nodes": [
		{"id": "start", "type": "entry_api", "label": "Start", "position": {"x": 0, "y": 0}},
		{"id": "train", "type": "tool_plugin", "label": "Train", "position": {"x": 300, "y": 0}, "config": {"plugin": "mind", "method": "job", "args": ` + string(job) + `}},
		{"id": "ask", "type": "checkpoint", "label": "Ask", "position": {"x": 600, "y": 0}, "config": {"prompt": "Publish {{train.job_id}}?", "options": ["publish", "keep"]}},
		{"id": "which", "type": "logic_decision", "label": "Which", "position": {"x": 900, "y": 0}},
		{"id": "yes", "type": "llm_rigid", "label": "Yes", "position": {"x": 1200, "y": 0}, "config": {"template": "{{request.name}} is published by {{ask.resolved_by}}"}},
		{"id": "no", "type": "llm_rigid", "label": "No", "position": {"x": 1200, "y": 90}, "config": {"template": "kept"}}],
	"edges": [
		{"id": "e1", "type": "sequential", "source": {"node": "start", "port": "out_request"}, "target": {"node": "train", "port": "in"}},
		{"id": "e2", "type": "sequential", "source": {"node": "train", "port": "out"}, "target": {"node": "ask", "port": "in"}},
		{"id": "e3", "type": "sequential", "source": {"node": "ask", "port": "out"}, "target": {"node": "which", "port": "in"}},
		{"id": "e4", "type": "conditional", "condition": "ask.resolution == 'publish'", "source": {"node": "which", "port": "out"}, "target": {"node": "yes", "port": "in"}},
		{"id": "e5", "type": "conditional", "condition": "else", "source": {"node": "which", "port": "out"}, "target": {"node": "no", "port": "in"}}]}`
	file := filepath.Join(dir, "release.flow.json")
	require.NoError(t, os.WriteFile(file, []byte(drawing), 0o600))

	d := startDev(t, "--restart", "--agents", "1")
	run := func(want int, args ...string) string {
		t.Helper()
		stdout, stderr, code := d.cli(t, args...)
		require.Equal(t, want, code, "%v: %s", args, stderr)
		return stdout + stderr
	}
	run(0, "flow", "create", "-f", file)
	d.killLeader(t)
	run(0, "flow", "show", "release", "--out", file)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(text), "is published by", "was published by", 1)), 0o600))
	require.Contains(t, run(0, "flow", "save", "release", "-f", file), "1.0.1")
	d.killLeader(t)
	run(0, "flow", "deploy", "release")
	id := regexp.MustCompile(`exec_[a-z0-9]+`).FindString(run(75, "core", "invoke", "release", "--input", `{"name": "charlm"}`, "--wait", "0s"))
	require.NotEmpty(t, id)
	await := func(says string) string {
		t.Helper()
		var shown string
		require.Eventually(t, func() bool {
			shown = run(0, "execution", "show", id)
			return strings.Contains(shown, says)
		}, time.Minute, 50*time.Millisecond, "%s", says)
		return shown
	}
	await("waits for the job")
	d.killLeader(t)
	require.NoError(t, os.WriteFile(ends, nil, 0o600))
	asked := regexp.MustCompile(`dec_[a-z0-9]+`).FindString(await("ask waits for the decision"))
	d.killLeader(t)
	run(0, "decision", "resolve", asked, "publish")
	d.killLeader(t)
	require.Contains(t, await("completed"), "charlm was published by dev")

	var jobs struct {
		Jobs []struct {
			Status string `json:"status"`
		} `json:"jobs"`
	}
	stdout, stderr, code := d.cli(t, "jobs", "--label", "execution="+id, "-o", "json")
	require.Zero(t, code, stderr)
	require.NoError(t, json.Unmarshal([]byte(stdout), &jobs), stdout)
	require.Len(t, jobs.Jobs, 1, "the job was made once")
	require.Equal(t, "COMPLETED", jobs.Jobs[0].Status)
	require.Contains(t, run(0, "flow", "deployments", "release"), "1.0.1")
	d.stop(t)
}
