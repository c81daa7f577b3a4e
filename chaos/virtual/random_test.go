package virtual

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// patience is after how much true time an episode says what it is doing.
const patience = 45 * time.Second

// play runs an episode in a bubble and fails the test for whatever it found.
func play(t *testing.T, e Episode) *Verdict {
	t.Helper()
	e.Options.Dir = t.TempDir()
	began := now()
	var (
		v     *Verdict
		alive atomic.Pointer[Cluster]
	)
	e.Watch = func(c *Cluster) { alive.Store(c) }
	// A bubble whose time stands still never ends: say where it was.
	stuck := time.AfterFunc(patience, func() {
		if c := alive.Load(); c != nil {
			fmt.Fprintf(os.Stderr, "seed %d is not over after %s of true time; the last words:\n%s\n", e.Options.Seed, patience, strings.Join(c.Journal(60), "\n"))
		}
	})
	synctest.Test(t, func(*testing.T) { v = e.Run() })
	stuck.Stop()
	took := now().Sub(began)
	v.Findings = append(v.Findings, v.History.Linearizable(time.Minute)...)
	t.Logf("%s; %.1f s of true time", v.Report, took.Seconds())
	if len(v.Findings) > 0 {
		t.Errorf("seed %d:\n%s", v.Seed, strings.Join(v.Findings, "\n"))
		keep(t, v)
	}
	return v
}

// keep writes what the components said where MIND_CHAOS_KEEP says.
func keep(t *testing.T, v *Verdict) {
	if dir := os.Getenv("MIND_CHAOS_KEEP"); dir != "" {
		file := dir + "/journal-" + strconv.FormatUint(v.Seed, 10) + ".txt"
		if err := os.WriteFile(file, []byte(strings.Join(v.Journal, "\n")), 0o600); err == nil {
			t.Logf("journal in %s", file)
		}
	}
}

// random is an episode of everything.
func random(seed uint64) Episode {
	return Episode{
		Options: Options{Coordinators: 3, Agents: 4, Seed: seed, Drift: 0.005, Skew: 2 * time.Second, SnapshotThreshold: 128},
		Load:    Load{Users: 3, Pause: 5 * time.Second, Run: 2 * time.Minute, Restarts: 0.7, Gangs: 0.2, Fails: 0.2, Stubborn: 0.2, Cancels: 0.1, Again: 0.1, Saves: 0.4, LostAfter: 20 * time.Second},
		Others:  Load{Tenant: otherTenant, Users: 1, Pause: 8 * time.Second, Run: time.Minute, Restarts: 0.5, Cancels: 0.1, Saves: 0.4, LostAfter: 20 * time.Second},
		Length:  10 * time.Minute, Pause: 15 * time.Second, Kinds: AllKinds,
	}
}

// TestRandomFaults plays episodes with seeds of their own; MIND_CHAOS_SEED plays one, MIND_CHAOS_RUNS that many.
func TestRandomFaults(t *testing.T) {
	first, runs := uint64(1), uint64(1)
	if text := os.Getenv("MIND_CHAOS_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, runs = n, 1
	}
	if text := os.Getenv("MIND_CHAOS_RUNS"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		runs = n
	}
	for seed := first; seed < first+runs; seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { play(t, random(seed)) })
	}
}
