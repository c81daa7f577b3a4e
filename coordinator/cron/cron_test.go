package cron

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const layout = "2006-01-02 15:04 MST"

func TestNext(t *testing.T) {
	for name, c := range map[string]struct {
		expression, zone, after string
		want                    []string
	}{
		"every day":                        {"0 2 * * *", "UTC", "2026-01-31T02:00:00Z", []string{"2026-02-01 02:00 UTC", "2026-02-02 02:00 UTC"}},
		"in a zone":                        {"0 2 * * *", "America/New_York", "2026-01-31T00:00:00Z", []string{"2026-01-31 02:00 EST"}},
		"working days":                     {"30 9 * * 1-5", "UTC", "2026-11-20T10:00:00Z", []string{"2026-11-23 09:30 UTC", "2026-11-24 09:30 UTC"}},
		"either day":                       {"0 9 1 * 1", "UTC", "2026-11-27T00:00:00Z", []string{"2026-11-30 09:00 UTC", "2026-12-01 09:00 UTC"}},
		"a leap day":                       {"0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", []string{"2028-02-29 00:00 UTC"}},
		"by name":                          {"@monthly", "UTC", "2026-01-01T00:00:00Z", []string{"2026-02-01 00:00 UTC"}},
		"a time that is turned over":       {"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", []string{"2026-03-29 03:30 CEST", "2026-03-30 02:30 CEST"}},
		"a time that comes twice":          {"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", []string{"2026-10-25 02:30 CEST", "2026-10-26 02:30 CET"}},
		"between the two":                  {"30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", []string{"2026-10-26 02:30 CET"}},
		"each half hour, turned forward":   {"*/30 * * * *", "Europe/Berlin", "2026-03-29T00:30:00Z", []string{"2026-03-29 03:00 CEST", "2026-03-29 03:30 CEST"}},
		"each half hour, turned back":      {"*/30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", []string{"2026-10-25 02:30 CEST", "2026-10-25 02:00 CET", "2026-10-25 02:30 CET"}},
		"a step in one hour, turned back":  {"*/20 2 25 10 *", "Europe/Berlin", "2026-10-24T12:00:00Z", []string{"2026-10-25 02:00 CEST", "2026-10-25 02:20 CEST", "2026-10-25 02:40 CEST", "2026-10-25 02:00 CET", "2026-10-25 02:20 CET", "2026-10-25 02:40 CET"}},
		"a step in an hour that is not":    {"*/30 2 29 3 *", "Europe/Berlin", "2026-03-28T12:00:00Z", []string{"2027-03-29 02:00 CEST"}},
		"half an hour of daylight saving":  {"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", []string{"2026-10-04 02:45 +11", "2026-10-05 02:15 +11"}},
		"a day that was left out (Samoa)":  {"0 12 * * *", "Pacific/Apia", "2011-12-29T22:00:00Z", []string{"2011-12-31 12:00 +14", "2012-01-01 12:00 +14"}},
		"midnight that is turned over":     {"0 0 * * *", "America/Santiago", "2026-09-05T12:00:00Z", []string{"2026-09-06 01:00 -03", "2026-09-07 00:00 -03"}},
		"a minute of each hour, as it was": {"5 * * * *", "UTC", "2026-01-01T00:05:00Z", []string{"2026-01-01 01:05 UTC"}},
	} {
		t.Run(name, func(t *testing.T) {
			zone, err := Zone(c.zone)
			require.NoError(t, err)
			times, err := Parse(c.expression, zone)
			require.NoError(t, err)
			at, err := time.Parse(time.RFC3339, c.after)
			require.NoError(t, err)
			for _, want := range c.want {
				at = times.Next(at)
				require.Equal(t, want, at.In(zone).Format(layout))
			}
		})
	}
}

func TestParse_saysWhatIsWrong(t *testing.T) {
	for expression, says := range map[string]string{
		"":                         "five fields",
		"* * * *":                  "five fields",
		"0 0 2 * * *":              "five fields",
		"61 * * * *":               "five fields",
		"@every 1h":                "*/15",
		"TZ=Asia/Tokyo 0 0 * * *":  "timezone",
		"CRON_TZ=UTC 0 0 * * *":    "timezone",
		"0 0 31 2 *":               "never",
		string(make([]byte, 1000)): "at most",
	} {
		_, err := Parse(expression, time.UTC)
		require.ErrorContains(t, err, says, expression)
	}
	for _, zone := range []string{"Local", "Mars/Phobos", "../../etc/passwd"} {
		_, err := Zone(zone)
		require.ErrorContains(t, err, "Europe/Berlin", zone)
	}
}

func TestNewest(t *testing.T) {
	times, err := Parse("0 * * * *", time.UTC)
	require.NoError(t, err)
	at := func(hour, minute int) time.Time { return time.Date(2026, 5, 1, hour, minute, 0, 0, time.UTC) }
	newest, passed := times.Newest(at(3, 0), at(3, 0), 100)
	require.Equal(t, []any{at(3, 0), uint64(0)}, []any{newest, passed})
	newest, passed = times.Newest(at(3, 0), at(6, 59), 100)
	require.Equal(t, []any{at(6, 0), uint64(3)}, []any{newest, passed})
	newest, passed = times.Newest(at(3, 0), at(3, 0).AddDate(2, 0, 0), 100)
	require.Equal(t, at(3, 0).AddDate(2, 0, 0), newest)
	require.Less(t, passed, uint64(200), "it does not count each of them")
}

// TestNext_anywhere checks for random zones and times that the result of Next is later, and that no time in between is
// due by the local clock.
func TestNext_anywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone, err := Zone(rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "America/Santiago"}).Draw(t, "zone"))
		require.NoError(t, err)
		expression := rapid.SampledFrom([]string{"30 2 * * *", "0 0 * * *", "15 1-3 * * *", "*/20 * * * *", "7 * * * *", "0 3 1 * 0"}).Draw(t, "expression")
		times, err := Parse(expression, zone)
		require.NoError(t, err)
		after := time.Unix(rapid.Int64Range(1.7e9, 2.0e9).Draw(t, "after"), 0)
		next := times.Next(after)
		require.True(t, next.After(after))
		require.Equal(t, next, times.Next(next.Add(-time.Second)), "it is the first after what is just before it")
		if after.Add(time.Second).Before(next) {
			require.Equal(t, next, times.Next(after.Add(time.Second)))
		}
		mid := after.Add(next.Sub(after) / 2)
		if mid.Before(next) {
			require.Equal(t, next, times.Next(mid), "nothing is due between")
		}
	})
}
