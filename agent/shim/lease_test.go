package shim

import (
	"strings"
	"testing"
	"time"

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

func TestHold_stopsOnceAndKillsInTime(t *testing.T) {
	const second = int64(time.Second)
	none := Hold{}
	require.Equal(t, Due{}, none.Look(second), "a task without a lease has no deadline")
	require.False(t, none.Past(second))

	h := Hold{Deadline: Deadline{StopAt: 10 * second, DeadBy: 14 * second}}
	require.Equal(t, Due{LookAt: 10 * second}, h.Look(9*second))
	require.False(t, h.Past(9*second))
	require.True(t, h.Extend(Deadline{StopAt: 11 * second, DeadBy: 13 * second, Renewed: second}))
	require.Equal(t, Deadline{StopAt: 11 * second, DeadBy: 14 * second, Renewed: second}, h.Deadline, "it moves only on")
	require.Equal(t, Due{LookAt: 11 * second}, h.Look(10*second))

	killAt := 14*second - int64(killRoom)
	require.True(t, h.Past(11*second))
	left := time.Duration(killAt - 11*second)
	require.Equal(t, Due{Begins: true, Ask: true, Stop: StopRequest{Notice: left - left/4, Term: left / 4}, LookAt: killAt}, h.Look(11*second))
	require.False(t, h.Extend(Deadline{StopAt: 60 * second, DeadBy: 70 * second}), "a stop that began goes on")
	require.Equal(t, Due{LookAt: killAt}, h.Look(12*second))
	require.Equal(t, Due{Ask: true}, h.Look(killAt), "killed at once")

	late := Hold{Deadline: Deadline{StopAt: second, DeadBy: 2 * second}}
	due := late.Look(5 * second)
	require.True(t, due.Begins)
	require.Zero(t, due.Stop, "nothing is left of the time for a stop")
	require.Equal(t, Due{Ask: true}, late.Look(due.LookAt+5*second))
}
