package coordinator

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCursor_readsWhatItWrote(t *testing.T) {
	for _, c := range []cursor{
		{attempt: 1, offsets: map[uint16]uint64{}},
		{attempt: 1, offsets: map[uint16]uint64{0: 4096}},
		{attempt: 12, offsets: map[uint16]uint64{2: 1, 0: 1 << 40, 1: 0}},
	} {
		got, err := parseCursor(c.String())
		require.NoError(t, err)
		require.Equal(t, c, got)
	}
	require.Equal(t, "3:0=7,10=9", cursor{attempt: 3, offsets: map[uint16]uint64{10: 9, 0: 7}}.String())
	start, err := parseCursor("")
	require.NoError(t, err)
	require.Zero(t, start.attempt)
}

func TestCursor_refusesWhatItDidNotWrite(t *testing.T) {
	for _, text := range []string{"x", "0", "0:0=1", "1:0", "1:a=1", "1:0=-1", "1:70000=1", "1:0=1,", "99999999999:0=1"} {
		_, err := parseCursor(text)
		require.Errorf(t, err, "%q", text)
	}
}

func TestLevelOf_aLineSaysItsOwnLevel(t *testing.T) {
	for line, want := range map[string]string{
		"2026-11-21 10:00:00 WARNING disk is slow": "WARNING",
		"[ERROR] out of memory":                    "ERROR",
		"INFO:root:step 1":                         "INFO",
		"an ERRORS counter":                        "INFO",
		"":                                         "INFO",
	} {
		require.Equal(t, want, levelOf(line, false), line)
	}
	require.Equal(t, "ERROR", levelOf("Traceback (most recent call last):", true))
	require.Equal(t, "INFO", levelOf("INFO on stderr", true))
}
