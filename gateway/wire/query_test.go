package wire

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Durations back from now may be in days as well as in hours.
func TestSince_takesDays(t *testing.T) {
	now := time.Date(2026, 3, 31, 8, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{"30d": 30 * 24 * time.Hour, "0d": 0, "36h": 36 * time.Hour, "1e3": 1000 * time.Second} {
		at, ok := Since(text, now)
		require.True(t, ok, text)
		require.Equal(t, now.Add(-want), at, text)
	}
	for _, text := range []string{"d", "-1d", "1.5d", "99999999d", "3dd", "1d2h"} {
		_, ok := Since(text, now)
		require.False(t, ok, text)
	}
	request, faults := ExplainJob(url.Values{"at": {"300d"}}, now)
	require.Empty(t, faults)
	require.Equal(t, now.AddDate(0, 0, -300), request.GetAtTime().AsTime())
}

func TestRules_arePlain(t *testing.T) {
	require.Contains(t, KeyRule, "printable ASCII")
}
