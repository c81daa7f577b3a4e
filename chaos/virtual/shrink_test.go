package virtual

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Shrink finds exactly the parts that are needed together, in far fewer tries than the number of parts.
func TestShrink_findsWhatIsNeeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "n")
		needed := rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 1, min(n, 4), rapid.ID).Draw(t, "needed")
		asked := 0
		got := Shrink(n, func(part []int) bool {
			asked++
			require.NotEmpty(t, part)
			require.Less(t, len(part), n)
			return !slices.ContainsFunc(needed, func(i int) bool { return !slices.Contains(part, i) })
		})
		slices.Sort(needed)
		require.Equal(t, needed, got)
		require.LessOrEqual(t, asked, 4*len(needed)*8+2*n)
	})
}

func TestShrink_oneIsNotShrunk(t *testing.T) {
	require.Equal(t, []int{0}, Shrink(1, func([]int) bool { panic("there is nothing to leave out") }))
	require.Empty(t, Shrink(0, func([]int) bool { panic("there is nothing to leave out") }))
}
