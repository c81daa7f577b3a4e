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
	sweepWithin = 4 * time.Second // between the first SIGKILL and the report of what is left
)

// sweep ends what still runs of a cluster: components that somebody else started with the argv of ours, shims, and tasks.
// The time that looking for them takes is none of theirs: on a slow machine, too, they are asked first, and killed before
// they are given up.
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
			logger.Info("ending what is left of the cluster", "pids", left, "signal", sig.String())
			for _, pid := range left {
				signal(pid, sig)
			}
		}
		time.Sleep(50 * time.Millisecond) // between two looks at /proc, which tells nobody when it changes
	}
}

// leftovers finds what runs of the cluster in dir by what /proc says of it, so it needs no list that a killed agent could have kept.
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
