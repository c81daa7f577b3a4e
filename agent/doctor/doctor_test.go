package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// python puts a python3 into the PATH that runs a script.
func python(t *testing.T, script string) (d *Doctor, runs func() int) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "runs")
	text := "#!/bin/sh\necho \"$@\" >> " + log + "\n" + script
	require.NoError(t, os.WriteFile(filepath.Join(dir, "python3"), []byte(text), 0o700))
	path := dir + ":" + os.Getenv("PATH")
	t.Setenv("PATH", path)
	d = &Doctor{Node: "n1", Env: []string{"PATH=" + path, "TMPDIR=" + os.TempDir(), "KNOWN=yes"}, Context: t.Context()}
	return d, func() int {
		out, _ := os.ReadFile(log)
		return strings.Count(string(out), "-m mind_runner doctor --json\n")
	}
}

const healthy = `echo a warning
echo '{"python": "3.12.1", "versions": {"torch": "2.7"}, "gloo": true, "gpus": [{"name": "H200", "memory_bytes": 150754820096}],
"cells": [{"training_type": "SFT", "framework": "FSDP", "works": true}]}' | tr -d '\n'
`

func TestAsk(t *testing.T) {
	d, runs := python(t, "[ \"$KNOWN\" = yes ] && [ -z \"$HOME\" ] && [ \"$PWD\" = / ] || exit 3\n"+healthy)
	found, err := d.Ask(t.Context())
	require.NoError(t, err)
	require.Empty(t, found.GetProblem())
	require.Equal(t, "n1", found.GetNodeId())
	require.Equal(t, "3.12.1", found.GetPython())
	require.Equal(t, "2.7", found.GetVersions()["torch"])
	require.EqualValues(t, 150754820096, found.GetGpus()[0].GetMemoryBytes())
	require.True(t, found.GetCells()[0].GetWorks())
	require.True(t, found.GetCheckedAt().IsValid())
	for range 3 {
		_, err = d.Ask(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, 1, runs(), "the answer counts for a minute")
	d.at = d.at.Add(-fresh)
	_, err = d.Ask(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, runs())
}

func TestAskWhatIsMissing(t *testing.T) {
	for name, tt := range map[string]struct{ script, says string }{
		"no runner":         {"echo '/usr/bin/python3: No module named mind_runner' >&2; exit 1", "node n1 has no Python module mind_runner: run "},
		"another failure":   {"echo first >&2; echo last >&2; exit 3", "ended with exit status 3: last"},
		"no report":         {"echo hello", "printed no report"},
		"an empty report":   {"echo '{}'", "printed no report"},
		"nothing to train":  {healthy + "exit 1", ""},
		"endless output":    {"yes | head -c 3000000; exit 1", "ended with exit status 1"},
		"not even a python": {"", "node n1 has no python3: install Python 3.10"},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := python(t, tt.script)
			if tt.script == "" {
				t.Setenv("PATH", t.TempDir())
			}
			found, err := d.Ask(t.Context())
			require.NoError(t, err)
			if tt.says == "" {
				require.Empty(t, found.GetProblem())
				return
			}
			require.Contains(t, found.GetProblem(), tt.says)
			require.Equal(t, "n1", found.GetNodeId())
		})
	}
}

// When a caller stops waiting, the run continues for the next caller. The run ends with the agent, together with all
// processes that it has started.
func TestAskDoesNotWaitForEver(t *testing.T) {
	d, runs := python(t, "sleep 1000 & echo $! > \"$(dirname \"$0\")/pid\"; wait")
	agent, stop := context.WithCancel(t.Context())
	d.Context = agent
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := d.Ask(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	answers := make(chan *v1.NodeTraining, 2)
	for range cap(answers) {
		go func() {
			found, _ := d.Ask(t.Context())
			answers <- found
		}()
	}
	require.Eventually(t, func() bool { return runs() == 1 }, 10*time.Second, time.Millisecond)
	stop()
	for range cap(answers) {
		require.NotEmpty(t, (<-answers).GetProblem())
	}
	require.LessOrEqual(t, runs(), 2)
}
