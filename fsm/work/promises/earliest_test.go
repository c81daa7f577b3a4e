package promises_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/promises"
)

// No job of a term ends before the earliest end of the term.
func TestEarliest_isNotAfterAnyEnd(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		j := &work.Job{
			MaxRuntime:  rapid.OneOf(rapid.Int64Range(0, work.MaxDuration), rapid.Int64Range(0, 4*int64(time.Minute))).Draw(r, "limit"),
			Grace:       rapid.Int64Range(0, int64(time.Hour)).Draw(r, "grace"),
			Preemptible: rapid.Bool().Draw(r, "preemptible"),
		}
		now := rapid.Int64Range(0, 1<<61).Draw(r, "now")
		earliest, end := promises.Earliest(work.TermOf(j), now), promises.EndOf(j, now)
		if end == 0 {
			return // It never ends.
		}
		require.NotZero(r, earliest)
		require.LessOrEqual(r, earliest, end)
		if !j.Preemptible && j.MaxRuntime > int64(time.Minute) {
			require.Less(r, end-now, 2*(earliest-now)+j.Grace, "the term says nearly when")
		}
	})
}
