package shim

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestADeadlineComesBackAsItWas(t *testing.T) {
	d := Deadline{StopAt: 5, DeadBy: 1 << 62, Renewed: 3}
	got, ok := ParseDeadline(strings.TrimSuffix(d.Line(), "\n"))
	require.True(t, ok)
	require.Equal(t, d, got)
	for _, line := range []string{"", "deadline", "deadline 1 2", "deadline 1 2 x", "deadline 2 1 0", "deadline 0 1 0", "deadline -1 1 0", "stop 1 2 3", "deadline 1 2 3 4"} {
		_, ok := ParseDeadline(line)
		require.False(t, ok, "%q", line)
	}
}

func TestALeaseIsKeptWithTheSpec(t *testing.T) {
	spec := Spec{JobID: "job_1", Lease: Lease{Ns: 60e9, StopNs: 40e9, Replaceable: true, Deadline: Deadline{StopAt: 7, DeadBy: 8, Renewed: 9}}}
	var got Spec
	require.NoError(t, got.Decode(spec.Encode()))
	require.Equal(t, spec, got)
	spec.Lease = Lease{Ns: 1}
	got = Spec{}
	require.NoError(t, got.Decode(spec.Encode()))
	require.Equal(t, spec, got)
	broken := strings.Replace(string(spec.Encode()), `lease "1 0 0 0 0 0"`, `lease "1 0 0"`, 1)
	require.ErrorIs(t, got.Decode([]byte(broken)), errSpec)
}

func TestTheClockGoesOn(t *testing.T) {
	first := Boottime()
	require.Positive(t, first)
	require.GreaterOrEqual(t, Boottime(), first)
}
