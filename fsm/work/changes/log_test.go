package changes_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/fsm/work/changes"
)

// TestBetween_isWhatWasAdded compares the changes between any two marks with a list of all. A difference is unknown for one
// of these reasons: there are more than a chain holds since the first mark, or the second one is older.
func TestBetween_isWhatWasAdded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := changes.New[int]()
		other := changes.New[int]().End()
		var all []int
		marks, places := []changes.Mark[int]{log.End()}, []int{0}
		for range rapid.IntRange(1, 20).Draw(t, "views") {
			for range rapid.SampledFrom([]int{0, 1, 2, 255, 256, 257, 5000, 16_384, 20_000}).Draw(t, "changes") {
				all = append(all, len(all))
				log.Add(len(all) - 1)
			}
			marks, places = append(marks, log.End()), append(places, len(all))
		}
		for i, from := range marks {
			_, ok := changes.Between(from, other)
			require.False(t, ok, "of another log")
			for k, to := range marks {
				seq, ok := changes.Between(from, to)
				require.Equal(t, places[i] <= places[k] && chainOf(places[i]) == chainOf(places[k]), ok, "%d to %d", places[i], places[k])
				if ok {
					require.True(t, slices.Equal(all[places[i]:places[k]], slices.Collect(seq)), "%d to %d", places[i], places[k])
				}
			}
		}
		_, ok := changes.Between(changes.Mark[int]{}, changes.Mark[int]{})
		require.False(t, ok, "of no log")
	})
}

// chainOf numbers the chain in which a mark is that has so many changes before it.
func chainOf(before int) int { return max(before-1, 0) / 16_384 }

// TestBetween_whileTheLogIsWritten reads up to a mark while more is added: the race detector watches it.
func TestBetween_whileTheLogIsWritten(t *testing.T) {
	log := changes.New[int]()
	from := log.End()
	var readers sync.WaitGroup
	for i := range 10_000 {
		log.Add(i)
		if i%512 != 511 && i%512 != 100 {
			continue
		}
		to := log.End()
		readers.Go(func() {
			n := 0
			seq, _ := changes.Between(from, to)
			for change := range seq {
				if change != n {
					t.Errorf("%d comes after %d", change, n-1)
				}
				n++
			}
			if n != i+1 {
				t.Errorf("%d changes instead of %d", n, i+1)
			}
		})
	}
	readers.Wait()
}
