package request

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseDuration_daysAndWeeks(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "3d": 3 * day, "1w": 7 * day, "1w2d12h": 9*day + 12*time.Hour, "1d30m": day + 30*time.Minute, "0": 0, "0d": 0, "-1h": -time.Hour,
	} {
		got, err := ParseDuration(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "d", "3", "3 d", "2h3d", "1d-1h", "1.5d", "99999999d"} {
		_, err := ParseDuration(text)
		require.ErrorContains(t, err, "is not a duration such as", text)
	}
}

func TestMoments(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-08-01T08:00:00Z": time.Date(2026, 8, 1, 8, 0, 0, 0, time.UTC), "2026-08-01": time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC),
		"2h": now.Add(2 * time.Hour), "+1d": now.Add(24 * time.Hour),
	} {
		got, err := Ahead(text, now)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	got, err := Ago("3d", now)
	require.NoError(t, err)
	require.Equal(t, now.Add(-72*time.Hour), got)
	_, err = Ago("yesterday", now)
	require.ErrorContains(t, err, "yesterday: it must be a duration")
}
