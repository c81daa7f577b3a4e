package shim

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim/confine"
)

func TestARecordOfAnEarlierVersionIsRead(t *testing.T) {
	old := bytes.Replace(Spec{JobID: "job_1", Argv: []string{"x"}}.Encode(), []byte("version \"2\"\n"), nil, 1)
	require.NotContains(t, string(old), "version")
	var spec Spec
	require.NoError(t, spec.Decode(append(old, begunLine...)))
	require.Equal(t, Spec{JobID: "job_1", Argv: []string{"x"}, Begun: true}, spec)
}

func TestARecordOfALaterVersionIsRefusedWhateverIsInIt(t *testing.T) {
	var spec Spec
	err := spec.Decode([]byte("version \"7\"\nhow do we know what this means\n"))
	require.ErrorIs(t, err, VersionError{7})
	require.EqualError(t, err, "the record of the task has version 7, and this program reads up to 6: a newer agent launched it; run that agent until the task has ended")
	require.True(t, spec.Begun, "nobody knows; not to begin is safe")
	require.Error(t, spec.Decode([]byte("version \"x\"\nend \"\"\n")))
}

// A program of the earlier version can take over a task without limits.
func TestARecordHasTheEarliestVersionThatCanReadIt(t *testing.T) {
	require.Contains(t, string(Spec{JobID: "job_1"}.Encode()), "version \"2\"\n")
	limited := Spec{JobID: "job_1", Limits: []string{"pids.max 9", "memory.max 5"}}
	require.Contains(t, string(limited.Encode()), "version \"3\"\n")
	var spec Spec
	require.NoError(t, spec.Decode(limited.Encode()))
	require.Equal(t, limited, spec)
	roomy := Spec{JobID: "job_1", Room: confine.Room{Mounts: []confine.Mount{{Kind: confine.Memory, To: "/tmp", Options: "size=1m"}, {Kind: confine.Hidden, To: "/x"}}}}
	require.Contains(t, string(roomy.Encode()), "version \"4\"\n")
	spec = Spec{}
	require.NoError(t, spec.Decode(roomy.Encode()))
	require.Equal(t, roomy, spec)
	asked := roomy
	asked.Sources = []string{"/data/a", "/data/b c"}
	require.Contains(t, string(asked.Encode()), "version \"5\"\n")
	spec = Spec{}
	require.NoError(t, spec.Decode(asked.Encode()))
	require.Equal(t, asked, spec)
	probed := asked
	probed.Probe, probed.Lacks = []string{"/usr/bin/python3", "-c", "x\ny"}, []string{"node n1 has no x"}
	require.Contains(t, string(probed.Encode()), "version \"6\"\n")
	spec = Spec{}
	require.NoError(t, spec.Decode(probed.Encode()))
	require.Equal(t, probed, spec)
	broken := bytes.Replace(roomy.Encode(), []byte("/x"), []byte("x"), 1)
	require.ErrorIs(t, new(Spec).Decode(broken), errSpec)
}
