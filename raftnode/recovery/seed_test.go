package recovery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNextLife(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	index, term := nextLife(5000, 7, now)
	require.Equal(t, uint64(1_800_000_000)<<14, index)
	require.Equal(t, uint64(1_800_000_000), term)
	// The index and the term increase even if the clock stands still or was set back.
	again, later := nextLife(index+10, term+3, now)
	require.Equal(t, index+11, again)
	require.Equal(t, term+4, later)
	require.Less(t, uint64(time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC).Unix())<<lifeShift, uint64(1)<<48, "ids have room for 48 bits of index")
}
