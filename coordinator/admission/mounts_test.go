package admission

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/work"
)

func TestCheckMounts(t *testing.T) {
	check := func(mounts ...string) error {
		var f call.Faults
		checkMounts(&f, "command_config.mounts", mounts)
		return f.Err()
	}
	require.NoError(t, check())
	require.NoError(t, check("/a:/b", "/a:/c:ro", "/with space:/tmp/x:rw"))
	for mount, why := range map[string]string{
		"/a":                                    "is not of the form",
		"/a:/b:rx":                              "is not of the form",
		"/a:/b:ro:x":                            "is not of the form",
		"":                                      "is not of the form",
		"a:/b":                                  "absolute",
		"/a:b":                                  "absolute",
		"/a/../b:/c":                            "absolute",
		"/a/:/c":                                "absolute",
		"/a:/b\n":                               "absolute",
		"/" + strings.Repeat("a", 4096) + ":/b": "absolute",
		"/a:/":                                  "nothing can be mounted at /",
		"/a:/proc/1":                            "nothing can be mounted at /proc/1",
	} {
		require.ErrorContains(t, check(mount), why, mount)
		require.ErrorContains(t, check(mount), "command_config.mounts", mount)
	}
	require.ErrorContains(t, check("/a:/c", "/b:/c:rw"), "two mounts have the target /c")
	var many []string
	for i := range maxMounts + 1 {
		many = append(many, fmt.Sprintf("/a:/b%d", i))
	}
	require.NoError(t, check(many[1:]...))
	require.ErrorContains(t, check(many...), "at most 32")
}

// Agents of earlier versions would leave the mounts of a job out: it gets nodes that say that they know them.
func TestParse_mountsNeedNodesThatKnowThem(t *testing.T) {
	command := commandJob()
	command.CommandConfig.Mounts = []string{"/datasets:/data"}
	command.ResourceConfig = &v1.ResourceConfig{NodeSelector: map[string]string{"zone": "a", mountsLabel: "none"}}
	training := &v1.SubmitJobRequest{
		TrainingConfig: &v1.TrainingConfig{Mounts: []string{"/datasets:/data"}},
		ResourceConfig: &v1.ResourceConfig{GpuCount: 1, NodeSelector: map[string]string{"zone": "a"}},
	}
	for name, req := range map[string]*v1.SubmitJobRequest{"a command": command, "a training": training} {
		require.Equal(t, "mind.io/mounts=jobs,zone=a", work.CanonicalSelector(selectorOf(req)), name)
	}
	require.Len(t, training.GetResourceConfig().GetNodeSelector(), 1, "the request stays as it is")

	j, err := Parse(command, largest(8))
	require.NoError(t, err)
	require.Equal(t, "mind.io/mounts=jobs,zone=a", j.Shape.Selector)
	require.EqualError(t, neverFits(command.GetResourceConfig(), j.Shape, mixed()), "resource_config.node_selector: no node has the labels mind.io/mounts=jobs,zone=a: "+
		"a node lets jobs mount files if its agent has isolation full and mount_roots, and knows mounts")
	command.CommandConfig.Mounts, command.ResourceConfig = nil, nil
	j, err = Parse(command, largest(8))
	require.NoError(t, err)
	require.Empty(t, j.Shape.Selector)
}
