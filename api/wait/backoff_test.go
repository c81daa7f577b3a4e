package wait

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBackoff_doublesUpToTheLongest(t *testing.T) {
	p := Backoff{First: time.Second, Longest: 5 * time.Second}
	for _, want := range []time.Duration{1, 2, 4, 5, 5} {
		require.Equal(t, want*time.Second, p.Next())
	}
	p.Reset()
	require.Equal(t, time.Second, p.Next())
}

func TestSpread_staysBetweenHalfAndWhole(t *testing.T) {
	for range 1000 {
		d := Spread(time.Second)
		require.GreaterOrEqual(t, d, time.Second/2)
		require.LessOrEqual(t, d, time.Second)
	}
}
