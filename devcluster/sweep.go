package devcluster

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	sweepNotice = time.Second     // between SIGTERM and SIGKILL
	sweepWithin = 5 * time.Second // then what is left is reported
)

// sweep ends what still runs of the cluster in dir: components that somebody else started with the argv of ours, shims,
// and tasks. It finds them by what /proc says of them, so it needs no list that a killed agent could have kept.
func sweep(dir string, specs []spec, logger *slog.Logger) error {
	began, killing := time.Now(), false
	for {
		left := leftovers(dir, specs)
		if len(left) == 0 {
			return nil
		}
		if time.Since(began) > sweepWithin {
			return fmt.Errorf("processes %v of the cluster do not end", left)
		}
		sig := syscall.SIGTERM
		if killing = time.Since(began) >= sweepNotice; killing {
			sig = syscall.SIGKILL
		}
		if time.Since(began) < 50*time.Millisecond || killing {
			logger.Info("ending what is left of the cluster", "pids", left, "signal", sig.String())
			for _, pid := range left {
				_ = syscall.Kill(pid, sig)
			}
		}
		time.Sleep(50 * time.Millisecond) // between two looks at /proc, which tells nobody when it changes
	}
}

func leftovers(dir string, specs []spec) (pids []int) {
	for _, p := range processes() {
		if p.pid != ownPid && !p.zombie && belongs(p.strings("cmdline"), p.strings("environ"), dir, specs) {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// belongs says whether a process with this command line and environment is of the cluster in dir.
func belongs(argv, environ []string, dir string, specs []spec) bool {
	for _, s := range specs {
		if slices.Equal(argv, s.argv) {
			return true
		}
	}
	under := dir + "/"
	if len(argv) > 2 && argv[1] == "shim" {
		for _, arg := range argv[2:] {
			if strings.HasPrefix(strings.TrimPrefix(arg, "--dir="), under) {
				return true
			}
		}
	}
	for _, v := range environ {
		for _, name := range []string{"MIND_METRICS_FILE=", "MIND_EVENTS_FILE="} {
			if strings.HasPrefix(v, name+under) {
				return true
			}
		}
	}
	return false
}
