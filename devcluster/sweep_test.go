package devcluster

import (
	"log/slog"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Even if each search for processes takes longer than their time limits, they get SIGTERM first, and SIGKILL after
// that.
func TestSweep_ofASlowMachine(t *testing.T) {
	for name, look := range map[string]time.Duration{"quick": time.Millisecond, "slow": time.Second, "very slow": 2 * sweepWithin} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const heeds, ignores, immortal = 1, 2, 3
				left := []int{heeds, ignores}
				sent := map[int][]syscall.Signal{}
				find := func() []int {
					time.Sleep(look)
					return slices.Clone(left)
				}
				signal := func(pid int, sig syscall.Signal) {
					sent[pid] = append(sent[pid], sig)
					if pid != immortal && (sig == syscall.SIGKILL || pid == heeds) {
						left = slices.DeleteFunc(left, func(p int) bool { return p == pid })
					}
				}
				require.NoError(t, sweep(find, signal, slog.New(slog.DiscardHandler)))
				require.Equal(t, map[int][]syscall.Signal{heeds: {syscall.SIGTERM}, ignores: {syscall.SIGTERM, syscall.SIGKILL}}, sent)

				left = []int{immortal}
				require.ErrorContains(t, sweep(find, signal, slog.New(slog.DiscardHandler)), "[3]")
				require.Contains(t, sent[immortal], syscall.SIGKILL)
			})
		})
	}
}
