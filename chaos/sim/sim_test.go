package sim

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// number reads a number from the environment.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, name)
	return n
}

func (s *Seen) add(o Seen) {
	s.Entries += o.Entries
	s.Elections += o.Elections
	s.Results += o.Results
	s.Lost += o.Lost
	s.Launches += o.Launches
	s.Replacements += o.Replacements
	s.Relayed += o.Relayed
	s.RanOn += o.RanOn
	s.Cut += o.Cut
	s.Unknown += o.Unknown
	s.Restores += o.Restores
	s.GaveUp += o.GaveUp
	s.Outages += o.Outages
}

// TestSeeds runs seeds, a few by default. MIND_SIM_SEEDS is their number, MIND_SIM_FIRST the first one.
func TestSeeds(t *testing.T) {
	if os.Getenv("MIND_CHAOS_SEED") != "" {
		t.Skip("one seed is asked for")
	}
	first, count := number(t, "MIND_SIM_FIRST", 1), number(t, "MIND_SIM_SEEDS", 60)
	if testing.Short() {
		count = min(count, 15)
	}
	began := time.Now()
	var seen Seen
	var steps int
	var virtual int64
	for seed := first; seed < first+count; seed++ {
		r := Run(seed, 0)
		if r.Finding != nil {
			t.Fatal(r.Finding)
		}
		seen.add(r.Seen)
		steps += r.Steps
		virtual += r.Virtual
	}
	took := time.Since(began)
	t.Logf("%d runs, %s of virtual time, %d events (%.0f/s), %+v", count, time.Duration(virtual), steps, float64(steps)/took.Seconds(), seen)
	if count < 50 {
		return
	}
	// A run without disturbances would prove nothing.
	for what, n := range map[string]int{
		"elections": seen.Elections, "results": seen.Results, "lost tasks": seen.Lost, "replacements": seen.Replacements,
		"relayed renewals": seen.Relayed, "tasks that ran on": seen.RanOn, "unknown outcomes": seen.Unknown,
		"snapshots restored": seen.Restores, "outages": seen.Outages,
	} {
		require.Positive(t, n, what)
	}
}

// TestOneSeed runs the seed in MIND_CHAOS_SEED, to repeat a finding.
func TestOneSeed(t *testing.T) {
	if os.Getenv("MIND_CHAOS_SEED") == "" {
		t.Skip("MIND_CHAOS_SEED names no seed")
	}
	r := Run(number(t, "MIND_CHAOS_SEED", 0), Rule(number(t, "MIND_SIM_WITHOUT", 0)))
	t.Logf("%d events in %s, hash %016x: %+v", r.Steps, time.Duration(r.Virtual), r.Hash, r.Seen)
	if r.Finding != nil {
		t.Fatal(r.Finding)
	}
}

// TestASeedIsOneRun runs seeds twice: if anything depends on more than the seed, the hashes of the traces differ.
func TestASeedIsOneRun(t *testing.T) {
	hashes := map[uint64]bool{}
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			one, two := Run(seed, 0), Run(seed, 0)
			require.Equal(t, one.Hash, two.Hash)
			require.Equal(t, one.Steps, two.Steps)
			hashes[one.Hash] = true
		})
	}
	require.Len(t, hashes, 4, "different seeds are different runs")
}
