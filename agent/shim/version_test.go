package shim

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
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
	err := spec.Decode([]byte("version \"3\"\nhow do we know what this means\n"))
	require.ErrorIs(t, err, VersionError{3})
	require.EqualError(t, err, "the record of the task has version 3, and this program reads up to 2: a newer agent launched it; run that agent until the task has ended")
	require.True(t, spec.Begun, "nobody knows; not to begin is safe")
	require.Error(t, spec.Decode([]byte("version \"x\"\nend \"\"\n")))
}
