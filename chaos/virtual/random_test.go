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

// patience is the real time after which an episode prints its progress.
const patience = 45 * time.Second

// play runs an episode and fails the test if it has findings.
func play(t *testing.T, e Episode) *Result {
	t.Helper()
	v := watched(t, e)
	if len(v.Findings) > 0 {
		t.Errorf("seed %d:\n%s", v.Seed, strings.Join(v.Findings, "\n"))
		keep(t, v)
	}
	return v
}

// watched runs an episode in a bubble, and prints its progress if it takes long.
func watched(t *testing.T, e Episode) *Result {
	t.Helper()
	e.Options.Dir = t.TempDir()
	began := now()
	var (
		v     *Result
		alive atomic.Pointer[Cluster]
	)
	e.Watch = func(c *Cluster) { alive.Store(c) }
	// A bubble whose time does not advance never ends: print its state.
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
	return v
}

// keep writes the journal to the path in MIND_CHAOS_KEEP.
func keep(t *testing.T, v *Result) {
	if dir := os.Getenv("MIND_CHAOS_KEEP"); dir != "" {
		file := dir + "/journal-" + strconv.FormatUint(v.Seed, 10) + ".txt"
		if err := os.WriteFile(file, []byte(strings.Join(v.Journal, "\n")), 0o600); err == nil {
			t.Logf("journal in %s", file)
		}
	}
}

// random returns an episode with all kinds of load and faults.
func random(seed uint64) Episode {
	return Episode{
		Options: Options{Coordinators: 3, Agents: 4, Seed: seed, Drift: 0.005, Skew: 2 * time.Second, SnapshotThreshold: 128},
		Load:    Load{Users: 3, Pause: 5 * time.Second, Run: 2 * time.Minute, Restarts: 0.7, Gangs: 0.2, Fails: 0.2, Stubborn: 0.2, Cancels: 0.1, Again: 0.1, Saves: 0.4, LostAfter: 20 * time.Second},
		Others:  Load{Tenant: otherTenant, Users: 1, Pause: 8 * time.Second, Run: time.Minute, Restarts: 0.5, Cancels: 0.1, Saves: 0.4, LostAfter: 20 * time.Second},
		Length:  10 * time.Minute, Pause: 15 * time.Second, Kinds: AllKinds,
	}
}

// asked returns the episode of a seed with the settings of the environment. MIND_CHAOS_FAULTS has the numbers of the
// faults to inflict ("3,17"). MIND_CHAOS_BREAK breaks the cluster on purpose, to see the findings of the checkers:
// disks are forgetful, or deadlines are ignored.
func asked(t *testing.T, seed uint64) Episode {
	t.Helper()
	e := random(seed)
	for text := range strings.SplitSeq(os.Getenv("MIND_CHAOS_FAULTS"), ",") {
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("MIND_CHAOS_FAULTS: %v", err)
		}
		e.Only = append(e.Only, n)
	}
	switch what := os.Getenv("MIND_CHAOS_BREAK"); what {
	case "":
	case "disks":
		e.Options.ForgetfulDisks = true
	case "deadlines":
		e.Options.ImmortalTasks = true
	default:
		t.Fatalf("MIND_CHAOS_BREAK=%s: it must be disks or deadlines", what)
	}
	return e
}

// number reads a number from the environment.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestRandomFaults runs episodes with consecutive seeds. MIND_CHAOS_SEED is the first seed, MIND_CHAOS_RUNS the number
// of episodes.
func TestRandomFaults(t *testing.T) {
	if os.Getenv("MIND_CHAOS_SHRINK") != "" {
		t.Skip("a seed is shrunk")
	}
	first := number(t, "MIND_CHAOS_SEED", 1)
	for seed := first; seed < first+number(t, "MIND_CHAOS_RUNS", 1); seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { play(t, asked(t, seed)) })
	}
}

// TestShrinkSeed finds a small subset of the faults of MIND_CHAOS_SEED that still leads to findings. Runs differ, so
// each subset is tried MIND_CHAOS_SHRINK times before it counts as harmless.
func TestShrinkSeed(t *testing.T) {
	tries := number(t, "MIND_CHAOS_SHRINK", 0)
	if tries == 0 {
		t.Skip("MIND_CHAOS_SHRINK asks for no shrinking")
	}
	e := asked(t, number(t, "MIND_CHAOS_SEED", 1))
	faults, numbers := e.Faults(), e.Only
	if numbers == nil {
		for i := range faults {
			numbers = append(numbers, i)
		}
	}
	finds := func(only []int) (found []string) {
		e.Only = only
		for try := uint64(0); try < tries && len(found) == 0; try++ {
			t.Run(fmt.Sprintf("%d faults", len(only)), func(t *testing.T) { found = watched(t, e).Findings })
		}
		fmt.Fprintf(os.Stderr, "with %d faults: %d findings: %v\n", len(only), len(found), only)
		return found
	}
	of := func(part []int) (only []int) {
		for _, i := range part {
			only = append(only, numbers[i])
		}
		return only
	}
	if len(finds(numbers)) == 0 {
		t.Fatalf("nothing was found in %d runs with all %d faults: there is nothing to shrink", tries, len(numbers))
	}
	few := of(Shrink(len(numbers), func(part []int) bool { return len(finds(of(part))) > 0 }))
	var text []string
	for _, n := range few {
		text = append(text, strconv.Itoa(n))
	}
	for _, n := range few {
		t.Logf("fault %d: %s", n, Schedule(e.Options.Seed, e.Length, e.Pause, e.Kinds)[n])
	}
	t.Errorf("these are enough: MIND_CHAOS_SEED=%d MIND_CHAOS_FAULTS=%s go test ./chaos/virtual -run TestRandomFaults -v", e.Options.Seed, strings.Join(text, ","))
}
