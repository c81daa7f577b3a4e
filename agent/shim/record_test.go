package shim

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim/confine"
	"github.com/mindcoordinator/mind/agent/taskfile"
)

func TestSpecComesBackAsItWas(t *testing.T) {
	spec := Spec{
		JobID: "job_1", Attempt: 2, Rank: 3, Token: 1<<63 + 5, Node: "n1",
		Argv: []string{"sh", "-c", "echo \"$A\"\n\x00\xff é"}, Env: []string{"A=b c", "B=", "C=\xfe\n"},
		Cwd: "/a b", Dirs: []string{"/x", "/y"}, CheckpointDir: "/c", Refusal: "no", SegmentBytes: 1, LogBytes: 2, Cgroup: "/g", Socket: "@x",
	}
	var got Spec
	require.NoError(t, got.Decode(spec.Encode()))
	require.Equal(t, spec, got)
	for _, bounded := range []bool{false, true} {
		walled := Spec{JobID: "job_1", Walls: confine.Walls{Scope: true, Bounded: bounded}}
		got = Spec{}
		require.NoError(t, got.Decode(walled.Encode()))
		require.Equal(t, walled, got)
	}

	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/"+SpecFile, spec.Encode(), 0o600))
	require.NoError(t, markBegun(dir))
	got, err := ReadSpec(dir)
	require.NoError(t, err)
	spec.Begun = true
	require.Equal(t, spec, got)
	for range 2 {
		require.NoError(t, MarkAcked(dir))
		got, err = ReadSpec(dir)
		require.NoError(t, err)
		spec.Acked = true
		require.Equal(t, spec, got)
	}
	require.NoError(t, taskfile.Append(dir, SpecFile, []byte("more")))
	got, err = ReadSpec(dir)
	require.ErrorIs(t, err, errSpec)
	require.True(t, got.Begun)
}

func TestHalfASpecIsNone(t *testing.T) {
	whole := Spec{JobID: "job_1", Argv: []string{"true"}}.Encode()
	for n := range whole {
		var got Spec
		require.ErrorIs(t, got.Decode(whole[:n]), errSpec, "%d bytes of %d", n, len(whole))
	}
}

func TestExitIsJSON(t *testing.T) {
	exit := Exit{Pid: 1, Started: 2, Ended: 3, Code: -1, Signal: 9, Stopped: true, Killed: 4, MaxRSSKB: 5, UserMicro: 6, SysMicro: 7, Failure: "OOM", Message: "a \"b\" \\ \n\t é"}
	var got Exit
	require.NoError(t, json.Unmarshal(exit.JSON(), &got))
	require.Equal(t, exit, got)
	require.NoError(t, json.Unmarshal(Exit{Message: "\xff"}.JSON(), &got))
	require.Equal(t, "\uFFFD", got.Message)
}
