package runner

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim"
)

func TestProbe_itsFaultIsWhyTheCommandDoesNotRun(t *testing.T) {
	for name, c := range map[string]struct {
		probe, says string
	}{
		"no fault":                 {"exit 0", ""},
		"the first fault":          {"exit 93", "no a"},
		"the second fault":         {"exit 94", "no b"},
		"a fault without a reason": {"exit 95", ""},
		"another error":            {"exit 1", ""},
		"a signal":                 {"kill -9 $$", ""},
	} {
		t.Run(name, func(t *testing.T) {
			ran := filepath.Join(t.TempDir(), "ran")
			spec := newSpec("sh", "-c", "echo > "+ran)
			spec.Probe, spec.Lacks = []string{"/bin/sh", "-c", c.probe}, []string{"no a", "no b"}
			h, _ := start(t, spec)
			exit := exited(t, h)
			_, err := os.Stat(ran)
			if c.says == "" {
				require.Zero(t, exit.Code, exit.Message)
				require.NoError(t, err)
				return
			}
			require.Equal(t, shim.FailureLaunch, exit.Failure)
			require.Equal(t, c.says, exit.Message)
			require.ErrorIs(t, err, os.ErrNotExist)
		})
	}
}

// The job has chosen the program of the probe. A process of it that stays would escape the lease and the limits of the task.
func TestProbe_nothingOfItIsLeftWhenTheCommandBegins(t *testing.T) {
	dir := t.TempDir()
	stays := filepath.Join(dir, "stays")
	daemon := "setsid sh -c 'echo $$ > " + stays + ".new; mv " + stays + ".new " + stays + "; exec sleep 1000' & while ! test -e " + stays + "; do :; done; exit "
	spec := newSpec("sh", "-c", "kill -0 $(cat "+stays+") 2>/dev/null && exit 5; exit 0")
	spec.Probe, spec.Lacks = []string{"/bin/sh", "-c", daemon + "0"}, []string{"fault"}
	h, _ := start(t, spec)
	require.Zero(t, exited(t, h).Code)

	require.NoError(t, os.Remove(stays))
	spec = newSpec("true")
	spec.Probe, spec.Lacks = []string{"/bin/sh", "-c", daemon + "93"}, []string{"fault"}
	h, task := start(t, spec)
	require.Equal(t, "fault", exited(t, h).Message)
	shimGone(t, task)
}

func TestProbe_hasTheUserOfTheTask(t *testing.T) {
	spec, _ := asUser(t, "true")
	spec.Probe, spec.Lacks = []string{"/bin/sh", "-c", `test $(id -u) = 4321 && ! touch /etc/mind-probe 2>/dev/null && exit 93; exit 0`}, []string{"it is the user"}
	h, _ := start(t, spec)
	require.Equal(t, "it is the user", exited(t, h).Message)
}

// The lease is not renewed while the probe runs.
func TestProbe_aSlowOneIsGivenUpBeforeTheLeaseEnds(t *testing.T) {
	spec := newSpec("true")
	spec.Probe, spec.Lacks = []string{"/bin/sleep", "1000"}, []string{"fault"}
	now := shim.Boottime()
	spec.Lease = shim.Lease{Ns: int64(20 * time.Second), StopNs: int64(time.Second), Deadline: shim.Deadline{StopAt: now + int64(3*time.Second), DeadBy: now + int64(4*time.Second), Renewed: now}}
	h, _ := start(t, spec)
	exit := exited(t, h)
	require.Zero(t, exit.Code, exit.Message)
	require.Empty(t, exit.Failure)
}
