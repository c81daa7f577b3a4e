package ranges

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// setOf makes a set number by number, in the order given.
func setOf(numbers []uint32) (s Set) {
	for _, n := range numbers {
		s = s.With(n)
	}
	return s
}

// A set has the numbers that were put in and not taken out, in one form.
func TestSet_isASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Uint32Range(0, 30)
		var s Set
		want := map[uint32]bool{}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			n := number.Draw(t, "number")
			if rapid.Bool().Draw(t, "with") {
				s, want[n] = s.With(n), true
			} else {
				s = s.Without(n)
				delete(want, n)
			}
		}
		sorted := slices.Sorted(maps.Keys(want))
		require.Equal(t, len(sorted), s.Len())
		require.Equal(t, len(setOf(sorted)), len(s), "the ranges do not touch")
		for n := range uint32(32) {
			require.Equal(t, want[n], s.Has(n), n)
			less := slices.IndexFunc(sorted, func(m uint32) bool { return m >= n })
			next, ok := s.Next(n)
			if less < 0 {
				less = len(sorted)
				require.False(t, ok)
			} else {
				require.True(t, ok)
				require.Equal(t, sorted[less], next)
			}
			require.Equal(t, less, s.Below(n))
		}
	})
}

func TestSet_and(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOf(rapid.Uint32Range(0, 30))
		a, b := numbers.Draw(t, "a"), numbers.Draw(t, "b")
		left, right := setOf(a), setOf(b)
		both := left.And(right)
		require.ElementsMatch(t, setOf(slices.Concat(a, b)), both)
		require.ElementsMatch(t, setOf(a), left, "the operands stay")
		require.ElementsMatch(t, setOf(b), right)
	})
}
