package ratelimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var start = time.Unix(60_000, 0) // the beginning of a window

func take(l *Limiter, at time.Duration, limits ...Limit) Decision {
	return l.Take(start.Add(at), limits...)
}

func TestTake_refusesBeyondTheLimit(t *testing.T) {
	l := New()
	limit := Limit{Kind: "user", Key: "ann", PerMinute: 3}
	for left := 2; left >= 0; left-- {
		v := take(l, 0, limit)
		require.True(t, v.Admitted)
		require.Equal(t, left, v.Remaining)
		require.Equal(t, 3, v.Limit)
	}
	v := take(l, 0, limit)
	require.False(t, v.Admitted)
	require.Positive(t, v.RetryAfter)
	require.True(t, take(l, v.RetryAfter, limit).Admitted, "a caller that waits for RetryAfter is admitted")
	require.True(t, take(l, 0, Limit{Kind: "user", Key: "bob", PerMinute: 3}).Admitted, "others are counted for themselves")
}

func TestTake_aRefusedRequestCountsNowhere(t *testing.T) {
	l := New()
	narrow, wide := Limit{"token", "t", 1}, Limit{"tenant", "acme", 10}
	require.True(t, take(l, 0, narrow, wide).Admitted)
	for range 50 {
		require.False(t, take(l, 0, narrow, wide).Admitted)
	}
	require.Equal(t, 8, take(l, 0, wide).Remaining)
}

func TestTake_withoutLimits(t *testing.T) {
	l := New()
	for range 1000 {
		v := take(l, 0, Limit{"user", "ann", 0})
		require.True(t, v.Admitted)
		require.False(t, v.Limited)
	}
	require.Empty(t, l.counts)
}

func TestTake_forgets(t *testing.T) {
	l := New()
	for i := range 1000 {
		take(l, 0, Limit{"user", string(rune(i)), 5})
	}
	take(l, 2*Window, Limit{"user", "ann", 5})
	require.Len(t, l.counts, 1)
}

// At any rate of requests, no window admits more than the limit, and a caller that waits for RetryAfter is admitted.
func TestTake_property(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := New()
		limit := Limit{"user", "ann", rapid.IntRange(1, 20).Draw(t, "limit")}
		at := time.Duration(0)
		windows := map[int64]int{}
		for range rapid.IntRange(1, 200).Draw(t, "n") {
			at += time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "pause"))
			v := take(l, at, limit)
			if v.Admitted {
				windows[int64(at/Window)]++
				require.LessOrEqual(t, windows[int64(at/Window)], limit.PerMinute)
				continue
			}
			at += v.RetryAfter
			require.True(t, take(l, at, limit).Admitted, "after %s", v.RetryAfter)
			windows[int64(at/Window)]++
		}
	})
}
