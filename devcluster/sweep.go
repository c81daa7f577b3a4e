package devcluster

import (
	"fmt"
	"log/slog"
	"slices"
	"syscall"
	"time"

	"github.com/mindcoordinator/mind/devcluster/proc"
)

const (
	sweepNotice = time.Second     // between SIGTERM and SIGKILL
	sweepWithin = 4 * time.Second // between the first SIGKILL and the report of processes that are left
)

// sweep ends the leftover processes of a cluster: components that were restarted manually with our argv, shims, and
// tasks. The time to find them does not count: also on a slow machine they are asked to end first, and killed before
// sweep gives up.
func sweep(find func() []int, signal func(pid int, sig syscall.Signal), logger *slog.Logger) error {
	var asked, killed time.Time
	for {
		left := find()
		if len(left) == 0 {
			return nil
		}
		sig := syscall.SIGKILL
		switch now := time.Now(); {
		case asked.IsZero():
			asked, sig = now, syscall.SIGTERM
		case now.Sub(asked) < sweepNotice:
			sig = 0
		case killed.IsZero():
			killed = now
		case now.Sub(killed) > sweepWithin:
			return fmt.Errorf("processes %v of the cluster do not end", left)
		}
		if sig != 0 {
			logger.Info("ending leftover processes of the cluster", "pids", left, "signal", sig.String())
			for _, pid := range left {
				signal(pid, sig)
			}
		}
		time.Sleep(50 * time.Millisecond) // between two reads of /proc, which has no notifications
	}
}

// leftovers finds the processes of the cluster in dir by /proc, so it needs no list from an agent, which may have been
// killed.
func leftovers(dir string, specs []spec) (pids []int) {
	for _, p := range proc.All() {
		if p.Pid != ownPid && !p.Zombie && belongs(p.Strings("cmdline"), p.Strings("environ"), dir, specs) {
			pids = append(pids, p.Pid)
		}
	}
	return pids
}

// belongs reports whether a process with this command line and environment belongs to the cluster in dir.
func belongs(argv, environ []string, dir string, specs []spec) bool {
	for _, s := range specs {
		if slices.Equal(argv, s.argv) {
			return true
		}
	}
	return proc.RunsFor(dir, argv, environ)
}
