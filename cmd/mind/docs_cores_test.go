package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tutorial in docs/use/cores.md works as described: a training, an evaluation, a question, two outcomes.
func TestDocs_theTutorialOfCores(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a cluster")
	}
	page, err := os.ReadFile("../../docs/use/cores.md")
	require.NoError(t, err)
	dir := t.TempDir()
	for name, block := range map[string]string{
		"train.sh": "(?s)```sh[^\n]*\n(#!/bin/sh\n# train.sh.*?)```", "score.sh": "(?s)```sh[^\n]*\n(#!/bin/sh\n# score.sh.*?)```", "release.yaml": "(?s)```yaml[^\n]*\n(schema_version.*?)```",
	} {
		text := regexp.MustCompile(block).FindSubmatch(page)
		require.NotNil(t, text, name)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text[1], 0o600))
	}
	d := startDev(t, "--coordinators", "1", "--agents", "1")
	run := func(want int, args ...string) (stdout, stderr string) {
		stdout, stderr, code := d.cli(t, args...)
		require.Equal(t, want, code, "%v: %s", args, stderr)
		return stdout, stderr
	}
	run(0, "flow", "validate", filepath.Join(dir, "release.yaml"))
	run(0, "launchers", "set", "EVALUATION", "--", "/bin/sh", filepath.Join(dir, "score.sh"))
	stdout, _ := run(0, "core", "create", "-f", filepath.Join(dir, "release.yaml"), "--start")
	require.Equal(t, "release\n", stdout)

	input := func(wanted int) string {
		raw, err := json.Marshal(map[string]any{"dir": dir, "wanted": wanted})
		require.NoError(t, err)
		return string(raw)
	}
	stdout, stderr := run(75, "core", "invoke", "release", "--input", input(1), "--wait", "0s")
	require.Empty(t, stdout)
	id := regexp.MustCompile(`exec_[a-z0-9]+`).FindString(stderr)
	require.NotEmpty(t, id, stderr)

	watched := make(chan string, 1)
	go func() {
		stdout, _, _ := d.cli(t, "execution", "watch", id)
		watched <- stdout
	}()
	asks := regexp.MustCompile(`ask waits for the decision (dec_[a-z0-9]+) \(Publish the model of job_[a-z0-9]+\? Its score is 1\.\), since .*, until .*: .mind decision resolve dec_[a-z0-9]+ publish\|keep.`)
	var asked []string
	for asked == nil {
		stdout, _ := run(0, "execution", "show", id)
		require.NotContains(t, stdout, "failed")
		asked = asks.FindStringSubmatch(stdout)
	}
	run(0, "decision", "resolve", asked[1], "publish", "--comment", "good enough")
	text := <-watched
	require.Contains(t, text, "publish: emits model.published {")
	require.Contains(t, text, `is completed = {"by":"dev","published":true,"score":1.0}`)

	stdout, _ = run(0, "core", "invoke", "release", "--input", input(9), "--wait", "5m")
	require.JSONEq(t, `{"published": false, "score": 1}`, stdout)
}
