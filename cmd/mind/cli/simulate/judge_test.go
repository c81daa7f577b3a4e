package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/simulate"
)

func TestJudge(t *testing.T) {
	was := &simulate.Measures{WaitMeanSeconds: 600, Utilisation: 0.8, JainTenants: 0.9, WorstTenantSlowdown: 2}
	for _, c := range []struct {
		measure string
		is      simulate.Measures
		want    string
	}{
		{"mean-wait", simulate.Measures{WaitMeanSeconds: 629}, ""},
		{"mean-wait", simulate.Measures{WaitMeanSeconds: 660}, "mean-wait would go from 10m00s to 11m00s, 10.0 % worse"},
		{"mean-wait", simulate.Measures{}, ""},
		{"p99-wait", simulate.Measures{WaitP99Seconds: 60}, "p99-wait would go from 0s to 1m00s"},
		{"p99-wait", simulate.Measures{WaitP99Seconds: 0.9}, ""},
		{"utilisation", simulate.Measures{Utilisation: 0.7}, "utilisation would go from 80.00 % to 70.00 %, 12.5 % worse"},
		{"utilisation", simulate.Measures{Utilisation: 0.9}, ""},
		{"jain", simulate.Measures{JainTenants: 0.8}, "jain would go from 0.900 to 0.800, 11.1 % worse"},
		{"worst-tenant", simulate.Measures{WorstTenantSlowdown: 3}, "worst-tenant would go from 2.00 to 3.00, 50.0 % worse"},
	} {
		got, err := Judge(c.measure, was, &c.is, 0.05)
		require.NoError(t, err)
		require.Equal(t, c.want, got, c.measure)
	}
	_, err := Judge("speed", was, was, 0)
	require.EqualError(t, err, "--measure speed: it must be mean-wait, p99-wait, mean-completion, p99-completion, utilisation, jain, worst-tenant")
}

func TestParseTolerance(t *testing.T) {
	for text, want := range map[string]float64{"5%": 0.05, "5": 0.05, "0%": 0, "2.5 %": 0.025} {
		got, err := ParseTolerance(text)
		require.NoError(t, err)
		require.InDelta(t, want, got, 1e-12)
	}
	for _, text := range []string{"", "much", "-1%", "101%", "NaN"} {
		_, err := ParseTolerance(text)
		require.ErrorContains(t, err, "it must be a percentage from 0% to 100%, such as 5%", text)
	}
}

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"": {}, "36h": now.Add(-36 * time.Hour), "30d": now.Add(-30 * 24 * time.Hour),
		"2026-11-20": time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC), "2026-11-20T08:00:00Z": time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC),
	} {
		got, err := parseSince(text, now)
		require.NoError(t, err)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"yesterday", "-3h", "0d", "xd", "2026-11-25"} {
		_, err := parseSince(text, now)
		require.ErrorContains(t, err, "--since "+text+": it ", text)
	}
}
