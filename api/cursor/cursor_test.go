package cursor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLog_readsWhatItWrote(t *testing.T) {
	for _, c := range []Log{
		{Attempt: 1, Offsets: map[uint16]uint64{}},
		{Attempt: 1, Offsets: map[uint16]uint64{0: 4096}},
		{Attempt: 12, Offsets: map[uint16]uint64{2: 1, 0: 1 << 40, 1: 0}},
	} {
		got, err := ParseLog(c.String())
		require.NoError(t, err)
		require.Equal(t, c, got)
	}
	require.Equal(t, "3:0=7,10=9", Log{Attempt: 3, Offsets: map[uint16]uint64{10: 9, 0: 7}}.String())
	start, err := ParseLog("")
	require.NoError(t, err)
	require.Zero(t, start.Attempt)
}

func TestLog_refusesWhatItDidNotWrite(t *testing.T) {
	for _, text := range []string{"x", "0", "0:0=1", "1:0", "1:a=1", "1:0=-1", "1:70000=1", "1:0=1,", "99999999999:0=1", "1:0=18446744073709551615", "1:0=9223372036854775807"} {
		_, err := ParseLog(text)
		require.Errorf(t, err, "%q", text)
	}
}

func TestEvent_readsWhatItWroteAndNothingElse(t *testing.T) {
	for _, c := range []Event{{0, 0}, {17, 3}, {1 << 60, All}} {
		got, ok := ParseEvent(c.String())
		require.True(t, ok)
		require.Equal(t, c, got)
	}
	for _, text := range []string{"", "1", "1.", ".1", "1.-1", "1.2147483648", "a.1", "1.2.3", "-1.0"} {
		_, ok := ParseEvent(text)
		require.False(t, ok, text)
	}
}

func TestAt_isWhatParseLogSays(t *testing.T) {
	for _, text := range []string{"1:", "3:0=7,10=9", "12:10=1", "7", "", "x", "1:0=-1", "1:a=1", "0:0=1"} {
		whole, err := ParseLog(text)
		attempt, offset, ok := At(text, 10)
		if text == "1:0=-1" {
			continue // At does not read the rest of a cursor
		}
		require.Equal(t, err == nil && text != "", ok, text)
		if ok {
			require.Equal(t, whole.Attempt, attempt, text)
			require.Equal(t, whole.Offsets[10], offset, text)
		}
	}
}
